/* Numbers that were measured repeatedly, and their statistics. */

#ifndef BENCH_BASE_SERIES_H
#define BENCH_BASE_SERIES_H

#include <stddef.h>

typedef struct Series {
    double *values;
    size_t count;
    size_t room;
} Series;

/* A Series of zero bytes is empty and ready for use. */
void seriesAdd(Series *series, double value);
void seriesFree(Series *series);
Series seriesCopy(const Series *series);

/* Each sorts the series, which must not be empty. `part` is 0 for the smallest value, 0.5 for the
 * median, 1 for the largest. */
double seriesAt(Series *series, double part);
double seriesMedian(Series *series);

/* The mean without the fastest and the slowest quarter: steady when other processes make noise,
 * and it still shows what happens in one slice out of three. */
double seriesMiddle(Series *series);

/* a[i] / b[i] for each i: ratios within one round. Neither series may be sorted before. */
Series seriesRatio(const Series *a, const Series *b);

#endif
