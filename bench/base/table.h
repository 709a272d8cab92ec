/* What the run prints: one aligned table, in which each row is printed as soon as it is known. */

#ifndef BENCH_BASE_TABLE_H
#define BENCH_BASE_TABLE_H

#include "base/series.h"

typedef enum Unit {
    UNIT_NS,
    UNIT_INSTRUCTIONS,
    UNIT_BYTES,
    UNIT_SHARE, /* of one CPU */
} Unit;

typedef enum TargetKind {
    TARGET_NONE,
    TARGET_RATIO, /* the ratio must not be larger than the target */
    TARGET_OURS,  /* our own figure must not be larger, in the row's unit */
} TargetKind;

typedef struct Row {
    const char *label;
    Unit unit;
    double ours;
    double theirs;    /* 0 = nothing to compare with, so no ratio */
    double ratio;     /* 0 = ours / theirs */
    double low, high; /* of the ratio over the rounds; 0 = one round */
    TargetKind target_kind;
    double target;
} Row;

/* A measurement's title and the column heads. */
void tableHead(const char *name, const char *summary);

void tableRow(const Row *given);

/* A row from the figures of the rounds; `theirs` may be NULL. Sorts both. */
void tableSeries(Row row, Series *ours, Series *theirs);

/* A remark below the rows that have been printed. */
void tableNote(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* How many rows missed their targets. */
unsigned tableMissed(void);

#endif
