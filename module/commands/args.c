/* See args.h. */
#include "commands/args.h"

#include <stdbool.h>
#include <stddef.h>
#include <strings.h>

#include "common/config.h"
#include "common/reply.h"
#include "keys/ownerfield.h"
#include "ledger/sessions.h"
#include "server/server.h"

#define DEFAULT_INFO_COUNT 10

#define WORD(text) text, sizeof(text) - 1
#define ONE_EACH (-1)

/* The options, and which of them exclude each other: two rows that share a bit of `excludes` cannot
 * be given together. */
static const struct optionRow {
    const char *name;
    size_t length; /* of the name */
    enum argsOption option;
    unsigned excludes;
    int values; /* how many arguments follow it; ONE_EACH: as many as there are keys */
} option_rows[] = {
    {WORD("PX"), ARGS_PX, ARGS_LEASE, 1},
    {WORD("EX"), ARGS_EX, ARGS_LEASE, 1},
    {WORD("SESSION"), ARGS_SESSION, ARGS_LEASE, 0},
    {WORD("BLOCK"), ARGS_BLOCK, ARGS_BLOCK, 1},
    {WORD("READ"), ARGS_READ, ARGS_WHICH, 0},
    {WORD("WRITE"), ARGS_WRITE, ARGS_WHICH, 0},
    {WORD("COUNT"), ARGS_COUNT, ARGS_COUNT, 1},
    {WORD("FENCED"), ARGS_FENCED, ARGS_FENCED, 0},
    {WORD("PERMITS"), ARGS_PERMITS, ARGS_WHICH, 1},
    {WORD("WANTED"), ARGS_WANTED, ARGS_WANTED, 0},
    {WORD("ONCE"), ARGS_ONCE, ARGS_ONCE, 0},
    {WORD("REPLICAS"), ARGS_REPLICAS, ARGS_REPLICAS, 2},
    {WORD("RESET"), ARGS_RESET, ARGS_RESET, 0},
    {WORD("RELEASE"), ARGS_RELEASE, ARGS_RELEASE, 0},
    {WORD("MODES"), ARGS_MODES, ARGS_MODES, ONE_EACH},
};

/* The option that the argument spells, in any case, if it is one of these. */
static const struct optionRow *findOption(RedisModuleString *argument, unsigned allowed) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(argument, &length);
    for (size_t i = 0; i < sizeof(option_rows) / sizeof(option_rows[0]); i++) {
        const struct optionRow *row = &option_rows[i];
        if (row->length == length && (row->option & allowed) &&
            strncasecmp(bytes, row->name, length) == 0) {
            return row;
        }
    }
    return NULL;
}

struct args argsOf(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    return (struct args){ctx, argv, argc, serverNow()};
}

/* Reads a lease in units of `unit_ms`, with the checks of PEXPIRE: it is positive, and now + lease
 * does not overflow. */
static int leaseOrReply(const struct args *args, RedisModuleString *value, int64_t unit_ms,
                        int64_t *lease_ms) {
    long long amount;
    if (RedisModule_StringToLongLong(value, &amount) != REDISMODULE_OK || amount <= 0 ||
        amount > (INT64_MAX - args->now_ms) / unit_ms) {
        return replyError(args->ctx, REPLY_BAD_LEASE);
    }
    *lease_ms = amount * unit_ms;
    return REDISMODULE_OK;
}

static int blockOrReply(const struct args *args, RedisModuleString *value, int64_t *block_ms) {
    long long amount;
    if (RedisModule_StringToLongLong(value, &amount) != REDISMODULE_OK || amount < 0 ||
        amount > INT64_MAX - args->now_ms) {
        return replyError(args->ctx, REPLY_BAD_BLOCK);
    }
    *block_ms = amount;
    return REDISMODULE_OK;
}

int argsIntegerOrReply(RedisModuleCtx *ctx, RedisModuleString *value,
                       const struct argsInteger *wanted, int64_t *number) {
    long long amount;
    if (RedisModule_StringToLongLong(value, &amount) != REDISMODULE_OK || amount < wanted->least ||
        amount > wanted->most) {
        return replyError(ctx, wanted->error);
    }
    *number = amount;
    return REDISMODULE_OK;
}

static int permitsOrReply(const struct args *args, RedisModuleString *value, int64_t *permits) {
    static const struct argsInteger wanted = {1, RULES_MAX_HOLDS, REPLY_BAD_PERMITS};
    return argsIntegerOrReply(args->ctx, value, &wanted, permits);
}

int argsLimitOrReply(const struct args *args, RedisModuleString *value, struct permits *permits) {
    static const struct argsInteger wanted = {1, RULES_MAX_HOLDS, REPLY_BAD_LIMIT};
    if (argsIntegerOrReply(args->ctx, value, &wanted, &permits->limit) != REDISMODULE_OK) {
        return REDISMODULE_ERR;
    }
    return permits->count <= permits->limit ? REDISMODULE_OK
                                            : replyError(args->ctx, REPLY_OVER_LIMIT);
}

static int countOrReply(const struct args *args, RedisModuleString *value, int64_t *count) {
    static const struct argsInteger wanted = {0, INT64_MAX, REPLY_BAD_COUNT};
    return argsIntegerOrReply(args->ctx, value, &wanted, count);
}

static int replicasOrReply(const struct args *args, RedisModuleString **values,
                           struct requestReplicas *replicas) {
    static const struct argsInteger count = {1, INT32_MAX, REPLY_BAD_REPLICAS};
    const struct argsInteger within = {1, INT64_MAX - args->now_ms, REPLY_BAD_REPLICAS_TIME};
    if (argsIntegerOrReply(args->ctx, values[0], &count, &replicas->count) != REDISMODULE_OK) {
        return REDISMODULE_ERR;
    }
    return argsIntegerOrReply(args->ctx, values[1], &within, &replicas->within_ms);
}

/* The options begin after `numkeys`, the keys and the owner. */
static int keysBefore(int first) {
    return first - 3;
}

static int modesOrReply(const struct args *args, RedisModuleString **values, int count,
                        struct argsOptions *options) {
    for (int i = 0; i < count; i++) {
        if (!findOption(values[i], ARGS_READ | ARGS_WRITE)) {
            return replyError(args->ctx, REPLY_BAD_MODE);
        }
    }
    options->modes = values;
    return REDISMODULE_OK;
}

enum lockMode argsModeOf(const struct argsOptions *options, size_t key) {
    if (!options->modes) {
        return MODE_EXCLUSIVE;
    }
    return findOption(options->modes[key], ARGS_READ) ? MODE_READ : MODE_WRITE;
}

/* `values` are the arguments after the option. */
static int valueOrReply(const struct args *args, enum argsOption option, RedisModuleString **values,
                        struct argsOptions *options) {
    RedisModuleString *value = values[0];
    switch (option) {
    case ARGS_PX:
        return leaseOrReply(args, value, 1, &options->wants.lease_ms);
    case ARGS_EX:
        return leaseOrReply(args, value, 1000, &options->wants.lease_ms);
    case ARGS_BLOCK:
        return blockOrReply(args, value, &options->wants.block_ms);
    case ARGS_COUNT:
        return countOrReply(args, value, &options->count);
    case ARGS_PERMITS:
        return permitsOrReply(args, value, &options->wants.lock.permits.count);
    case ARGS_REPLICAS:
        return replicasOrReply(args, values, &options->wants.replicas);
    case ARGS_FENCED:
    case ARGS_SESSION:
    case ARGS_READ:
    case ARGS_WRITE:
    case ARGS_WANTED:
    case ARGS_ONCE:
    case ARGS_RESET:
    case ARGS_RELEASE:
    case ARGS_MODES:
        break; /* words without a value, and MODES */
    }
    return REDISMODULE_OK;
}

static int sessionOrReply(const struct args *args, struct argsOptions *options) {
    options->wants.session = sessionsAsked(args->ctx);
    bool has_connection = options->wants.session.client_id;
    return has_connection ? REDISMODULE_OK : replyError(args->ctx, REPLY_NO_SESSION);
}

/* The lease and the session of a hold, for commands that accept them. Others, such as LATCH.SET,
 * have PX and EX, but no lease. */
static int holdOrReply(const struct args *args, struct argsOptions *options) {
    long long longest_ms = configMaxLeaseMs();
    if (!(options->given & ARGS_LEASE) || (options->given & ARGS_SESSION)) {
        options->wants.lease_ms = configDefaultLeaseMs();
    }
    if (longest_ms > 0 && options->wants.lease_ms > longest_ms) {
        return replyError(args->ctx, REPLY_LONG_LEASE);
    }
    return options->given & ARGS_SESSION ? sessionOrReply(args, options) : REDISMODULE_OK;
}

int argsOptionsOrReply(const struct args *args, int first, unsigned allowed,
                       struct argsOptions *options) {
    *options = (struct argsOptions){
        .wants = {.now_ms = args->now_ms, .block_ms = REQUEST_NO_WAIT, .lock.permits.count = 1},
        .count = DEFAULT_INFO_COUNT};
    for (int at = first; at < args->argc; at++) {
        const struct optionRow *row = findOption(args->argv[at], allowed);
        if (!row || (options->given & row->excludes)) {
            return replyError(args->ctx, REPLY_SYNTAX);
        }
        options->given |= row->option;
        int count = row->values == ONE_EACH ? keysBefore(first) : row->values;
        if (count == 0) {
            continue; /* the option may be the last argument */
        }
        if (count >= args->argc - at) {
            return replyError(args->ctx, REPLY_SYNTAX);
        }
        RedisModuleString **values = &args->argv[at + 1];
        int read = row->values == ONE_EACH ? modesOrReply(args, values, count, options)
                                           : valueOrReply(args, row->option, values, options);
        if (read != REDISMODULE_OK) {
            return REDISMODULE_ERR;
        }
        at += count;
    }
    options->wants.fenced = options->given & ARGS_FENCED;
    options->wants.lock.once = options->given & ARGS_ONCE;
    return allowed & ARGS_SESSION ? holdOrReply(args, options) : REDISMODULE_OK;
}

int argsOwnerOrReply(RedisModuleCtx *ctx, RedisModuleString *owner) {
    switch (ownerfieldJudge(owner)) {
    case OWNERFIELD_BAD_LENGTH:
        return replyError(ctx, REPLY_OWNER_LENGTH);
    case OWNERFIELD_RESERVED:
        return replyError(ctx, REPLY_OWNER_RESERVED);
    case OWNERFIELD_OWNER:
        break;
    }
    return REDISMODULE_OK;
}

int argsNumkeysOrReply(const struct args *args, int *keys) {
    long long count;
    if (RedisModule_StringToLongLong(args->argv[1], &count) != REDISMODULE_OK || count < 1 ||
        count > ARGS_MOST_KEYS) {
        return replyError(args->ctx, REPLY_BAD_NUMKEYS);
    }
    if (count + 3 > args->argc) {
        return replyError(args->ctx, REPLY_SYNTAX);
    }
    *keys = (int)count;
    return REDISMODULE_OK;
}
