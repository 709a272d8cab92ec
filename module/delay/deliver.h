/* Delivery: moves due elements from a delayed queue's keys to its list. */
#ifndef LOCK_DELIVER_H
#define LOCK_DELIVER_H

#include <stdint.h>

#include "redismodule.h"

/* The drain's job: delivers the due elements, as many as the time slice allows. */
void deliverDue(RedisModuleCtx *ctx, int64_t now_ms);

/* The same while nothing may be written: counts the due elements, for INFO, and has their queues
 * checked again soon. */
void deliverHold(RedisModuleCtx *ctx, int64_t now_ms);

#endif
