/* See histogram.h. Values below 16 have a bucket each. For larger ones the three bits below the
 * highest one select one of the eight buckets of that power of two. */
#include "core/histogram.h"

/* The largest value that falls into this bucket. */
static int64_t bucketEnd(unsigned bucket) {
    if (bucket < 16) {
        return bucket;
    }
    unsigned shift = bucket / 8 - 1;
    return (int64_t)((((uint64_t)bucket % 8 + 9) << shift) - 1);
}

int64_t histogramPercentile(const struct histogram *histogram, double percent) {
    double wanted = (double)histogram->total * percent / 100;
    uint64_t seen = 0;
    for (unsigned bucket = 0; bucket < HISTOGRAM_BUCKETS; bucket++) {
        seen += histogram->counts[bucket];
        if (histogram->counts[bucket] && (double)seen >= wanted) {
            int64_t end = bucketEnd(bucket);
            return end < histogram->largest ? end : histogram->largest;
        }
    }
    return 0;
}
