/* In a cluster: finds delayed queues when slots may have been moved to this node.
 *
 * Keys that arrive by MIGRATE are events, but the module does not subscribe to those before there
 * is a queue, and keys that arrive in other ways are not events. So the node's own slots are
 * queried twice a second, which costs about 40 µs: the keys of a slot that was not its own before
 * are checked at once, or all keys are scanned if those are many. For slots that have moved away,
 * events of their keys are enough.
 */
#ifndef LOCK_SLOTWATCH_H
#define LOCK_SLOTWATCH_H

#include "redismodule.h"

/* To be called at load, and when the server has become a master. Does nothing without a cluster, or
 * when it has begun already. */
void slotwatchBegin(RedisModuleCtx *ctx);

#endif
