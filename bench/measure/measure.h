/* What a measurement is, and the list of them. */

#ifndef BENCH_MEASURE_MEASURE_H
#define BENCH_MEASURE_MEASURE_H

#include "base/base.h"

typedef struct Measurement {
    const char *name;
    const char *summary;
    void (*run)(const Options *options);
} Measurement;

/* One function for each row of the table in main.c. */
void deadlockMeasure(const Options *options);
void delayMeasure(const Options *options);
void fairMeasure(const Options *options);
void handoffMeasure(const Options *options);
void idleMeasure(const Options *options);
void iothreadsMeasure(const Options *options);
void latchMeasure(const Options *options);
void memoryMeasure(const Options *options);
void multikeyMeasure(const Options *options);
void pairMeasure(const Options *options);
void replicasMeasure(const Options *options);
void rwMeasure(const Options *options);
void semaphoreMeasure(const Options *options);
void selfMeasure(const Options *options);
void sessionMeasure(const Options *options);
void wakeMeasure(const Options *options);
void watchMeasure(const Options *options);

#endif
