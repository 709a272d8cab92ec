/* The load of a request that begins to wait behind a chain of waits, and is cancelled: each owner
 * of the chain holds a lock and waits for the next one's, and the last waits for nothing. */

#ifndef BENCH_LOAD_CHAIN_H
#define BENCH_LOAD_CHAIN_H

#include "load/load.h"

typedef struct Chain {
    unsigned length; /* holders that a search for cycles meets, 1 or more */
    bool detection;  /* lock.deadlock-detection */
} Chain;

/* One time: LOCK.ACQUIRE … BLOCK 0 that begins to wait for the first lock of the chain, and the
 * LOCK.CANCEL that ends the wait. Somebody waits elsewhere too: in a server where all wait for one
 * lock a search has nothing to look at. */
extern const LoadKind chainKind;

/* Has the last owner ask for the first lock, `times` times: it would close a cycle and is refused.
 * Dies if it is not. */
void chainClose(void *state, unsigned times);

#endif
