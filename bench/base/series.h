/* Numbers measured again and again, and what is said of them. */

#ifndef BENCH_BASE_SERIES_H
#define BENCH_BASE_SERIES_H

#include <stddef.h>

typedef struct Series {
    double *values;
    size_t count;
    size_t room;
} Series;

/* A Series that is all zero is empty and ready. */
void seriesAdd(Series *series, double value);
void seriesFree(Series *series);
Series seriesCopy(const Series *series);

/* Each sorts the series; it must not be empty. `part` is 0 for the least, 0.5 for the median, 1
 * for the most. */
double seriesAt(Series *series, double part);
double seriesMedian(Series *series);

/* The value without the fastest and slowest quarter, averaged: steady where neighbours make noise,
 * and not blind to what happens in one slice out of three. */
double seriesMiddle(Series *series);

/* a[i] / b[i] for each i: ratios within one round, before sorting either. */
Series seriesRatio(const Series *a, const Series *b);

#endif
