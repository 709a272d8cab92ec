/* The request of an acquiring command: the one struct that is passed on from its arguments to the
 * grant.
 *
 *   commands/args.c     fills it
 *   grant/acquire.c     decides: at once, later, or never
 *   waits/waiters.c     keeps it while its client waits
 *   grant/holding.c     grants what it requests, at once or after the wait
 *
 * To add an option: a field here, a row in args.c, its work in holding.c. CONTRIBUTING.md has the
 * whole list, and the question to begin with: what happens if the client dies between grant and
 * reply?
 */
#ifndef LOCK_REQUEST_H
#define LOCK_REQUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/rules.h"
#include "core/waitqueue.h"
#include "redismodule.h"

/* A connection to which a hold is to be bound. */
struct requestSession {
    unsigned long long client_id; /* 0 = none */
    uint64_t order;               /* higher for a later request */
};

/* How many replicas must acknowledge a grant, or a renewal, before its client receives the
 * reply. */
struct requestReplicas {
    int64_t count;     /* 0 = none */
    int64_t within_ms; /* from the grant */
};

/* `block_ms` of a request that does not wait, and of one that waits without a limit. */
#define REQUEST_NO_WAIT (-1)
#define REQUEST_FOREVER 0

struct request {
    RedisModuleString *owner;
    bool owner_is_kept;      /* the module's own string, not an argument: it may be retained */
    struct lockRequest lock; /* the mode; for a semaphore PERMITS and the limit; ONCE */
    enum discipline discipline;
    int64_t now_ms;                  /* unix time of the request: read once for each command */
    int64_t lease_ms;                /* PX, EX, or lock.default-lease */
    int64_t block_ms;                /* BLOCK: how long it may wait */
    struct requestSession session;   /* SESSION */
    struct requestReplicas replicas; /* REPLICAS */
    bool fenced;                     /* FENCED: the reply is to be a fencing token */
};

#endif
