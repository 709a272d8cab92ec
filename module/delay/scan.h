/* Finding the delayed queues again, when the keys are from before: a start, a load, a promotion.
 *
 * All keys of all databases are walked, in slices that no client feels. By SCAN: RedisModule_Scan
 * takes two to three times as long, as it opens each key. Events would not do: those of a load tell
 * nothing of an AOF, and a replica that is told of each key would pay for what a master knows.
 */
#ifndef LOCK_SCAN_H
#define LOCK_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redismodule.h"

/* Begins to look for queues, from the first key on. Allowed in every callback. */
void scanBegin(RedisModuleCtx *ctx);

/* Likewise, once the scan that is under way is over: where there is cause for one after the other,
 * none would ever end. */
void scanOnceMore(RedisModuleCtx *ctx);

/* There are keys of these names: has the queues among them looked at. Returns how many names there
 * are; an error has none. */
size_t scanMeetKeys(RedisModuleCtx *ctx, int db, RedisModuleCallReply *names);

/* The drain's job: goes on with it. On a replica there is nothing to be found. */
void scanGoOn(RedisModuleCtx *ctx, int64_t now_ms);
void scanForget(RedisModuleCtx *ctx);

/* Two databases have changed places: what has been walked may not have been all. */
void scanSwapped(RedisModuleCtx *ctx);

/* Whether it is under way. */
bool scanIsRunning(void);

#endif
