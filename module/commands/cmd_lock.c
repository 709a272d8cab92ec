/* The commands that change who holds a lock or waits for it: parse, execute, reply.
 *
 *   LOCK.ACQUIRE, LOCK.FAIR, LOCK.RWREAD, LOCK.RWWRITE,                  acquire.h
 *   LOCK.SEMAPHORE, LOCK.MACQUIRE
 *   LOCK.RENEW, LOCK.MRENEW                                              renew.h
 *   LOCK.RELEASE, LOCK.MRELEASE, LOCK.FORCE                              release.h
 *   LOCK.CANCEL                                                          cancel.h
 *
 * Each handler begins with its usage line. To add a command: a handler in the cmd_*.c of its
 * family, its declaration in commands.h, a row in commands.c.
 */
#include <stdbool.h>

#include "commands/args.h"
#include "commands/commands.h"
#include "commands/slots.h"
#include "common/reply.h"
#include "core/mem.h"
#include "grant/acquire.h"
#include "grant/cancel.h"
#include "grant/release.h"
#include "grant/renew.h"
#include "server/server.h"

/* ---- one key ---- */

/* What distinguishes an acquiring command, apart from its arguments. */
struct family {
    enum lockMode mode;
    enum discipline discipline;
    unsigned options;
};

/* <command> key owner [options of the family] */
static int acquire(const struct args *args, const struct family *family) {
    struct argsOptions options;
    if (args->argc < 3) {
        return RedisModule_WrongArity(args->ctx);
    }
    if (argsOwnerOrReply(args->ctx, args->argv[2]) != REDISMODULE_OK ||
        argsOptionsOrReply(args, 3, family->options, &options) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    options.wants.owner = args->argv[2];
    options.wants.lock.mode = family->mode;
    options.wants.discipline = family->discipline;
    struct outcome outcome = {0};
    enum result result = acquireLock(args->ctx, args->argv[1], &options.wants, &outcome);
    return replyOutcome(args->ctx, result, &outcome);
}

/* LOCK.ACQUIRE key owner [PX ms | EX s | SESSION] [BLOCK ms] [FENCED] [ONCE]
 *     [REPLICAS n ms] */
int acquireCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    static const struct family plain = {MODE_EXCLUSIVE, PLAIN, ARGS_ACQUIRE | ARGS_FENCED};
    const struct args args = argsOf(ctx, argv, argc);
    return acquire(&args, &plain);
}

/* LOCK.FAIR key owner [PX ms | EX s | SESSION] [BLOCK ms] [FENCED] [ONCE]
 *     [REPLICAS n ms] */
int fairCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    static const struct family fair = {MODE_EXCLUSIVE, FAIR, ARGS_ACQUIRE | ARGS_FENCED};
    const struct args args = argsOf(ctx, argv, argc);
    return acquire(&args, &fair);
}

/* LOCK.RWREAD key owner [PX ms | EX s | SESSION] [BLOCK ms] [ONCE]
 *     [REPLICAS n ms] */
int readCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    static const struct family read = {MODE_READ, ORDERED, ARGS_ACQUIRE};
    const struct args args = argsOf(ctx, argv, argc);
    return acquire(&args, &read);
}

/* LOCK.RWWRITE key owner [PX ms | EX s | SESSION] [BLOCK ms] [FENCED] [ONCE]
 *     [REPLICAS n ms] */
int writeCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    static const struct family write = {MODE_WRITE, ORDERED, ARGS_ACQUIRE | ARGS_FENCED};
    const struct args args = argsOf(ctx, argv, argc);
    return acquire(&args, &write);
}

/* LOCK.SEMAPHORE key owner limit [PERMITS k] [PX ms | EX s | SESSION] [BLOCK ms] [ONCE]
 *     [REPLICAS n ms] */
int semaphoreCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    const struct args args = argsOf(ctx, argv, argc);
    struct argsOptions options;
    struct request *wants = &options.wants;
    if (argc < 4) {
        return RedisModule_WrongArity(ctx);
    }
    if (argsOwnerOrReply(ctx, argv[2]) != REDISMODULE_OK ||
        argsOptionsOrReply(&args, 4, ARGS_ACQUIRE | ARGS_PERMITS, &options) != REDISMODULE_OK ||
        argsLimitOrReply(&args, argv[3], &wants->lock.permits) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    wants->owner = argv[2];
    wants->lock.mode = MODE_SEMAPHORE;
    wants->discipline = ORDERED;
    struct outcome outcome = {0};
    enum result result = acquireLock(ctx, argv[1], wants, &outcome);
    return replyOutcome(ctx, result, &outcome);
}

/* The renewal that these options request. */
static struct renewal cmdLockRenewalOf(RedisModuleString *owner,
                                       const struct argsOptions *options) {
    struct renewal renewal = {.owner = owner,
                              .lease_ms = options->wants.lease_ms,
                              .binding = BINDING_KEEP,
                              .session = options->wants.session,
                              .replicas = options->wants.replicas,
                              .now_ms = options->wants.now_ms};
    if (options->given & ARGS_LEASE) {
        renewal.binding = renewal.session.client_id ? BINDING_NEW : BINDING_END;
    }
    return renewal;
}

/* LOCK.RENEW key owner [PX ms | EX s | SESSION] [REPLICAS n ms] */
int renewCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    const struct args args = argsOf(ctx, argv, argc);
    struct argsOptions options;
    if (argc < 3) {
        return RedisModule_WrongArity(ctx);
    }
    if (argsOwnerOrReply(ctx, argv[2]) != REDISMODULE_OK ||
        argsOptionsOrReply(&args, 3, ARGS_LEASE | ARGS_REPLICAS, &options) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    const struct renewal renewal = cmdLockRenewalOf(argv[2], &options);
    struct outcome outcome = {0};
    enum result result = renewLock(ctx, argv[1], &renewal, &outcome);
    return replyOutcome(ctx, result, &outcome);
}

static enum holdingWhich cmdLockWhichOf(unsigned given) {
    if (given & ARGS_PERMITS) {
        return HOLDING_PERMITS;
    }
    if (given & ARGS_READ) {
        return HOLDING_READ;
    }
    return given & ARGS_WRITE ? HOLDING_WRITE : HOLDING_ONLY_MODE;
}

/* The release that the owner, argv[2], requests with options out of ARGS_WHICH. */
static struct release cmdLockReleaseOf(const struct args *args, const struct argsOptions *options) {
    return (struct release){.owner = args->argv[2],
                            .which = cmdLockWhichOf(options->given),
                            .count = options->wants.lock.permits.count,
                            .now_ms = args->now_ms};
}

/* LOCK.RELEASE key owner [READ | WRITE | PERMITS k] */
int releaseCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    const struct args args = argsOf(ctx, argv, argc);
    struct argsOptions options;
    if (argc < 3) {
        return RedisModule_WrongArity(ctx);
    }
    if (argsOwnerOrReply(ctx, argv[2]) != REDISMODULE_OK ||
        argsOptionsOrReply(&args, 3, ARGS_WHICH, &options) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    const struct release release = cmdLockReleaseOf(&args, &options);
    struct outcome outcome = {0};
    enum result result = releaseLock(ctx, argv[1], &release, &outcome);
    return replyOutcome(ctx, result, &outcome);
}

/* LOCK.FORCE key */
int forceCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    if (argc != 2) {
        return RedisModule_WrongArity(ctx);
    }
    struct outcome outcome = {0};
    enum result result = releaseForce(ctx, argv[1], serverNow(), &outcome);
    return replyOutcome(ctx, result, &outcome);
}

/* LOCK.CANCEL key owner [RELEASE [READ | WRITE | PERMITS k]] */
int cancelCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    const struct args args = argsOf(ctx, argv, argc);
    struct argsOptions options;
    if (argc < 3) {
        return RedisModule_WrongArity(ctx);
    }
    if (argsOwnerOrReply(ctx, argv[2]) != REDISMODULE_OK ||
        argsOptionsOrReply(&args, 3, ARGS_RELEASE | ARGS_WHICH, &options) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    if ((options.given & ARGS_WHICH) && !(options.given & ARGS_RELEASE)) {
        replyError(ctx, REPLY_SYNTAX);
        return REDISMODULE_OK;
    }
    const struct release release = cmdLockReleaseOf(&args, &options);
    struct outcome outcome = {0};
    enum result result = options.given & ARGS_RELEASE
                             ? cancelOrRelease(ctx, argv[1], &release, &outcome)
                             : cancelWaits(ctx, argv[1], &release, &outcome);
    return replyOutcome(ctx, result, &outcome);
}

/* ---- several keys ---- */

/* The arguments of these commands. `locks.each` is to be freed with memFree. */
struct keysAndOwner {
    struct multikeyLocks locks;
    RedisModuleString *owner;
    struct argsOptions options;
};

static struct multikeyLocks locksOf(RedisModuleString **names, size_t count,
                                    const struct argsOptions *options) {
    struct multikeyLocks locks = {memAlloc(count * sizeof(locks.each[0])), count};
    for (size_t i = 0; i < count; i++) {
        locks.each[i] = (struct multikeyLock){names[i], argsModeOf(options, i)};
    }
    return locks;
}

/* numkeys key [key ...] owner [options out of `allowed`] */
static int keysAndOwnerOrReply(const struct args *args, unsigned allowed,
                               struct keysAndOwner *given) {
    int keys;
    if (args->argc < 4) {
        RedisModule_WrongArity(args->ctx);
        return REDISMODULE_ERR;
    }
    if (argsNumkeysOrReply(args, &keys) != REDISMODULE_OK ||
        argsOwnerOrReply(args->ctx, args->argv[2 + keys]) != REDISMODULE_OK) {
        return REDISMODULE_ERR;
    }
    RedisModuleString **names = &args->argv[2];
    given->owner = args->argv[2 + keys];
    if (argsOptionsOrReply(args, 3 + keys, allowed, &given->options) != REDISMODULE_OK) {
        return REDISMODULE_ERR;
    }
    if (slotsCheckOrReply(args->ctx, names, (size_t)keys) != REDISMODULE_OK) {
        return REDISMODULE_ERR;
    }
    given->locks = locksOf(names, (size_t)keys, &given->options);
    return REDISMODULE_OK;
}

/* LOCK.MACQUIRE numkeys key [key ...] owner [MODES mode [mode ...]] [PX ms | EX s | SESSION]
 *     [BLOCK ms] [ONCE] [REPLICAS n ms] */
int macquireCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    const struct args args = argsOf(ctx, argv, argc);
    struct keysAndOwner given;
    if (keysAndOwnerOrReply(&args, ARGS_ACQUIRE | ARGS_MODES, &given) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    given.options.wants.owner = given.owner;
    given.options.wants.lock.mode = MODE_EXCLUSIVE; /* each lock has its own */
    given.options.wants.discipline = MULTIKEY;
    struct outcome outcome = {0};
    enum result result = acquireLocks(ctx, &given.locks, &given.options.wants, &outcome);
    memFree(given.locks.each);
    return replyOutcome(ctx, result, &outcome);
}

/* LOCK.MRELEASE numkeys key [key ...] owner [MODES mode [mode ...]] */
int mreleaseCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    const struct args args = argsOf(ctx, argv, argc);
    struct keysAndOwner given;
    if (keysAndOwnerOrReply(&args, ARGS_MODES, &given) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    const struct release release = {
        .owner = given.owner, .which = HOLDING_ONLY_MODE, .count = 1, .now_ms = args.now_ms};
    struct outcome outcome = {0};
    enum result result = releaseLocks(ctx, &given.locks, &release, &outcome);
    memFree(given.locks.each);
    return replyOutcome(ctx, result, &outcome);
}

/* LOCK.MRENEW numkeys key [key ...] owner [PX ms | EX s | SESSION] [REPLICAS n ms] */
int mrenewCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    const struct args args = argsOf(ctx, argv, argc);
    struct keysAndOwner given;
    if (keysAndOwnerOrReply(&args, ARGS_LEASE | ARGS_REPLICAS, &given) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    const struct renewal renewal = cmdLockRenewalOf(given.owner, &given.options);
    struct outcome outcome = {0};
    enum result result = renewLocks(ctx, &given.locks, &renewal, &outcome);
    memFree(given.locks.each);
    return replyOutcome(ctx, result, &outcome);
}
