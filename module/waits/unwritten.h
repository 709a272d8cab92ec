/* The fair waiters of a lock whose position the keys do not show as it is: noted by whoever changes
 * it, in the lock's `fair.unwritten`, and written down by fairness.c. */
#ifndef LOCK_UNWRITTEN_H
#define LOCK_UNWRITTEN_H

#include "waits/contended.h"
#include "waits/waiter.h"

/* The position of this fair waiter has changed. */
void unwrittenNote(struct lock *lock, struct waiter *waiter);

/* Likewise: the keys know nothing of it. */
void unwrittenNoteUnplaced(struct lock *lock, struct waiter *waiter);

/* The next of them, or NULL; it is not noted any more. One that is `over` is the caller's to
 * free. */
struct waiter *unwrittenNext(struct lock *lock);

/* `old`, whose place another has taken, is noted no more. */
void unwrittenDrop(struct lock *lock, struct waiter *old);

/* Forgets them all: the lock's keys are another node's now, or all that memory knows is written
 * anew. */
void unwrittenForget(struct lock *lock);

#endif
