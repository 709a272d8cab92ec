/* Refusing waits that would never end: the search of waitsearch.h, with the holders read from the
 * keys, and the text that names the circle.
 */
#ifndef LOCK_DEADLOCK_H
#define LOCK_DEADLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holds.h"
#include "redismodule.h"
#include "rules.h"
#include "waiters.h"
#include "waitqueue.h"

/* A wait that is about to begin. */
struct deadlockWait {
    RedisModuleString *owner;
    enum lockMode mode;
    enum discipline discipline;
    struct waitqueue **queues; /* of locks that contended.h knows, at least one */
    size_t queue_count;
    struct holds *holds; /* the first queue's lock, open */
    bool first;          /* stands at the head */
};

/* The text of the circle that this wait would close, or NULL: there is none,
 * lock.deadlock-detection is off, or the search would have taken too long (which INFO counts). The
 * text is the caller's, to be freed with RedisModule_FreeString. Each text counts as a deadlock
 * refused. */
RedisModuleString *deadlockFind(RedisModuleCtx *ctx, const struct deadlockWait *wait);

/* Whether this is no time to search, inside a command: a wait that begins now is a newcomer until
 * the drain has searched from it. In a cluster a command can open keys of its own slot only. Since
 * Redis 7.4 and Valkey 8 each slot has its keys apart, and a key that is opened while a client's
 * command runs is looked for among those of that client's slot. */
bool deadlockIsSoughtLater(void);

/* Like deadlockFind, for a newcomer of waitersGraph(). Not inside a command. */
RedisModuleString *deadlockFindOf(RedisModuleCtx *ctx, const struct waiter *newcomer,
                                  int64_t now_ms);

/* The circles that every lock can make by itself, refused whatever the config says: an owner waits
 * for itself; two readers wait for each other to stop reading. */
RedisModuleString *deadlockOfOne(RedisModuleCtx *ctx, RedisModuleString *name,
                                 RedisModuleString *owner);
RedisModuleString *deadlockOfTwo(RedisModuleCtx *ctx, RedisModuleString *name,
                                 RedisModuleString *one, RedisModuleString *other);

#endif
