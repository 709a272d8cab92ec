/* In a cluster, the keys that the server has not looked at before it calls a command.
 *
 * A server routes a command by its first key. Where the others hash to, and whether they are on this
 * node while their slot moves, is checked here, before the command does anything. That is to be so
 * for each command with several keys, and for a command that runs another one: on Redis from 7.4 and
 * Valkey from 8 on, a key of another slot would be opened in the wrong one.
 */
#ifndef LOCK_SLOTS_H
#define LOCK_SLOTS_H

#include <stddef.h>

#include "redismodule.h"

/* Whether one command may use all these keys here and now. Returns REDISMODULE_OK, always without a
 * cluster; or has replied CROSSSLOT or TRYAGAIN and returns REDISMODULE_ERR: the handler then just
 * returns. Changes nothing. */
int slotsCheckOrReply(RedisModuleCtx *ctx, RedisModuleString **names, size_t count);

/* The same for whether a command that uses the key `name` may run the command `argv`, on whatever keys
 * that has. For what is no command, or has a wrong number of arguments, the answer is yes: the
 * server refuses it when it is called. */
int slotsCheckInnerOrReply(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString **argv,
                           int argc);

#endif
