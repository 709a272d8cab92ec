/* The load of a request that begins to wait behind a chain of waits, and is cancelled. Each owner
 * of the chain holds a lock and waits for the lock of the next owner; the last waits for
 * nothing. */

#ifndef BENCH_LOAD_CHAIN_H
#define BENCH_LOAD_CHAIN_H

#include "load/load.h"

typedef struct Chain {
    unsigned length; /* holders that a search for cycles meets, 1 or more */
    bool detection;  /* lock.deadlock-detection */
} Chain;

/* One time: LOCK.ACQUIRE … BLOCK 0 that begins to wait for the first lock of the chain, and the
 * LOCK.CANCEL that ends the wait. Another owner waits for an unrelated lock: while all waiters of a
 * server wait for one lock, the server searches nothing. */
extern const LoadKind chainKind;

/* Requests the first lock for the last owner, `times` times: the request would close a cycle and is
 * refused. Ends the run if it is not refused. */
void chainClose(void *state, unsigned times);

#endif
