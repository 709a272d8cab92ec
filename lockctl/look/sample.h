/* What is known of the contended locks at one moment: of all nodes together, and the difference to the moment
 * before. */
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
    size_t node; /* its number */
    int64_t db;
    int64_t waits, waiters, waited_us, mean_us, longest_us, held_us, error_us; /* -1: not known */
    double waits_per_s; /* since the sample before; -1 without one */
    double average;     /* waiters, on average since then; -1 without one */
    char *holder;       /* the first one; NULL if it is not known, or nobody */
    size_t holder_length;
    size_t holders;
};

/* Of INFO lock, of all nodes together: sums, and of the percentiles the worst. */
struct sampleTotals {
    int64_t waiters, contended, sessions;
    int64_t granted, waited, lease_ends, deadlocks, time_outs;
    double granted_per_s, waited_per_s; /* -1 without a sample before */
    int64_t p50_ms, p99_ms, p99_9_ms, max_ms;
};

struct sample {
    int64_t at_ms; /* by clockNow */
    struct sampleLock *locks;
    size_t count;
    struct sampleTotals totals;
    size_t nodes_heard;
};

enum sampleOrder {
    SAMPLE_BY_TIME, /* waited in total */
    SAMPLE_BY_WAITERS,
    SAMPLE_BY_RATE,
    SAMPLE_BY_MEAN,
    SAMPLE_BY_LONGEST,
    SAMPLE_BY_NAME
};

/* Adds a node's answer to LOCK.TOP, and to INFO lock. */
void sampleAddTop(struct sample *sample, size_t node, const redisReply *top);
void sampleAddInfo(struct sample *sample, const redisReply *info);

/* Reckons what is by the second, from the sample before, which may be empty. */
void sampleCompare(struct sample *sample, const struct sample *before);

/* Sorts the locks, those that come first being the first, and forgets those beyond `most`. */
void sampleSort(struct sample *sample, enum sampleOrder order, size_t most);

/* Frees all that it has, and empties it. */
void sampleFree(struct sample *sample);

/* "1.5 s", "310 ms", "95 us"; "-" for what is below 0. `room` has at least 16 bytes. */
char *sampleDuration(char *room, int64_t us);

#endif
