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

/* The grant pass for this lock has ended, and its key is still open: asserts that memory is
 * consistent, that no waiter that fits waits, and that the next check of the lock is not later than
 * `look_ms`. A lock with many positions is checked only now and then, so that checking costs about
 * the same for each pass. */
void lockcheckAfterPass(struct holds *holds, struct lock *lock, int64_t look_ms);

/* The owner has just been granted its request, which is not a re-entry: asserts that no other owner
 * holds the lock in a mode that conflicts, and that no more permits of a semaphore are taken than
 * the limit. */
void lockcheckAfterGrant(struct holds *holds, const struct request *wants);

/* The drain has ended. Asserts invariant 6: while nobody waits, no reply is pending and nothing is
 * bound, the module has no memory. */
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
