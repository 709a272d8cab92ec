/* In a cluster: has the queues looked for when slots may have come to this node.
 *
 * Keys that arrive by MIGRATE are events, but nobody subscribes to those before there is a queue, and keys
 * that come in other ways are none. When a slot changes hands the nodes agree on a new epoch: that is
 * looked at four times a second, which costs some µs.
 */
#ifndef LOCK_SLOTWATCH_H
#define LOCK_SLOTWATCH_H

#include "redismodule.h"

/* To be called at load, and when the server has become a master; does nothing where there is no cluster,
 * or when it watches already. */
void slotwatchBegin(RedisModuleCtx *ctx);

#endif
