/* In a cluster, the keys that the server has not checked before it calls a command.
 *
 * A server routes a command by its first key. Whether the other keys hash to the same slot, and
 * whether they are on this node while that slot is being moved, is checked here, before the command
 * does anything. That is necessary for each command with several keys, and for a command that runs
 * another one: on Redis from 7.4 and Valkey from 8 on, a key of another slot would be opened in the
 * wrong slot.
 */
#ifndef LOCK_SLOTS_H
#define LOCK_SLOTS_H

#include <stddef.h>

#include "redismodule.h"

/* Whether one command may use all these keys on this node now. Returns REDISMODULE_OK, always
 * without a cluster; or has replied CROSSSLOT or TRYAGAIN and returns REDISMODULE_ERR: then the
 * handler just returns. Changes nothing. */
int slotsCheckOrReply(RedisModuleCtx *ctx, RedisModuleString **names, size_t count);

/* Whether a command that uses the key `name` may run the command `argv`, with all of that command's
 * keys. Results as above. If `argv` is not a command, or has a wrong number of arguments, the
 * result is REDISMODULE_OK: the server refuses it when it is called. */
int slotsCheckInnerOrReply(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString **argv,
                           int argc);

#endif
