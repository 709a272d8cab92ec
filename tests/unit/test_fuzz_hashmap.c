/* A random walk over a map, compared with an array of items that record whether they are in it. */
#include <string.h>

#include "core/hashmap.h"
#include "support/items.h"
#include "support/unit.h"

#define MANY 300

/* One of a few keys, so that equal keys, prefixes and zero bytes are frequent. */
static size_t randomKey(struct fuzz *fuzz, char *bytes) {
    size_t length = fuzzBelow(fuzz, 4);
    for (size_t i = 0; i < length; i++) {
        bytes[i] = "\0ab\xff"[fuzzBelow(fuzz, 4)];
    }
    return length;
}

/* Adds the item after the others of its key, or before one of them. */
static void addSomewhere(struct fuzz *fuzz, struct map *map, struct item *item) {
    char key[4];
    size_t length = randomKey(fuzz, key);
    struct mapEntry *other = mapFind(map, key, length);
    struct mapEntry *before_it = NULL;
    while (other && mapFindNext(other) && fuzzOneIn(fuzz, 2)) {
        before_it = other;
        other = mapFindNext(other);
    }
    if (other && fuzzOneIn(fuzz, 2)) {
        itemAddBefore(map, item, itemOf(other));
        assert_ptr_equal(mapFindNext(&item->entry), other);
        assert_ptr_equal(before_it ? mapFindNext(before_it) : mapFind(map, key, length),
                         &item->entry);
    } else {
        itemAdd(map, item, key, length);
        assert_null(mapFindNext(&item->entry));
    }
}

static void removeAll(struct map *map, struct item *items, size_t count) {
    struct nthRemoval removal = {map, 1, 0};
    mapEach(map, itemRemoveNthVisit, &removal);
    for (size_t i = 0; i < count; i++) {
        assert_false(items[i].in_map);
    }
}

static void assertEachIsTheModel(struct map *map, struct item *items, size_t count) {
    size_t visits = 0;
    for (size_t i = 0; i < count; i++) {
        items[i].visits = 0;
    }
    mapEach(map, itemCountVisit, &visits);
    assert_int_equal(visits, map->used);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(items[i].visits, items[i].in_map);
    }
}

static void a_random_walk_agrees_with_an_array(void **state) {
    (void)state;
    struct fuzz fuzz = fuzzStart("hashmap", 50000);
    size_t before = memLive(), used = 0;
    struct map map = {0};
    static struct item items[MANY];
    memset(items, 0, sizeof items);
    mapSeed((const uint64_t[2]){fuzzNext(&fuzz), fuzzNext(&fuzz)});
    for (size_t step = 0; step < fuzz.steps; step++) {
        struct item *item = &items[fuzzBelow(&fuzz, MANY)];
        if (item->in_map) {
            itemRemove(&map, item);
            used--;
        } else {
            addSomewhere(&fuzz, &map, item);
            used++;
        }
        assert_int_equal(map.used, used);
        assert_int_equal(memLive() - before, mapMemory(&map));
        assert_int_equal(map.buckets != NULL, used > 0);
        char key[4];
        size_t length = randomKey(&fuzz, key);
        itemsAssertFound(&map, items, MANY, key, length);
        if (fuzzOneIn(&fuzz, 50)) {
            assertEachIsTheModel(&map, items, MANY);
        }
        if (fuzzOneIn(&fuzz, 1000)) { /* to start again from an empty map, and grow */
            removeAll(&map, items, MANY);
            used = 0;
        }
    }
    removeAll(&map, items, MANY);
    mapSeed((const uint64_t[2]){0, 0});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(a_random_walk_agrees_with_an_array),
    };
    return cmocka_run_group_tests_name("fuzz hashmap", tests, NULL, NULL);
}
