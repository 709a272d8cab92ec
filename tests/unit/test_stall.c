/* stall.[ch]: since when the server knows which replicas it has, at every pace of its cron. */
#include "core/stall.h"

#include "support/unit.h"

#define START INT64_C(1795000000000)

static const int paces[] = {1, 2, 3, 7, 10, 99, 100, 333, 334, 500};
#define PACES (sizeof(paces) / sizeof(paces[0]))

/* So many rounds of the cron, and the time of the last. */
static int64_t runs(int hz, int64_t since_ms, int rounds) {
    for (int i = 0; i < rounds; i++) {
        since_ms += 1000 / hz;
        stallCron(since_ms, hz);
    }
    return since_ms;
}

static int64_t begins(int hz) {
    stallBegin(START);
    return runs(hz, START, 3 * hz);
}

static void a_server_that_runs_does_not_stand_still(void **state) {
    (void)state;
    for (size_t i = 0; i < PACES; i++) {
        int64_t now_ms = begins(paces[i]);
        for (int round = 0; round < 3 * paces[i]; round++) {
            assert_false(stallAt(now_ms + 1000 / paces[i]));
            now_ms = runs(paces[i], now_ms, 1);
        }
    }
}

static void it_may_be_a_second_late(void **state) {
    (void)state;
    for (size_t i = 0; i < PACES; i++) {
        assert_false(stallAt(begins(paces[i]) + STALL_MS - 1000));
    }
}

static void a_stop_is_seen_before_the_cron_is_called_again(void **state) {
    (void)state;
    for (size_t i = 0; i < PACES; i++) {
        assert_true(stallAt(begins(paces[i]) + STALL_MS + 1));
    }
}

static void it_lasts_until_the_cron_must_have_counted(void **state) {
    (void)state;
    for (size_t i = 0; i < PACES; i++) {
        int hz = paces[i], needed = hz > 1 ? 1000 / (1000 / hz) : 0;
        int64_t now_ms = runs(hz, begins(hz) + 60000, 1);
        for (int round = 0; round < needed; round++) {
            assert_true(stallAt(now_ms));
            now_ms = runs(hz, now_ms, 1);
        }
        assert_false(stallAt(now_ms));
    }
}

/* Ten rounds that should have taken a second have taken six. */
static void rounds_that_are_all_slow_are_a_stall(void **state) {
    (void)state;
    int64_t now_ms = begins(10);
    for (int round = 0; round < 10; round++) {
        now_ms += 600;
        stallCron(now_ms, 10);
    }
    assert_true(stallAt(now_ms));
    assert_false(stallAt(runs(10, now_ms, 10)));
}

static void a_quicker_cron_needs_more_rounds(void **state) {
    (void)state;
    int64_t now_ms = runs(10, begins(10) + 60000, 10);
    stallCron(now_ms, 100);
    assert_true(stallAt(now_ms));
    assert_false(stallAt(runs(100, now_ms, 100)));
}

static void what_was_before_the_beginning_does_not_matter(void **state) {
    (void)state;
    int64_t now_ms = begins(10) + 60000;
    stallBegin(now_ms);
    assert_false(stallAt(now_ms + 1000));
    assert_true(stallAt(now_ms + STALL_MS + 1)); /* no round in all that time */
}

static void a_clock_that_steps_back_is_no_stall(void **state) {
    (void)state;
    assert_false(stallAt(begins(10) - 3600000));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(a_server_that_runs_does_not_stand_still),
        UNIT(it_may_be_a_second_late),
        UNIT(a_stop_is_seen_before_the_cron_is_called_again),
        UNIT(it_lasts_until_the_cron_must_have_counted),
        UNIT(rounds_that_are_all_slow_are_a_stall),
        UNIT(a_quicker_cron_needs_more_rounds),
        UNIT(what_was_before_the_beginning_does_not_matter),
        UNIT(a_clock_that_steps_back_is_no_stall),
    };
    return cmocka_run_group_tests_name("stall", tests, NULL, NULL);
}
