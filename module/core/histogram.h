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

/* Records a value. A negative value, from a clock that went back, counts as 0. */
void histogramRecord(struct histogram *histogram, int64_t value);

/* The smallest value that at least `percent` percent of the records do not exceed, rounded up to
 * the end of its bucket, but never above the largest record. 0 if nothing is recorded. `percent` is
 * from 0 to 100. */
int64_t histogramPercentile(const struct histogram *histogram, double percent);

#endif
