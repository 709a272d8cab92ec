/* Delivering: what is due goes from a queue's keys to its list. */
#ifndef LOCK_DELIVER_H
#define LOCK_DELIVER_H

#include <stdint.h>

#include "redismodule.h"

/* The drain's job: delivers what is due, as much as the time slice has time for. */
void deliverDue(RedisModuleCtx *ctx, int64_t now_ms);

/* The same while nothing may be written: counts what is due, for INFO, and has it looked at again
 * soon. */
void deliverHold(RedisModuleCtx *ctx, int64_t now_ms);

#endif
