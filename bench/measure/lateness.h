/* How late a client is notified of what has happened to a lock, while thousands of other keys
 * expire: for the measurements that differ only in which client the server notifies. Server and
 * client use the same clock, so the end of the lease, from PEXPIRETIME, can be compared with the
 * time at which the notification arrives. */

#ifndef BENCH_MEASURE_LATENESS_H
#define BENCH_MEASURE_LATENESS_H

#include <stdint.h>

#include "base/base.h"
#include "base/series.h"
#include "load/crowd.h"
#include "machine/server.h"

enum {
    LATENESS_LOCKS = 200,
    LATENESS_LEASE_MS = 50, /* the shortest; the longest is twice as long */
};

typedef struct Lateness {
    Server *server;
    Crowd *crowd; /* 2 * LATENESS_LOCKS members; the first half is for the leases */
    long long lease_end_ms[LATENESS_LOCKS];         /* unix time, by the server */
    Series after_lease, after_release, after_sleep; /* ns */
} Lateness;

/* One round runs the two halves, each while the unrelated keys expire, and then measures the
 * machine itself. */
typedef void (*LatenessHalf)(Lateness *lateness);
typedef struct LatenessHalves {
    LatenessHalf after_leases, after_releases;
} LatenessHalves;

/* Runs all rounds on a server of its own, and prints the rows; `told` is the last word of a label
 * such as "lease end to grant". */
void latenessMeasure(const Options *options, const LatenessHalves *halves, const char *told);

/* Acquires the locks, each for its owner, with leases of `lease_ms` and more, and records the ends
 * of the leases. */
void latenessTakeLocks(Lateness *lateness, unsigned lease_ms);

/* The notification of the end of this lock's lease has just arrived. */
void latenessNoteLease(Lateness *lateness, unsigned lock);

#endif
