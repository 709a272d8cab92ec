/* Which locks are waited for the most, for LOCK.TOP: counted where waits begin and end, and so at no
 * cost where nobody waits. A wait for several locks counts for each of them. */
#ifndef LOCK_TOPLOCKS_H
#define LOCK_TOPLOCKS_H

#include <stdbool.h>
#include <stddef.h>

#include "core/contention.h"
#include "waits/contended.h"
#include "waits/waiter.h"

/* The waiter, if it has a client, begins to wait for this lock. */
void toplocksBegin(struct lock *lock, const struct waiter *waiter);

/* The waiter, if it has a client, waits for this lock no more; `granted`: it has it. */
void toplocksEnd(struct lock *lock, const struct waiter *waiter, bool granted);

/* The locks with the most time, at most `count` and CONTENTION_LOCKS, the first one first. Returns how
 * many. The names are lent, until somebody begins or ends to wait. */
size_t toplocksNow(struct contentionView *top, size_t count);

/* Counts anew from now on. */
void toplocksReset(void);

/* How many pieces of memory are kept though nobody waits: contentionMemory. Of the checking build. */
size_t toplocksMemory(void);

/* Frees all; before the module goes. */
void toplocksFree(void);

#endif
