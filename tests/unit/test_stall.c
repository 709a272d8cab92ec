/* stall.[ch]: since when the server knows which replicas it has, at different rates of its cron. */
#include "core/stall.h"

#include "support/unit.h"

#define START INT64_C(1795000000000)

static const int rates[] = {1, 2, 3, 7, 10, 99, 100, 333, 334, 500};
#define RATES (sizeof(rates) / sizeof(rates[0]))

/* Runs the cron `runs` times. Returns the time of the last run. */
static int64_t runCron(int hz, int64_t since_ms, int runs) {
    for (int i = 0; i < runs; i++) {
        since_ms += 1000 / hz;
        stallCron(since_ms, hz);
    }
    return since_ms;
}

static int64_t beginAndRun(int hz) {
    stallBegin(START);
    return runCron(hz, START, 3 * hz);
}

static void a_server_that_runs_is_not_stalled(void **state) {
    (void)state;
    for (size_t i = 0; i < RATES; i++) {
        int64_t now_ms = beginAndRun(rates[i]);
        for (int run = 0; run < 3 * rates[i]; run++) {
            assert_false(stallAt(now_ms + 1000 / rates[i]));
            now_ms = runCron(rates[i], now_ms, 1);
        }
    }
}

static void the_cron_may_be_a_second_late(void **state) {
    (void)state;
    for (size_t i = 0; i < RATES; i++) {
        assert_false(stallAt(beginAndRun(rates[i]) + STALL_MS - 1000));
    }
}

static void a_stall_is_detected_before_the_next_run_of_the_cron(void **state) {
    (void)state;
    for (size_t i = 0; i < RATES; i++) {
        assert_true(stallAt(beginAndRun(rates[i]) + STALL_MS + 1));
    }
}

static void a_stall_lasts_until_the_cron_has_counted_the_replicas(void **state) {
    (void)state;
    for (size_t i = 0; i < RATES; i++) {
        int hz = rates[i], needed = hz > 1 ? 1000 / (1000 / hz) : 0;
        int64_t now_ms = runCron(hz, beginAndRun(hz) + 60000, 1);
        for (int run = 0; run < needed; run++) {
            assert_true(stallAt(now_ms));
            now_ms = runCron(hz, now_ms, 1);
        }
        assert_false(stallAt(now_ms));
    }
}

/* Ten runs that should have taken one second have taken six. */
static void cron_runs_that_are_all_slow_are_a_stall(void **state) {
    (void)state;
    int64_t now_ms = beginAndRun(10);
    for (int run = 0; run < 10; run++) {
        now_ms += 600;
        stallCron(now_ms, 10);
    }
    assert_true(stallAt(now_ms));
    assert_false(stallAt(runCron(10, now_ms, 10)));
}

static void a_faster_cron_needs_more_runs(void **state) {
    (void)state;
    int64_t now_ms = runCron(10, beginAndRun(10) + 60000, 10);
    stallCron(now_ms, 100);
    assert_true(stallAt(now_ms));
    assert_false(stallAt(runCron(100, now_ms, 100)));
}

static void what_was_before_stall_begin_does_not_count(void **state) {
    (void)state;
    int64_t now_ms = beginAndRun(10) + 60000;
    stallBegin(now_ms);
    assert_false(stallAt(now_ms + 1000));
    assert_true(stallAt(now_ms + STALL_MS + 1)); /* no run of the cron in all that time */
}

static void a_clock_that_steps_back_is_no_stall(void **state) {
    (void)state;
    assert_false(stallAt(beginAndRun(10) - 3600000));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(a_server_that_runs_is_not_stalled),
        UNIT(the_cron_may_be_a_second_late),
        UNIT(a_stall_is_detected_before_the_next_run_of_the_cron),
        UNIT(a_stall_lasts_until_the_cron_has_counted_the_replicas),
        UNIT(cron_runs_that_are_all_slow_are_a_stall),
        UNIT(a_faster_cron_needs_more_runs),
        UNIT(what_was_before_stall_begin_does_not_count),
        UNIT(a_clock_that_steps_back_is_no_stall),
    };
    return cmocka_run_group_tests_name("stall", tests, NULL, NULL);
}
