/* See histogram.h. Values below 16 have a bucket each. For larger ones the three bits below the
 * highest one select one of the eight buckets of that power of two. */
#include "core/histogram.h"

static unsigned histogramBucketOf(uint64_t value) {
    if (value < 16) {
        return (unsigned)value;
    }
    unsigned shift = 60U - (unsigned)__builtin_clzll(value); /* the shifted value is 8 to 15 */
    unsigned bucket = 8 * shift + (unsigned)(value >> shift);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* The largest value that falls into this bucket. */
static int64_t bucketEnd(unsigned bucket) {
    if (bucket < 16) {
        return bucket;
    }
    unsigned shift = bucket / 8 - 1;
    return (int64_t)((((uint64_t)bucket % 8 + 9) << shift) - 1);
}

void histogramRecord(struct histogram *histogram, int64_t value) {
    histogram->counts[histogramBucketOf(value < 0 ? 0 : (uint64_t)value)]++;
    histogram->total++;
    if (value > histogram->largest) {
        histogram->largest = value;
    }
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
