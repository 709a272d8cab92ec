/* Parses the arguments of the commands.
 *
 * Arguments are read from left to right; each option may be given once, in any order and case.
 * Functions named …OrReply return REDISMODULE_OK, or have replied the error and return
 * REDISMODULE_ERR: then the handler just returns.
 *
 * To add an option: a bit of enum argsOption, a row of option_rows, and where its value goes, in
 * valueOrReply or argsOptionsOrReply. CONTRIBUTING.md has the whole list.
 */
#ifndef LOCK_ARGS_H
#define LOCK_ARGS_H

#include <stdint.h>

#include "common/reply.h"
#include "redismodule.h"
#include "waits/request.h"

#define ARGS_MOST_KEYS 1024

/* The options that a command accepts; see argsOptionsOrReply. */
enum argsOption {
    ARGS_PX = 1 << 0, /* PX ms: the lease */
    ARGS_EX = 1 << 1, /* EX s: the same in seconds */
    ARGS_BLOCK = 1 << 2,
    ARGS_READ = 1 << 3,
    ARGS_WRITE = 1 << 4,
    ARGS_COUNT = 1 << 5,
    ARGS_FENCED = 1 << 6,
    ARGS_SESSION = 1 << 7,
    ARGS_PERMITS = 1 << 8,
    ARGS_WANTED = 1 << 9,
    ARGS_ONCE = 1 << 10,
    ARGS_REPLICAS = 1 << 11, /* REPLICAS n ms */
    ARGS_RESET = 1 << 12,
    ARGS_RELEASE = 1 << 13,
    ARGS_MODES = 1 << 14 /* MODES mode [mode ...]: one for each key */
};
#define ARGS_LEASE (ARGS_PX | ARGS_EX | ARGS_SESSION)
#define ARGS_ACQUIRE \
    (ARGS_LEASE | ARGS_BLOCK | ARGS_ONCE | ARGS_REPLICAS) /* of every acquiring command */
#define ARGS_WHICH \
    (ARGS_READ | ARGS_WRITE | ARGS_PERMITS) /* of the holds that LOCK.RELEASE releases */

/* The arguments of a command, and when it was called. */
struct args {
    RedisModuleCtx *ctx;
    RedisModuleString **argv;
    int argc;
    int64_t now_ms; /* unix time: read once for each command */
};

/* Returns the arguments with the time now. */
struct args argsOf(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);

struct argsOptions {
    unsigned given;            /* of enum argsOption */
    struct request wants;      /* the handler adds owner, mode and discipline */
    int64_t count;             /* COUNT; default: 10 */
    RedisModuleString **modes; /* MODES: one word for each key; NULL if it is not given */
};

/* Checks that this can be an owner (ownerfieldJudge). */
int argsOwnerOrReply(RedisModuleCtx *ctx, RedisModuleString *owner);

/* Reads the arguments from argv[first] on as options out of `allowed`, a set of enum argsOption. No
 * lease or wait may end after the largest time, and no lease may be longer than lock.max-lease;
 * SESSION needs a connection, which a script, a call from a module and a replica do not have.
 * Options that are not given have their defaults: lock.default-lease, and not to wait. MODES is for
 * commands whose options follow `numkeys`, the keys and an owner. */
int argsOptionsOrReply(const struct args *args, int first, unsigned allowed,
                       struct argsOptions *options);

/* The mode for the key with this index: MODE_EXCLUSIVE if MODES is not given. */
enum lockMode argsModeOf(const struct argsOptions *options, size_t key);

/* Reads the limit of a semaphore: 1 to 2^31-1, and not less than the permits that are requested. */
int argsLimitOrReply(const struct args *args, RedisModuleString *value, struct permits *permits);

/* Reads `value` as an integer from `least` to `most`; replies `error` if it is not one. */
struct argsInteger {
    int64_t least, most;
    enum replyError error;
};
int argsIntegerOrReply(RedisModuleCtx *ctx, RedisModuleString *value,
                       const struct argsInteger *wanted, int64_t *number);

/* Reads `numkeys`, 1 to 1,024, from argv[1], and checks that at least that many keys and an owner
 * follow. */
int argsNumkeysOrReply(const struct args *args, int *keys);

#endif
