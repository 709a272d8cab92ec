/* Which locks are waited for the most, for LOCK.TOP. This is counted when waits begin and end, so
 * it costs nothing if no client waits. A wait for several locks counts for each of them. */
#ifndef LOCK_TOPLOCKS_H
#define LOCK_TOPLOCKS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/contention.h"
#include "waits/contended.h"
#include "waits/waiter.h"

/* To be called when a wait for this lock begins. Does nothing if the waiter has no client. */
void toplocksBegin(struct lock *lock, const struct waiter *waiter);

/* To be called when the wait at this position, which may have left the queue already, for this lock
 * ends. `granted` is whether the waiter has acquired the lock. Does nothing if the waiter has no
 * client. */
void toplocksEnd(struct lock *lock, struct position *position, bool granted);

/* Writes the locks with the most waiting time to `top`, in descending order, at most `count` and at
 * most CONTENTION_LOCKS. Returns how many it has written. The names are valid until the next wait
 * begins or ends. */
size_t toplocksNow(struct contentionView *top, size_t count);

/* Restarts the count at zero. */
void toplocksReset(void);

/* How many memory allocations are kept although no client waits (contentionMemory). For the
 * checking build. */
size_t toplocksMemory(void);

/* Frees everything, before the module is unloaded. */
void toplocksFree(void);

#endif
