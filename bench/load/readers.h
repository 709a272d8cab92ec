/* The readers of read-write locks, 10,000 owners on one lock or ten on each of many; and the load of
 * one more owner, who takes a read hold, renews it and releases it. */

#ifndef BENCH_LOAD_READERS_H
#define BENCH_LOAD_READERS_H

#include "load/requests.h"

/* Nobody's lease ends unless it is to. */
#define READERS_HOUR " PX 3600000"

enum {
    READERS_MANY = 10000,
    READERS_LOCKS = 1500, /* with ten readers each: as many holds, with the one more, in memory */
};

/* Who reads already: READERS_MANY owners on `lock`, or ten on each {key}. */
typedef enum Shape { SHAPE_MANY, SHAPE_FEW, SHAPES } Shape;

/* Steps that prepare: READERS_MANY times for SHAPE_MANY; N times for N locks of SHAPE_FEW. Their
 * owners begin with `r` and with digits. */
extern const Step *const readersSteps[SHAPES];

typedef enum Phase { PHASE_ACQUIRE, PHASE_RENEW, PHASE_RELEASE, PHASES } Phase;

typedef struct Readers {
    Shape shape;
    Phase phase; /* that the load does; the session opens with those before it done */
} Readers;

/* One time: the phase, by the next of READERS_LOCKS owners. */
extern const LoadKind readersKind;

/* Has all READERS_LOCKS owners of the session `state` do a phase. */
void readersRunAll(void *state, Phase phase);

#endif
