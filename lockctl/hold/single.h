/* A holder of a lock at one server, which may be a master with replicas, or a cluster. */
#ifndef LOCKCTL_SINGLE_H
#define LOCKCTL_SINGLE_H

#include "hold/holder.h"

/* See holderNew. */
struct holder *singleNew(struct event_base *base, const struct url *url, const struct wish *wish,
                         int64_t grace_ms, const struct holderWatch *watch, void *arg, char **why);

#endif
