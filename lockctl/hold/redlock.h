/* A holder of a lock at a majority of independent servers: the RedLock algorithm, which
 * docs/redlock.md describes step by step. */
#ifndef LOCKCTL_REDLOCK_H
#define LOCKCTL_REDLOCK_H

#include "hold/holder.h"

/* See holderNew. The wish has a lease, and is WISH_PLAIN or WISH_SHARED. */
struct holder *redlockNew(struct event_base *base, const struct url *urls, size_t count,
                          const struct wish *wish, int64_t grace_ms,
                          const struct holderWatch *watch, void *arg, char **why);

#endif
