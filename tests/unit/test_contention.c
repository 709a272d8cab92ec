/* contention.[ch]: what is counted of waits, and which lock is replaced when there is no room. */
#include "core/contention.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "support/unit.h"

#define LONG (CONTENTION_LONGEST_NAME + 100)

/* The map of a caller, whose entries have the names of locks as keys. */
static struct map names;
static struct mapEntry entries[8];
static size_t entry_count;

static const struct mapEntry *named(const char *name, size_t length) {
    struct mapEntry *found = mapFind(&names, name, length);
    if (!found) {
        found = &entries[entry_count++ % 8];
        if (found->key) {
            mapRemove(&names, found);
        }
        mapAdd(&names, found, name, length);
    }
    return found;
}

/* Without a trail, so that each lock is found by a search. */
static struct contentionEvent of(const struct mapEntry *name, size_t waiting, int64_t now_us) {
    static struct contentionTrail trail;
    trail = (struct contentionTrail){0};
    return (struct contentionEvent){
        .name = name, .trail = &trail, .waiting = waiting, .now_us = now_us};
}

static struct contentionEvent at(int64_t now_us, const char *name, size_t waiting) {
    return of(named(name, strlen(name)), waiting, now_us);
}

static void begin(struct contention *sketch, struct contentionEvent event) {
    contentionBegin(sketch, &event);
}

static void end(struct contention *sketch, struct contentionEvent event, int64_t began_us,
                bool is_hand_off) {
    contentionEnd(sketch, &event, began_us, is_hand_off);
}

static struct contentionView first(const struct contention *sketch, int64_t now_us) {
    struct contentionView view = {0};
    assert_int_equal(contentionTop(sketch, now_us, &view, 1), 1);
    return view;
}

static void assertIsNamed(struct contentionView view, const char *name) {
    assert_int_equal(view.name_length, strlen(name));
    assert_memory_equal(view.name, name, view.name_length);
}

static int setUp(void **state) {
    static struct contention sketch;
    sketch = (struct contention){0};
    *state = &sketch;
    return 0;
}

static int tearDown(void **state) {
    struct contention *sketch = *state;
    assert_int_equal(memLive(), contentionMemory(sketch) + (names.used > 0));
    contentionFree(sketch);
    while (names.used > 0) {
        struct mapEntry *entry = &entries[--entry_count % 8];
        mapRemove(&names, entry);
        *entry = (struct mapEntry){0};
    }
    entry_count = 0;
    assert_int_equal(memLive(), 0);
    return 0;
}

static void an_empty_sketch_shows_nothing(void **state) {
    struct contentionView view;
    assert_int_equal(contentionTop(*state, 5, &view, 1), 0);
    contentionReset(*state, 5);
    assert_int_equal(contentionMemory(*state), 0);
}

static void times_of_waiters_add_up(void **state) {
    begin(*state, at(100, "a", 1));
    begin(*state, at(110, "a", 2));
    end(*state, at(150, "a", 1), 100, true);
    struct contentionView a = first(*state, 170);
    assertIsNamed(a, "a");
    assert_int_equal(a.time_us, 10 + 2 * 40 + 20);
    assert_int_equal(a.waits, 2);
    assert_int_equal(a.waiting, 1);
    assert_int_equal(a.longest_us, 50);
    assert_int_equal(a.error_us, 0);
    end(*state, at(200, "a", 0), 110, true);
    a = first(*state, 1000);
    assert_int_equal(a.time_us, 50 + 90);
    assert_int_equal(a.longest_us, 90);
    assert_int_equal(a.waiting, 0);
}

/* From the arrival of the first waiter, or from the last hand-off. A wait that ends in another way
 * is no hand-off. */
static void a_holder_keeps_others_waiting_until_the_hand_off(void **state) {
    begin(*state, at(100, "a", 1));
    begin(*state, at(120, "a", 2));
    begin(*state, at(130, "a", 3));
    end(*state, at(140, "a", 2), 130, false); /* timed out */
    end(*state, at(150, "a", 1), 100, true);
    end(*state, at(180, "a", 0), 120, true);
    struct contentionView a = first(*state, 200);
    assert_int_equal(a.kept, 2);
    assert_int_equal(a.kept_us, 50 + 30);
    begin(*state, at(500, "a", 1));
    end(*state, at(507, "a", 0), 500, true);
    assert_int_equal(first(*state, 600).kept_us, 87);
}

static void the_lock_with_the_most_time_is_first(void **state) {
    begin(*state, at(0, "short", 1));
    begin(*state, at(0, "none", 1));
    end(*state, at(0, "none", 0), 0, true);
    end(*state, at(10, "short", 0), 0, true);
    begin(*state, at(10, "ongoing", 1));
    struct contentionView top[CONTENTION_LOCKS];
    assert_int_equal(contentionTop(*state, 15, top, CONTENTION_LOCKS), 3);
    assertIsNamed(top[0], "short");
    assertIsNamed(top[1], "ongoing");
    assertIsNamed(top[2], "none");
    assert_int_equal(contentionTop(*state, 25, top, 2), 2);
    assertIsNamed(top[0], "ongoing");
}

static void databases_are_distinguished(void **state) {
    struct contentionEvent event = at(0, "a", 1);
    begin(*state, event);
    event = at(4, "a", 1);
    event.db = 3;
    begin(*state, event);
    struct contentionView top[2];
    assert_int_equal(contentionTop(*state, 10, top, 2), 2);
    assert_int_equal(top[0].db, 0);
    assert_int_equal(top[0].time_us, 10);
    assert_int_equal(top[1].db, 3);
    assert_int_equal(top[1].time_us, 6);
}

static void the_beginning_of_a_long_name_is_shown(void **state) {
    static char one[LONG], other[LONG];
    memset(one, 'n', LONG);
    memset(other, 'n', LONG);
    other[LONG - 1] = 'x';
    begin(*state, of(named(one, LONG), 1, 0));
    begin(*state, of(named(other, LONG), 1, 10));
    contentionReset(*state, 10);
    end(*state, of(named(other, LONG), 1, 20), 10, false);
    begin(*state, of(named(one, CONTENTION_LONGEST_NAME), 1, 20));
    struct contentionView view[4];
    assert_int_equal(contentionTop(*state, 30, view, 4), 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(view[i].name_length, CONTENTION_LONGEST_NAME);
        assert_memory_equal(view[i].name, one, CONTENTION_LONGEST_NAME);
        assert_int_equal(view[i].time_us, i < 2 ? 20 : 10);
        assert_int_equal(view[i].is_cut, i < 2);
    }
}

/* Adds `count` locks, each with one wait of 100 µs from `from_us` on. */
static void fill(struct contention *sketch, int count, int64_t from_us) {
    static char name[CONTENTION_LOCKS * 2][8];
    for (int i = 0; i < count; i++) {
        snprintf(name[i], sizeof(name[i]), "l%d", i);
        begin(sketch, at(from_us, name[i], 1));
        end(sketch, at(from_us + 100, name[i], 0), from_us, true);
    }
}

static void a_new_lock_in_a_full_sketch_inherits_the_least_time_as_its_error(void **state) {
    fill(*state, CONTENTION_LOCKS, 0);
    begin(*state, at(200, "new", 1));
    struct contentionView top[CONTENTION_LOCKS + 1];
    assert_int_equal(contentionTop(*state, 200, top, CONTENTION_LOCKS + 1), CONTENTION_LOCKS);
    assertIsNamed(top[CONTENTION_LOCKS - 1], "new");
    assert_int_equal(top[CONTENTION_LOCKS - 1].error_us, 100);
    assert_int_equal(top[CONTENTION_LOCKS - 1].time_us, 0);
    struct contentionView view = first(*state, 1000);
    assertIsNamed(view, "new");
    assert_int_equal(view.time_us, 800);
}

static void a_lock_with_waiters_is_kept_although_no_wait_has_ended(void **state) {
    begin(*state, at(0, "stuck", 1));
    fill(*state, CONTENTION_LOCKS - 1, 0);
    fill(*state, CONTENTION_LOCKS + 20, 1000);
    struct contentionView view = first(*state, 5000);
    assertIsNamed(view, "stuck");
    assert_int_equal(view.time_us, 5000);
}

static void a_wait_that_ends_after_its_lock_has_lost_its_place_counts_in_full(void **state) {
    fill(*state, CONTENTION_LOCKS, 0);
    end(*state, at(900, "late", 0), 200, true);
    struct contentionView view = first(*state, 1000);
    assertIsNamed(view, "late");
    assert_int_equal(view.time_us, 700);
    assert_int_equal(view.waits, 1);
    assert_int_equal(view.waiting, 0);
    assert_int_equal(view.kept, 0);
}

static void what_was_before_a_reset_does_not_count_later(void **state) {
    begin(*state, at(100, "a", 1));
    contentionReset(*state, 200);
    fill(*state, CONTENTION_LOCKS - 1, 200);
    begin(*state, at(200, "b", 1)); /* replaces the lock with the least time: "a" */
    end(*state, at(250, "b", 0), 200, true);
    end(*state, at(300, "a", 0), 100, true);
    struct contentionView view = first(*state, 300);
    assertIsNamed(view, "a");
    assert_int_equal(view.time_us, 100);
    assert_int_equal(view.longest_us, 200);
}

/* More locks have waiters than are updated before one is replaced. */
static void the_error_is_the_whole_time_of_the_lock_that_was_replaced(void **state) {
    static char name[CONTENTION_LOCKS][8];
    for (int i = 0; i < CONTENTION_LOCKS; i++) {
        snprintf(name[i], sizeof(name[i]), "w%d", i);
        begin(*state, at(0, name[i], 1));
    }
    begin(*state, at(1000, "new", 1));
    struct contentionView top[CONTENTION_LOCKS];
    assert_int_equal(contentionTop(*state, 1000, top, CONTENTION_LOCKS), CONTENTION_LOCKS);
    assertIsNamed(top[CONTENTION_LOCKS - 1], "new");
    assert_int_equal(top[CONTENTION_LOCKS - 1].error_us, 1000);
}

/* Also if another lock has the place meanwhile, and after a reset. */
static void a_trail_leads_to_its_own_lock_or_to_none(void **state) {
    struct contentionTrail a = {0};
    struct contentionEvent event = at(0, "a", 1);
    event.trail = &a;
    begin(*state, event);
    event = at(10, "not read", 0);
    event.trail = &a;
    end(*state, event, 0, true);
    assertIsNamed(first(*state, 20), "a");
    contentionReset(*state, 20);
    begin(*state, at(20, "other", 1));
    event = at(30, "a", 1);
    event.trail = &a;
    begin(*state, event);
    struct contentionView top[3];
    assert_int_equal(contentionTop(*state, 50, top, 3), 2);
    assertIsNamed(top[0], "other");
    assertIsNamed(top[1], "a");
    assert_int_equal(top[1].time_us, 20);
}

/* The heap still has the time with which each lock began: 0. */
static void the_lock_with_the_least_time_is_replaced(void **state) {
    static char name[CONTENTION_LOCKS][8];
    for (int i = 0; i < CONTENTION_LOCKS; i++) {
        snprintf(name[i], sizeof(name[i]), "l%d", i);
        begin(*state, at(0, name[i], 1));
        end(*state, at(i == 100 ? 70 : 500 - i, name[i], 0), 0, true);
    }
    begin(*state, at(600, "new", 1));
    struct contentionView top[CONTENTION_LOCKS];
    assert_int_equal(contentionTop(*state, 600, top, CONTENTION_LOCKS), CONTENTION_LOCKS);
    assertIsNamed(top[CONTENTION_LOCKS - 1], "new");
    assert_int_equal(top[CONTENTION_LOCKS - 1].error_us, 70);
    for (int i = 0; i < CONTENTION_LOCKS - 1; i++) {
        assert_true(top[i].time_us > 70);
    }
}

/* Although the heap does not know the time since it was added. */
static void the_lock_with_the_most_time_stays_while_all_have_waiters(void **state) {
    static char name[2 * CONTENTION_LOCKS][8];
    begin(*state, at(0, "most", 9));
    for (int i = 0; i < 2 * CONTENTION_LOCKS; i++) {
        snprintf(name[i], sizeof(name[i]), "w%d", i);
        begin(*state, at(i, name[i], 1));
    }
    struct contentionView view = first(*state, 1000);
    assertIsNamed(view, "most");
    assert_int_equal(view.time_us, 9000);
}

static void a_reset_keeps_locks_with_waiters_and_forgets_the_past(void **state) {
    fill(*state, 20, 0);
    begin(*state, at(100, "a", 1));
    begin(*state, at(100, "a", 2));
    contentionReset(*state, 300);
    struct contentionView top[2];
    assert_int_equal(contentionTop(*state, 310, top, 2), 1);
    assertIsNamed(top[0], "a");
    assert_int_equal(top[0].time_us, 20);
    assert_int_equal(top[0].waits, 2);
    assert_int_equal(top[0].longest_us, 0);
}

static void extreme_clocks_and_sums_are_handled(void **state) {
    begin(*state, at(INT64_MAX - 10, "a", 5));
    end(*state, at(5, "a", 4), INT64_MAX - 10, true);
    assert_int_equal(first(*state, 5).time_us, 0);
    assert_true(first(*state, INT64_MAX).time_us == INT64_MAX);
}

int main(void) {
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_empty_sketch_shows_nothing, setUp, tearDown),
        cmocka_unit_test_setup_teardown(times_of_waiters_add_up, setUp, tearDown),
        cmocka_unit_test_setup_teardown(a_holder_keeps_others_waiting_until_the_hand_off, setUp,
                                        tearDown),
        cmocka_unit_test_setup_teardown(the_lock_with_the_most_time_is_first, setUp, tearDown),
        cmocka_unit_test_setup_teardown(databases_are_distinguished, setUp, tearDown),
        cmocka_unit_test_setup_teardown(the_beginning_of_a_long_name_is_shown, setUp, tearDown),
        cmocka_unit_test_setup_teardown(
            a_new_lock_in_a_full_sketch_inherits_the_least_time_as_its_error, setUp, tearDown),
        cmocka_unit_test_setup_teardown(a_lock_with_waiters_is_kept_although_no_wait_has_ended,
                                        setUp, tearDown),
        cmocka_unit_test_setup_teardown(
            a_wait_that_ends_after_its_lock_has_lost_its_place_counts_in_full, setUp, tearDown),
        cmocka_unit_test_setup_teardown(what_was_before_a_reset_does_not_count_later, setUp,
                                        tearDown),
        cmocka_unit_test_setup_teardown(the_error_is_the_whole_time_of_the_lock_that_was_replaced,
                                        setUp, tearDown),
        cmocka_unit_test_setup_teardown(a_trail_leads_to_its_own_lock_or_to_none, setUp, tearDown),
        cmocka_unit_test_setup_teardown(the_lock_with_the_least_time_is_replaced, setUp, tearDown),
        cmocka_unit_test_setup_teardown(the_lock_with_the_most_time_stays_while_all_have_waiters,
                                        setUp, tearDown),
        cmocka_unit_test_setup_teardown(a_reset_keeps_locks_with_waiters_and_forgets_the_past,
                                        setUp, tearDown),
        cmocka_unit_test_setup_teardown(extreme_clocks_and_sums_are_handled, setUp, tearDown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
