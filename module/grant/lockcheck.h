/* The invariants of docs/design.md, asserted of a lock after every use of it: the checking build
 * (`make CHECKED=1`), with which the integration tests run. In any other build nothing of this is
 * there.
 *
 * What is broken stands in the server's log, with the lock as memory has it, and the server ends
 * with a crash report.
 */
#ifndef LOCK_LOCKCHECK_H
#define LOCK_LOCKCHECK_H

#include "keys/holds.h"
#include "waits/acquisition.h"
#include "waits/contended.h"

#ifdef CHECKED

/* The pass over this lock is over, and its key is open still: memory is consistent with itself,
 * nobody who fits waits, and the next look at the lock comes no later than `look_ms`. A lock with
 * many positions is looked at now and then only, so that checking costs each pass the same. */
void lockcheckAfterPass(struct holds *holds, struct lock *lock, int64_t look_ms);

/* The owner has just been given what it wants, which is no re-entry: nobody else holds the lock in
 * a mode that conflicts, and of a semaphore no more permits are taken than the limit. */
void lockcheckAfterGrant(struct holds *holds, const struct acquisition *wants);

/* The drain is over. Invariant 6: while nobody waits, no answer is on its way and nothing is bound,
 * the module has no memory. */
void lockcheckAfterDrain(void);

#else

static inline void lockcheckAfterDrain(void) {
}

static inline void lockcheckAfterPass(struct holds *holds, struct lock *lock, int64_t look_ms) {
    (void)holds, (void)lock, (void)look_ms;
}

static inline void lockcheckAfterGrant(struct holds *holds, const struct acquisition *wants) {
    (void)holds, (void)wants;
}

#endif

#endif
