/* Which locks are waited for the most, for LOCK.TOP: counted when waits begin and end, and so
 * without a cost where nobody waits. A wait for several locks counts for each of them. */
#ifndef LOCK_TOPLOCKS_H
#define LOCK_TOPLOCKS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/contention.h"
#include "waits/contended.h"
#include "waits/waiter.h"

/* A wait for this lock begins; does nothing if the waiter has no client. */
void toplocksBegin(struct lock *lock, const struct waiter *waiter);

/* A wait for this lock ends; does nothing if the waiter has no client. `granted`: it has acquired
 * the lock. */
void toplocksEnd(struct lock *lock, const struct waiter *waiter, bool granted);

/* Writes the locks with the most waiting time, at most `count` and CONTENTION_LOCKS, in descending
 * order. Returns how many. The names are valid until the next wait begins or ends. */
size_t toplocksNow(struct contentionView *top, size_t count);

/* Restarts the count at zero. */
void toplocksReset(void);

/* How many allocations are kept although nobody waits (contentionMemory). For the checking
 * build. */
size_t toplocksMemory(void);

/* Frees everything, before the module is unloaded. */
void toplocksFree(void);

#endif
