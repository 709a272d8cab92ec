/* How late a client is told what has happened to a lock, while thousands of other keys expire: for
 * the measurements that differ only in whom the server tells. Server and client share the machine's
 * clock, so the end that PEXPIRETIME names can be compared with the moment at which the word
 * arrives. */

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
    Crowd *crowd; /* of twice LATENESS_LOCKS members: the first half is that of the leases */
    long long lease_end_ms[LATENESS_LOCKS];         /* unix time, as the server keeps it */
    Series after_lease, after_release, after_sleep; /* ns */
} Lateness;

/* One round: plays the two halves, each while the others' keys expire, and then asks the machine
 * itself. */
typedef void (*LatenessHalf)(Lateness *lateness);
typedef struct LatenessHalves {
    LatenessHalf after_leases, after_releases;
} LatenessHalves;

/* Plays the rounds of the options on a server of its own, and prints: `told`, as in "lease end to
 * grant". */
void latenessMeasure(const Options *options, const LatenessHalves *halves, const char *told);

/* Takes the locks, each for its owner, with leases from `lease_ms` on, and notes their ends. */
void latenessTakeLocks(Lateness *lateness, unsigned lease_ms);

/* The word of the lease of this lock has just come. */
void latenessNoteLease(Lateness *lateness, unsigned lock);

#endif
