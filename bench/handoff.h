/* The load of a ring of clients that hands a lock round: the holder gives it back and stands in
 * line again, the first in the line gets it, and so on. As many wait at the end of each hand-off
 * as at its start, or one more. With several rings, of a lock each, the rings take turns. */

#ifndef BENCH_HANDOFF_H
#define BENCH_HANDOFF_H

#include "load.h"
#include "series.h"

typedef struct Handoff {
    /* {n} and {key} are the ring's, {owner} is the member's. */
    const char *prime; /* said once before all, if the line needs it; or NULL */
    const char *claim; /* blocks until the lock is the member's */
    const char *pass;  /* gives it on; replies at once */
    unsigned waiters;  /* that each pass finds in the ring at least */
    unsigned rings;
} Handoff;

/* One time: a pass is read and answered, the grant that it makes is sent, a claim is read and
 * blocks. */
extern const LoadKind handoffKind;

/* The connections that such a load opens. */
unsigned handoffClients(const Handoff *handoff);

/* `times` hand-offs of the session `state`, timed from the sending of `pass` to the arrival of the grant, and after each
 * of them a PING on another connection of the same server. In ns, added to the two series. */
void handoffLatency(void *state, unsigned times, Series *grants, Series *pings);

#endif
