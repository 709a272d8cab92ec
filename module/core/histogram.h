/* Counts of durations by size, and the percentiles read off them.
 *
 * Buckets grow with the value: each power of two is cut into 8, so a percentile is at most 12.5 %
 * above the true one, in fixed memory, and recording is a few instructions.
 */
#ifndef LOCK_HISTOGRAM_H
#define LOCK_HISTOGRAM_H

#include <stdint.h>

/* Values from 0 to 2^41-1 (in ms: 69 years) have a bucket; larger ones share the last. */
#define HISTOGRAM_BUCKETS (8 * 39)

/* All zero is an empty histogram. */
struct histogram {
    uint64_t total;
    int64_t largest;
    uint64_t counts[HISTOGRAM_BUCKETS];
};

/* A negative value (a clock that stepped back) counts as 0. */
void histogramRecord(struct histogram *histogram, int64_t value);

/* The smallest value that at least `percent` of the records do not exceed, rounded up to its
 * bucket's end but never above the largest record. 0 when nothing is recorded. `percent` is from 0
 * to 100. */
int64_t histogramPercentile(const struct histogram *histogram, double percent);

#endif
