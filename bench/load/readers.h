/* The readers of read-write locks, 10,000 owners on one lock or ten on each of many; and the load
 * of one more owner, which acquires a read hold, renews it and releases it. */

#ifndef BENCH_LOAD_READERS_H
#define BENCH_LOAD_READERS_H

#include "load/requests.h"

/* Long enough that no lease expires, except those that are meant to. */
#define READERS_HOUR " PX 3600000"

enum {
    READERS_MANY = 10000,
    READERS_LOCKS = 1500, /* with ten readers each, eleven with the added one: as much in memory */
};

/* The readers that are there before: READERS_MANY owners on `lock`, or ten on each {key}. */
typedef enum Shape { SHAPE_MANY, SHAPE_FEW, SHAPES } Shape;

/* The steps that prepare: READERS_MANY times for SHAPE_MANY; N times for N locks of SHAPE_FEW. The
 * names of their owners begin with `r` and with a digit. */
extern const Step *const readersSteps[SHAPES];

typedef enum Phase { PHASE_ACQUIRE, PHASE_RENEW, PHASE_RELEASE, PHASES } Phase;

typedef struct Readers {
    Shape shape;
    Phase phase; /* of the load; the session opens with the phases before it done */
} Readers;

/* One time: the phase, done by the next of READERS_LOCKS owners. */
extern const LoadKind readersKind;

/* Does a phase for all READERS_LOCKS owners of the session `state`. */
void readersRunAll(void *state, Phase phase);

#endif
