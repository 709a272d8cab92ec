/* The load of a ring of clients that hand off a lock: the holder releases it and joins the queue
 * again, the first in the queue is granted the lock, and so on. At the end of each hand-off there
 * are as many waiters as at its start, or one more. With several rings, each with a lock of its
 * own, the rings alternate. */

#ifndef BENCH_LOAD_HANDOFF_H
#define BENCH_LOAD_HANDOFF_H

#include "base/series.h"
#include "load/load.h"

typedef struct Handoff {
    /* {n} and {key} are the ring's, {owner} is the member's. */
    const char *prime;   /* sent once before everything else, if the queue needs it; or NULL */
    const char *acquire; /* blocks until the member holds the lock */
    const char *release; /* grants the lock to the next waiter; replies at once */
    unsigned waiters;    /* the fewest that wait at each release */
    unsigned rings;
} Handoff;

/* One time: the server reads a release and replies to it, sends the grant that it makes, and reads
 * an acquire, which blocks. */
extern const LoadKind handoffKind;

/* How many connections such a load opens. */
unsigned handoffClients(const Handoff *handoff);

/* Makes `times` hand-offs of the session `state`, each timed from the sending of `release` to the
 * arrival of the grant, and after each of them a PING on another connection to the same server. The
 * times are in ns and are added to the two series. */
void handoffLatency(void *state, unsigned times, Series *grants, Series *pings);

#endif
