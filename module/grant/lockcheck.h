/* The invariants of docs/design.md, asserted for a lock after every use of it, in the checking
 * build (`make CHECKED=1`), which the integration tests use. In other builds these functions are
 * empty.
 *
 * A broken invariant is written to the server's log, with the lock as it is in memory, and the
 * server ends with a crash report.
 */
#ifndef LOCK_LOCKCHECK_H
#define LOCK_LOCKCHECK_H

#include "keys/holds.h"
#include "waits/contended.h"
#include "waits/request.h"

#ifdef CHECKED

/* To be called when the grant pass for this lock has ended and its key is still open. Asserts that
 * memory is consistent, that no waiter that fits is left waiting, and that the next check of the
 * lock is not later than `look_ms`. A lock with many positions is not checked after every pass, so
 * that the average cost of a check is about the same for every lock. */
void lockcheckAfterPass(struct holds *holds, struct lock *lock, int64_t look_ms);

/* To be called when a request has just been granted that is not a re-entry. Asserts that no other
 * owner holds the lock in a mode that conflicts, and that the number of permits taken from a
 * semaphore does not exceed the limit. */
void lockcheckAfterGrant(struct holds *holds, const struct request *wants);

/* To be called when the drain has ended. Asserts invariant 6: while no client waits, no reply is
 * pending and no hold is bound to a connection, the module uses no memory. */
void lockcheckAfterDrain(void);

#else

static inline void lockcheckAfterDrain(void) {
}

static inline void lockcheckAfterPass(struct holds *holds, struct lock *lock, int64_t look_ms) {
    (void)holds, (void)lock, (void)look_ms;
}

static inline void lockcheckAfterGrant(struct holds *holds, const struct request *wants) {
    (void)holds, (void)wants;
}

#endif

#endif
