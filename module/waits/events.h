/* The server's events: what happens outside the module's own commands.
 *
 * Every callback here only records what happened: it marks contended locks as due and leaves the
 * rest to the drain. Inside such a callback a write would reach replicas in the wrong order, or
 * crash the server.
 */
#ifndef LOCK_EVENTS_H
#define LOCK_EVENTS_H

#include <stdbool.h>

#include "redismodule.h"

/* Subscribes to the events that are always needed. To be called last at load: on Redis 7.0 the
 * subscriptions of a module that failed to load remain. Returns REDISMODULE_OK or
 * REDISMODULE_ERR. */
int eventsSubscribe(RedisModuleCtx *ctx);

/* Whether the server is shutting down, and runs no more commands. */
bool eventsServerShutsDown(void);

/* To be called before a hold is bound to a connection: subscribes, once, to the closing of
 * connections. */
void eventsWatchClients(RedisModuleCtx *ctx);

/* To be called before a client waits, or the permits of a semaphore are remembered: subscribes,
 * once, to the events that can free a lock for a waiter, or change a key that the module remembers.
 * Not at load, because each subscription costs every user's DEL, EXPIRE, HSET and similar commands
 * about 0.1 µs more, and Redis 7.0 has no way to unsubscribe. */
void eventsWatchKeys(RedisModuleCtx *ctx);

/* To be called in addition: eventsWatchStrings when a client waits for a latch, which subscribes,
 * once, to changes of strings; eventsWatchOverwrites when a client watches a lock, which
 * subscribes, once, to events of a key that is overwritten by a string or by another type. Not at
 * load either: each SET, LPUSH, ZADD and similar command costs as much more. */
void eventsWatchStrings(RedisModuleCtx *ctx);
void eventsWatchOverwrites(RedisModuleCtx *ctx);

/* To be called before the number of replicas is used: subscribes, once, to replicas that connect
 * and disconnect. */
void eventsWatchReplicas(RedisModuleCtx *ctx);

/* To be called before a timer is set that must not be late when the wall clock is set back:
 * subscribes, once, to the server's cron. For quarantineConnect. */
void eventsWatchClock(RedisModuleCtx *ctx);

/* To be called by the commands of delayed queues, and before there is a first queue: subscribes,
 * once, to the events that can change a queue's keys, and to the server's cron for steps of the
 * clock; and starts a scan for queues that existed before. For queuesConnect. */
void eventsWatchDelays(RedisModuleCtx *ctx);

#endif
