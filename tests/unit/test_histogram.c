/* histogram.[ch]: where a bucket ends, and percentiles compared with a sorted array. */
#include "core/histogram.h"

#include <stdlib.h>
#include <string.h>

#include "support/unit.h"

#define POWER(n) (INT64_C(1) << (n))
#define BIGGEST_WITH_A_BUCKET (POWER(40) - 1)
#define MANY 500

/* Where the bucket of a value ends according to histogram.h: each power of two is divided into 8
 * buckets, or into whole numbers where it has fewer than 8. */
static int64_t endOfBucketOf(int64_t value) {
    int64_t power = 1;
    while (power * 2 <= value) {
        power *= 2;
    }
    int64_t width = power > 8 ? power / 8 : 1;
    return value / width * width + width - 1;
}

/* What a histogram returns for this value if it also has a larger one, which would be the limit
 * otherwise. */
static int64_t rounded(int64_t value) {
    struct histogram histogram = {0};
    histogramRecord(&histogram, value);
    histogramRecord(&histogram, INT64_MAX);
    return histogramPercentile(&histogram, 50);
}

static void an_empty_histogram_returns_0(void **state) {
    (void)state;
    struct histogram histogram = {0};
    assert_int_equal(histogramPercentile(&histogram, 0), 0);
    assert_int_equal(histogramPercentile(&histogram, 50), 0);
    assert_int_equal(histogramPercentile(&histogram, 100), 0);
}

static void a_single_record_is_every_percentile(void **state) {
    (void)state;
    struct histogram histogram = {0};
    histogramRecord(&histogram, 7);
    assert_int_equal(histogramPercentile(&histogram, 0), 7);
    assert_int_equal(histogramPercentile(&histogram, 1), 7);
    assert_int_equal(histogramPercentile(&histogram, 100), 7);
}

static void a_negative_value_counts_as_0(void **state) {
    (void)state;
    struct histogram histogram = {0};
    histogramRecord(&histogram, -1);
    histogramRecord(&histogram, INT64_MIN);
    assert_int_equal(histogram.total, 2);
    assert_int_equal(histogram.counts[0], 2);
    assert_int_equal(histogramPercentile(&histogram, 100), 0);
}

static void values_below_16_are_exact(void **state) {
    (void)state;
    for (int64_t value = 0; value < 16; value++) {
        assert_int_equal(rounded(value), value);
    }
}

static void every_value_is_rounded_up_to_the_end_of_its_bucket(void **state) {
    (void)state;
    /* From one bucket's end to the next, with both ends and the middle of each. */
    for (int64_t begin = 0, end; begin <= BIGGEST_WITH_A_BUCKET; begin = end + 1) {
        end = endOfBucketOf(begin);
        assert_int_equal(rounded(begin), end);
        assert_int_equal(rounded(begin + (end - begin) / 2), end);
        assert_int_equal(rounded(end), end);
    }
}

static void no_value_is_rounded_up_by_more_than_an_eighth(void **state) {
    (void)state;
    for (int power = 0; power < 40; power++) {
        for (int64_t near = -1; near <= 1; near++) {
            int64_t value = POWER(power) + near;
            assert_in_range(rounded(value), value, value + value / 8);
        }
    }
}

static void no_percentile_is_above_the_largest_record(void **state) {
    (void)state;
    struct histogram histogram = {0};
    histogramRecord(&histogram, 1000);
    assert_true(rounded(1000) > 1000);
    assert_int_equal(histogramPercentile(&histogram, 50), 1000);
    histogramRecord(&histogram, 1001); /* of the same bucket */
    histogramRecord(&histogram, 3);
    assert_int_equal(histogramPercentile(&histogram, 100), 1001);
    assert_int_equal(histogramPercentile(&histogram, 0), 3);
}

static void values_that_are_too_large_share_the_last_bucket(void **state) {
    (void)state;
    struct histogram histogram = {0};
    for (int power = 41; power < 63; power++) {
        histogramRecord(&histogram, POWER(power));
        histogramRecord(&histogram, POWER(power) + (POWER(power) - 1));
    }
    assert_int_equal(histogram.counts[HISTOGRAM_BUCKETS - 1], histogram.total);
    assert_true(histogramPercentile(&histogram, 50) >= BIGGEST_WITH_A_BUCKET);
}

static void percentiles_of_1_to_10_are_its_values(void **state) {
    (void)state;
    struct histogram histogram = {0};
    for (int64_t value = 10; value > 0; value--) {
        histogramRecord(&histogram, value);
    }
    assert_int_equal(histogram.total, 10);
    assert_int_equal(histogramPercentile(&histogram, 0), 1);
    assert_int_equal(histogramPercentile(&histogram, 10), 1);
    assert_int_equal(histogramPercentile(&histogram, 10.5), 2);
    assert_int_equal(histogramPercentile(&histogram, 50), 5);
    assert_int_equal(histogramPercentile(&histogram, 99), 10);
    assert_int_equal(histogramPercentile(&histogram, 100), 10);
}

static void p999_of_1000_leaves_one_record_above_it(void **state) {
    (void)state;
    struct histogram histogram = {0};
    for (int i = 0; i < 999; i++) {
        histogramRecord(&histogram, 1);
    }
    histogramRecord(&histogram, 9);
    assert_int_equal(histogramPercentile(&histogram, 99.9), 1);
    assert_int_equal(histogramPercentile(&histogram, 99.95), 9);
}

static int byValue(const void *one, const void *other) {
    int64_t a, b;
    memcpy(&a, one, sizeof a);
    memcpy(&b, other, sizeof b);
    return (a > b) - (a < b);
}

static void random_records_agree_with_a_sorted_array(void **state) {
    (void)state;
    struct fuzz fuzz = fuzzStart("histogram", 20000);
    for (size_t step = 0; step < fuzz.steps; step += MANY) {
        struct histogram histogram = {0};
        int64_t values[MANY];
        size_t count = 1 + fuzzBelow(&fuzz, MANY);
        for (size_t i = 0; i < count; i++) {
            /* Every order of magnitude is equally likely. */
            values[i] = (int64_t)(fuzzNext(&fuzz) >> (24 + fuzzBelow(&fuzz, 40)));
            histogramRecord(&histogram, values[i]);
        }
        assert_int_equal(histogram.total, count);
        qsort(values, count, sizeof values[0], byValue);
        for (unsigned percent = 0; percent <= 100; percent++) {
            size_t at_least = (count * percent + 99) / 100;
            int64_t wanted = values[at_least ? at_least - 1 : 0];
            int64_t end = endOfBucketOf(wanted), largest = values[count - 1];
            assert_int_equal(histogramPercentile(&histogram, percent),
                             end < largest ? end : largest);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        UNIT(an_empty_histogram_returns_0),
        UNIT(a_single_record_is_every_percentile),
        UNIT(a_negative_value_counts_as_0),
        UNIT(values_below_16_are_exact),
        UNIT(every_value_is_rounded_up_to_the_end_of_its_bucket),
        UNIT(no_value_is_rounded_up_by_more_than_an_eighth),
        UNIT(no_percentile_is_above_the_largest_record),
        UNIT(values_that_are_too_large_share_the_last_bucket),
        UNIT(percentiles_of_1_to_10_are_its_values),
        UNIT(p999_of_1000_leaves_one_record_above_it),
        UNIT(random_records_agree_with_a_sorted_array),
    };
    return cmocka_run_group_tests_name("histogram", tests, NULL, NULL);
}
