/* The request of a command that acquires locks. The same struct is used from the arguments of the
 * command to the grant.
 *
 *   commands/args.c     fills in the struct
 *   grant/acquire.c     decides whether the request is granted at once, waits, or is refused
 *   queue/waiters.c     keeps the request while its client waits
 *   grant/holding.c     grants the request, at once or after the wait
 *
 * To add an option, add a field here, a row in args.c, and its implementation in holding.c.
 * CONTRIBUTING.md has the whole list, and the question to begin with: what happens if the client's
 * connection closes between grant and reply?
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
    int64_t within_ms; /* the timeout, from the grant */
};

/* `block_ms` of a request that does not wait, and of one that waits without a limit. */
#define REQUEST_NO_WAIT (-1)
#define REQUEST_FOREVER 0

struct request {
    RedisModuleString *owner;
    /* `owner` is not an argument, but the module's own string, so it may be retained. */
    bool owner_is_kept;
    struct lockRequest lock; /* the mode; for a semaphore PERMITS and the limit; ONCE */
    enum discipline discipline;
    int64_t now_ms;                  /* unix time of the request, read once for each command */
    int64_t lease_ms;                /* PX, EX, or lock.default-lease */
    int64_t block_ms;                /* BLOCK: how long the client waits at most */
    struct requestSession session;   /* SESSION */
    struct requestReplicas replicas; /* REPLICAS */
    bool fenced;                     /* FENCED: the reply is to be a fencing token */
};

/* How many holds, or permits, the reply reports. */
static inline int64_t requestCount(const struct request *wants) {
    return wants->lock.mode == MODE_SEMAPHORE ? wants->lock.permits.count : 1;
}

#endif
