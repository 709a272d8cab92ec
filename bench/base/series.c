/* Medians, percentiles and ratios. */

#include <stdlib.h>

#include "base/base.h"
#include "base/series.h"

void seriesAdd(Series *series, double value) {
    if (series->count == series->room) {
        series->room = series->room > 0 ? 2 * series->room : 16;
        series->values = reallocate(series->values, series->room * sizeof(*series->values));
    }
    series->values[series->count++] = value;
}

void seriesFree(Series *series) {
    free(series->values);
    *series = (Series){0};
}

Series seriesCopy(const Series *series) {
    Series copy = {0};
    for (size_t i = 0; i < series->count; i++) {
        seriesAdd(&copy, series->values[i]);
    }
    return copy;
}

static int compare(const void *a, const void *b) {
    const double *x = a;
    const double *y = b;
    return (*x > *y) - (*x < *y);
}

static void sort(Series *series) {
    if (series->count == 0) {
        die("nothing was measured");
    }
    qsort(series->values, series->count, sizeof(*series->values), compare);
}

double seriesAt(Series *series, double part) {
    sort(series);
    return series->values[(size_t)(part * (double)(series->count - 1) + 0.5)];
}

double seriesMedian(Series *series) {
    sort(series);
    size_t half = series->count / 2;
    if (series->count % 2 == 1) {
        return series->values[half];
    }
    return (series->values[half - 1] + series->values[half]) / 2;
}

double seriesMiddle(Series *series) {
    sort(series);
    size_t cut = series->count / 4;
    double sum = 0;
    for (size_t i = cut; i < series->count - cut; i++) {
        sum += series->values[i];
    }
    return sum / (double)(series->count - 2 * cut);
}

Series seriesRatio(const Series *a, const Series *b) {
    Series ratio = {0};
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        seriesAdd(&ratio, a->values[i] / b->values[i]);
    }
    return ratio;
}
