/* Finds delayed queues whose keys existed before: at a start, after a load, after a promotion.
 *
 * All keys of all databases are iterated over, in time slices that do not delay clients. With SCAN,
 * because RedisModule_Scan opens each key and takes two to three times as long. Events would not
 * do: loading an AOF causes none for its keys, and on a replica an event for each key would cost
 * time for what only a master needs to know.
 */
#ifndef LOCK_SCAN_H
#define LOCK_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redismodule.h"

/* Begins a scan, from the first key on. Allowed in every callback. */
void scanBegin(RedisModuleCtx *ctx);

/* The same, once the scan in progress has ended: if each cause began a new one at once, none would
 * ever end. */
void scanOnceMore(RedisModuleCtx *ctx);

/* There are keys of these names (the reply of a command): has the queues among them checked.
 * Returns how many names there are; 0 for an error. */
size_t scanMeetKeys(RedisModuleCtx *ctx, int db, RedisModuleCallReply *names);

/* The drain's job: continues the scan; on a replica, where there is nothing to find, ends it and
 * removes all entries. */
void scanGoOn(RedisModuleCtx *ctx, int64_t now_ms);
void scanForget(RedisModuleCtx *ctx);

/* SWAPDB has exchanged two databases: restarts a scan in progress, which may have missed one. */
void scanSwapped(RedisModuleCtx *ctx);

/* Whether a scan is in progress. */
bool scanIsRunning(void);

#endif
