/* keyslot.[ch]: hash tags, and the slots that CLUSTER KEYSLOT returns. */
#include "core/keyslot.h"

#include <stdlib.h>
#include <string.h>

#include "support/unit.h"

/* Without the zero behind it, so that the sanitizer detects reads beyond the end. */
static char *exactly(const char *name, size_t length) {
    char *exact = calloc(length + 1, 1);
    memcpy(exact + 1, name, length);
    return exact;
}

static int slotOf(const char *name, size_t length) {
    char *exact = exactly(name, length);
    int slot = keyslotOf(exact + 1, length);
    free(exact);
    return slot;
}

static bool hasTag(const char *name) {
    size_t length = strlen(name);
    char *exact = exactly(name, length);
    bool has = keyslotHasTag(exact + 1, length);
    free(exact);
    return has;
}

#define assert_slot(name, wanted) assert_int_equal(slotOf(name, sizeof(name) - 1), wanted)
#define assert_same_slot(name, other) \
    assert_int_equal(slotOf(name, strlen(name)), slotOf(other, strlen(other)))

static void slot_is_that_of_cluster_keyslot(void **state) {
    (void)state;
    assert_slot("", 0);
    assert_slot("123456789", 12739);
    assert_slot("a", 15495);
    assert_slot("foo", 12182);
    assert_slot("{", 4092);
    assert_slot("}", 12090);
    assert_slot("{}", 15257);
    assert_slot("a{}b{c}", 7353);
    assert_slot("x\000y", 7703);
    assert_slot("user:7", 2780);
    assert_slot("a}b{c", 13587);
    assert_slot("{a", 10276);
    assert_slot("\377\376", 3374);
}

static void only_the_tag_is_hashed(void **state) {
    (void)state;
    assert_same_slot("{user:7}:from", "{user:7}:to");
    assert_same_slot("{user:7}:from", "user:7");
    assert_same_slot("a{b}c{d}", "b");
    assert_same_slot("a{{b}}", "{b");
    assert_same_slot("}{b}", "b");
}

static void name_has_a_tag_only_if_its_braces_enclose_something(void **state) {
    (void)state;
    static const char *const without[] = {"",        "a",  "{",  "}",  "{}",
                                          "a{}b{c}", "{a", "a}", "}{", "a}b{c"};
    for (size_t i = 0; i < LENGTH_OF(without); i++) {
        assert_false(hasTag(without[i]));
    }
    static const char *const with[] = {"{a}", "{a}b", "b{a}", "{{}", "{a}{}", "}{a}"};
    for (size_t i = 0; i < LENGTH_OF(with); i++) {
        assert_true(hasTag(with[i]));
    }
}

static void every_byte_counts(void **state) {
    (void)state;
    char name[256];
    for (size_t i = 0; i < sizeof(name); i++) {
        name[i] = (char)i;
    }
    assert_int_equal(slotOf(name, sizeof(name)), 16155);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(slot_is_that_of_cluster_keyslot),
        UNIT(only_the_tag_is_hashed),
        UNIT(name_has_a_tag_only_if_its_braces_enclose_something),
        UNIT(every_byte_counts),
    };
    return cmocka_run_group_tests_name("keyslot", tests, NULL, NULL);
}
