/* In a cluster: has the queues looked for when slots may have come to this node.
 *
 * Keys that arrive by MIGRATE are events, but nobody subscribes to those before there is a queue,
 * and keys that come in other ways are none. So the node's own slots are looked at twice a second,
 * which costs some 40 µs: the keys of one that was not its own before are looked through at once,
 * or all keys if those are many. Slots that have gone say so by their keys.
 */
#ifndef LOCK_SLOTWATCH_H
#define LOCK_SLOTWATCH_H

#include "redismodule.h"

/* To be called at load, and when the server has become a master; does nothing where there is no
 * cluster, or when it watches already. */
void slotwatchBegin(RedisModuleCtx *ctx);

#endif
