/* What the server tells us that happens outside our own commands.
 *
 * Every callback here only takes notes: it marks contended locks as due and leaves the rest to the
 * drain. Inside such a callback a write would reach replicas in the wrong order, or crash the
 * server.
 */
#ifndef LOCK_EVENTS_H
#define LOCK_EVENTS_H

#include <stdbool.h>

#include "redismodule.h"

/* Subscribes to what has to be known at any time. Last thing at load: on Redis 7.0 the
 * subscriptions of a module that failed to load stay behind. Returns REDISMODULE_OK or
 * REDISMODULE_ERR. */
int eventsSubscribe(RedisModuleCtx *ctx);

/* Whether the server ends, and runs no command any more. */
bool eventsServerShutsDown(void);

/* To be called before a hold is bound to a connection: subscribes, once, to the closing of
 * connections. */
void eventsWatchClients(RedisModuleCtx *ctx);

/* To be called before a client waits, or the permits of a semaphore are remembered: subscribes,
 * once, to what can free a lock for a waiter, or change a key that we know. Not at load, because
 * from then on each DEL, EXPIRE, HSET and their like of every user costs about 0.1 µs more, and
 * Redis 7.0 has no way to unsubscribe. */
void eventsWatchKeys(RedisModuleCtx *ctx);

/* To be called besides when a client waits for a latch: subscribes, once, to what tells that a
 * string has changed. When one watches a lock: to what tells that any key has taken another's
 * place, a string or one of another type. Likewise not at load: each SET, LPUSH, ZADD and their
 * like costs as much more. */
void eventsWatchStrings(RedisModuleCtx *ctx);
void eventsWatchOverwrites(RedisModuleCtx *ctx);

/* To be called before it is asked how many replicas there are: subscribes, once, to those that come
 * and go. */
void eventsWatchReplicas(RedisModuleCtx *ctx);

/* To be called before something is put off by a timer that must not be late when the time of day
 * steps back: subscribes, once, to the server's cron. For quarantineConnect. */
void eventsWatchClock(RedisModuleCtx *ctx);

/* To be called by the commands of delayed queues, and before there is a first one: subscribes,
 * once, to what can change the keys of one, and to the server's cron for steps of the clock; and
 * has queues looked for that were there before. For queuesConnect. */
void eventsWatchDelays(RedisModuleCtx *ctx);

#endif
