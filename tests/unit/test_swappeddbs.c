/* swappeddbs.h: the number that stays with the data of a database, after any number of swaps. */
#include "core/swappeddbs.h"

#include "core/mem.h"
#include "support/unit.h"

#define DATABASES 8
#define SWAPS 1000

static void numbers_are_the_same_before_the_first_swap(void **state) {
    (void)state;
    struct swappeddbs dbs = {0};
    assert_int_equal(swappeddbsStaying(&dbs, 0), 0);
    assert_int_equal(swappeddbsCurrent(&dbs, 15), 15);
    swappeddbsReset(&dbs);
}

static void numbers_beyond_those_swapped_are_the_same(void **state) {
    (void)state;
    struct swappeddbs dbs = {0};
    swappeddbsSwap(&dbs, 3, 1);
    assert_int_equal(swappeddbsStaying(&dbs, 2), 2);
    assert_int_equal(swappeddbsStaying(&dbs, 4), 4);
    assert_int_equal(swappeddbsCurrent(&dbs, 4), 4);
    swappeddbsReset(&dbs);
}

static void number_stays_with_its_data_over_many_swaps(void **state) {
    (void)state;
    struct swappeddbs dbs = {0};
    int data[DATABASES]; /* the number that stays with the data of each database */
    for (int i = 0; i < DATABASES; i++) {
        data[i] = i;
    }
    for (int i = 0; i < SWAPS; i++) {
        int first = i % DATABASES, second = i * 5 / 3 % DATABASES, moved = data[first];
        swappeddbsSwap(&dbs, first, second);
        data[first] = data[second];
        data[second] = moved;
        for (int db = 0; db < DATABASES; db++) {
            assert_int_equal(swappeddbsStaying(&dbs, db), data[db]);
            assert_int_equal(swappeddbsCurrent(&dbs, data[db]), db);
        }
    }
    swappeddbsReset(&dbs);
}

static void reset_forgets_swaps_and_frees_memory(void **state) {
    (void)state;
    struct swappeddbs dbs = {0};
    size_t before = memLive();
    swappeddbsSwap(&dbs, 0, 9);
    swappeddbsReset(&dbs);
    assert_int_equal(memLive(), before);
    assert_int_equal(swappeddbsStaying(&dbs, 9), 9);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(numbers_are_the_same_before_the_first_swap),
        UNIT(numbers_beyond_those_swapped_are_the_same),
        UNIT(number_stays_with_its_data_over_many_swaps),
        UNIT(reset_forgets_swaps_and_frees_memory),
    };
    return cmocka_run_group_tests_name("swappeddbs", tests, NULL, NULL);
}
