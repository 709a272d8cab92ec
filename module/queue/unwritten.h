/* The fair waiters of a lock whose position in the keys is out of date. Any function that changes a
 * position adds its waiter to the lock's `fair.unwritten`, as a pending change; fairness.c writes
 * it to the keys. */
#ifndef LOCK_UNWRITTEN_H
#define LOCK_UNWRITTEN_H

#include "waits/contended.h"
#include "waits/waiter.h"

/* Adds this fair waiter, whose position has changed. */
void unwrittenNote(struct lock *lock, struct waiter *waiter);

/* As unwrittenNote, for a position that is not in the keys at all. */
void unwrittenNoteUnplaced(struct lock *lock, struct waiter *waiter);

/* Removes and returns the next pending change, or NULL. The caller must free a waiter that is
 * `over`. */
struct waiter *unwrittenNext(struct lock *lock);

/* Removes the pending change of `old`, whose position another waiter has taken over. */
void unwrittenDrop(struct lock *lock, struct waiter *old);

/* Removes all pending changes, because another node serves the lock's keys now, or because all
 * positions will be written again. */
void unwrittenForget(struct lock *lock);

#endif
