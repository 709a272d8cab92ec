/* The load of a ring of clients that hand off a lock: the holder releases it and joins the queue again,
 * the first in the queue is granted, and so on. As many wait at the end of each hand-off as at its
 * start, or one more. With several rings, of a lock each, the rings take turns. */

#ifndef BENCH_LOAD_HANDOFF_H
#define BENCH_LOAD_HANDOFF_H

#include "base/series.h"
#include "load/load.h"

typedef struct Handoff {
    /* {n} and {key} are the ring's, {owner} is the member's. */
    const char *prime;   /* said once before all, if the queue needs it; or NULL */
    const char *acquire; /* blocks until the lock is the member's */
    const char *release; /* grants it to the next; replies at once */
    unsigned waiters;    /* that each release finds in the ring at least */
    unsigned rings;
} Handoff;

/* One time: a release is read and answered, the grant that it makes is sent, an acquire is read and
 * blocks. */
extern const LoadKind handoffKind;

/* The connections that such a load opens. */
unsigned handoffClients(const Handoff *handoff);

/* `times` hand-offs of the session `state`, timed from the sending of `release` to the arrival of the
 * grant, and after each of them a PING on another connection of the same server. In ns, added to the
 * two series. */
void handoffLatency(void *state, unsigned times, Series *grants, Series *pings);

#endif
