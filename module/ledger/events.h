/* The server's events, which report what happens outside the module's own commands.
 *
 * Every callback here only records what has happened. It marks contended locks as due and leaves
 * the rest to the drain. A write inside such a callback would reach replicas in the wrong order, or
 * crash the server.
 */
#ifndef LOCK_EVENTS_H
#define LOCK_EVENTS_H

#include <stdbool.h>

#include "redismodule.h"

/* Subscribes to the events that are always needed. To be called last at load, because on Redis 7.0
 * the subscriptions of a module remain if it fails to load. Returns REDISMODULE_OK or
 * REDISMODULE_ERR. */
int eventsSubscribe(RedisModuleCtx *ctx);

/* Whether the server is shutting down, and runs no more commands. */
bool eventsServerShutsDown(void);

/* Subscribes, once, to the closing of connections. To be called before a hold is bound to a
 * connection. */
void eventsWatchClients(RedisModuleCtx *ctx);

/* Subscribes, once, to the events that can free a lock for a waiter, or change a key whose sum the
 * module remembers. To be called before a client waits, or before the permits of a semaphore are
 * remembered. This is not done at load, because the subscription makes each DEL, EXPIRE, HSET and
 * similar command of any client about 0.1 µs slower, and Redis 7.0 has no way to unsubscribe. */
void eventsWatchKeys(RedisModuleCtx *ctx);

/* To be called in addition to eventsWatchKeys. eventsWatchStrings subscribes, once, to changes of
 * strings, and is to be called when a client waits for a latch. eventsWatchOverwrites subscribes,
 * once, to events of a key that is overwritten by a string or by another type, and is to be called
 * when a client watches a lock. This is not done at load either, because it makes each SET, LPUSH,
 * ZADD and similar command slower by the same time. */
void eventsWatchStrings(RedisModuleCtx *ctx);
void eventsWatchOverwrites(RedisModuleCtx *ctx);

/* Subscribes, once, to events of replicas that connect and disconnect. To be called before the
 * number of replicas is used. */
void eventsWatchReplicas(RedisModuleCtx *ctx);

/* Subscribes, once, to the server's cron. To be called before a timer is set that must not be late
 * when the wall clock is set back. For quarantineConnect. */
void eventsWatchClock(RedisModuleCtx *ctx);

/* Subscribes, once, to the events that can change a queue's keys, and to the server's cron, which
 * detects steps of the clock. Also starts a scan for queues that already exist. To be called by the
 * commands of delayed queues, and before the first queue is created. For queuesConnect. */
void eventsWatchDelays(RedisModuleCtx *ctx);

#endif
