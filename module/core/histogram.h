/* Counts of durations by size, and percentiles of them.
 *
 * Each power of two is divided into 8 buckets, so buckets for larger values are larger. A
 * percentile is at most 12.5 % above the true one. The memory is fixed, and recording a value takes
 * a few instructions.
 */
#ifndef LOCK_HISTOGRAM_H
#define LOCK_HISTOGRAM_H

#include <stdint.h>

/* Values from 0 to 2^41-1 (in ms: 69 years) have a bucket; larger ones share the last. */
#define HISTOGRAM_BUCKETS (8 * 39)

/* An empty histogram is all zero. */
struct histogram {
    uint64_t total;
    int64_t largest;
    uint64_t counts[HISTOGRAM_BUCKETS];
};

/* The bucket of a value. */
static inline unsigned histogramBucketOf(uint64_t value) {
    if (value < 16) {
        return (unsigned)value;
    }
    unsigned shift = 60U - (unsigned)__builtin_clzll(value); /* the shifted value is 8 to 15 */
    unsigned bucket = 8 * shift + (unsigned)(value >> shift);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* Records a value. A negative value, from a clock that went back, counts as 0. */
static inline void histogramRecord(struct histogram *histogram, int64_t value) {
    histogram->counts[histogramBucketOf(value < 0 ? 0 : (uint64_t)value)]++;
    histogram->total++;
    if (value > histogram->largest) {
        histogram->largest = value;
    }
}

/* The smallest value that at least `percent` percent of the records do not exceed, rounded up to
 * the end of its bucket, but never above the largest record. 0 if nothing is recorded. `percent` is
 * from 0 to 100. */
int64_t histogramPercentile(const struct histogram *histogram, double percent);

#endif
