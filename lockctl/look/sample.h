/* The contended locks at one moment, of all nodes together, and the difference from the previous
 * sample. */
#ifndef LOCKCTL_SAMPLE_H
#define LOCKCTL_SAMPLE_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A row of LOCK.TOP. */
struct sampleLock {
    char *name;
    size_t length;
    size_t node; /* the index of its node */
    int64_t db;
    int64_t waits, waiters, waited_us, mean_us, longest_us, held_us, error_us; /* -1: not known */
    double waits_per_s; /* since the previous sample; -1 without one */
    double average;     /* the average number of waiters since then; -1 without one */
    char *holder;       /* the first one; NULL if it is unknown, or there is none */
    size_t holder_length;
    size_t holders;
};

/* From INFO lock, of all nodes together: sums, and the worst of each percentile. */
struct sampleTotals {
    int64_t waiters, contended, sessions;
    int64_t granted, waited, lease_ends, deadlocks, time_outs;
    double granted_per_s, waited_per_s; /* -1 without a previous sample */
    int64_t p50_ms, p99_ms, p99_9_ms, max_ms;
};

struct sample {
    int64_t at_ms; /* by clockNow */
    struct sampleLock *locks;
    size_t count;
    struct sampleTotals totals;
    size_t nodes_replied;
};

enum sampleOrder {
    SAMPLE_BY_TIME, /* total time waited */
    SAMPLE_BY_WAITERS,
    SAMPLE_BY_RATE,
    SAMPLE_BY_MEAN,
    SAMPLE_BY_LONGEST,
    SAMPLE_BY_NAME
};

/* Adds a node's reply to LOCK.TOP, and to INFO lock. */
void sampleAddTop(struct sample *sample, size_t node, const redisReply *top);
void sampleAddInfo(struct sample *sample, const redisReply *info);

/* Calculates the rates per second from the previous sample, which may be empty. */
void sampleCompare(struct sample *sample, const struct sample *before);

/* Sorts the locks, with those that are shown first at the front, and removes those beyond
 * `most`. */
void sampleSort(struct sample *sample, enum sampleOrder order, size_t most);

/* Frees the contents, and empties the struct. */
void sampleFree(struct sample *sample);

/* Writes "1.5 s", "310 ms", "95 us", or "-" for values below 0. `room` has at least 16 bytes. */
char *sampleDuration(char *room, int64_t us);

#endif
