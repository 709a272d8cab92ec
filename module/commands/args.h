/* Reading the arguments of the commands.
 *
 * One cursor walks the arguments from left to right; each option may stand once, in any order and
 * case. Functions named …OrReply return REDISMODULE_OK, or have replied the error and return
 * REDISMODULE_ERR: the handler then just returns.
 */
#ifndef LOCK_ARGS_H
#define LOCK_ARGS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/rules.h"
#include "redismodule.h"

#define ARGS_LONGEST_OWNER 512
#define ARGS_MOST_KEYS 1024

/* How long a request may wait: BLOCK was left out, or is a number of ms, 0 = for ever. */
#define ARGS_NO_BLOCK (-1)
#define ARGS_BLOCK_FOR_EVER 0

/* Which options a command takes; see argsOptionsOrReply. */
enum argsOption {
    ARGS_PX = 1 << 0, /* PX ms: the lease */
    ARGS_EX = 1 << 1, /* EX s: likewise */
    ARGS_BLOCK = 1 << 2,
    ARGS_READ = 1 << 3,
    ARGS_WRITE = 1 << 4,
    ARGS_COUNT = 1 << 5,
    ARGS_FENCED = 1 << 6,
    ARGS_SESSION = 1 << 7
};
#define ARGS_LEASE (ARGS_PX | ARGS_EX | ARGS_SESSION)

struct argsOptions {
    unsigned given;   /* of enum argsOption */
    int64_t lease_ms; /* default: lock.default-lease */
    int64_t block_ms; /* default: ARGS_NO_BLOCK */
    int64_t count;    /* default: 10 */
};

/* Checks an owner: 1 to 512 bytes, not `mode`, not ending in `:write`, because those are fields of
 * the lock's own hash. */
int argsOwnerOrReply(RedisModuleCtx *ctx, RedisModuleString *owner);

/* Reads argv[first] to argv[argc-1] as options out of `allowed`, a set of enum argsOption. `now_ms`
 * is the unix time: no lease or wait may end past the largest time. */
int argsOptionsOrReply(RedisModuleCtx *ctx, RedisModuleString **argv, int argc, int first,
                       unsigned allowed, int64_t now_ms, struct argsOptions *options);

/* Reads `numkeys key [key ...] owner` from argv[1] on: there is room for that many keys, 1 to 1,024,
 * and an owner behind them. */
int argsNumkeysOrReply(RedisModuleCtx *ctx, RedisModuleString **argv, int argc, int *keys);

/* The connection that SESSION binds to. In a script, a call from a module, or on a replica there is
 * none: an error. */
int argsSessionOrReply(RedisModuleCtx *ctx, unsigned long long *client_id);

#endif
