/* See args.h. */
#include "commands/args.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "server/config.h"
#include "server/reply.h"
#include "server/server.h"

#define DEFAULT_INFO_COUNT 10

/* The options, and which of them exclude each other: two rows that share a bit of `excludes`
 * contradict. */
static const struct optionRow {
    const char *name;
    enum argsOption option;
    unsigned excludes;
    bool has_value;
} option_rows[] = {
    {"PX", ARGS_PX, ARGS_LEASE, true},
    {"EX", ARGS_EX, ARGS_LEASE, true},
    {"SESSION", ARGS_SESSION, ARGS_LEASE, false},
    {"BLOCK", ARGS_BLOCK, ARGS_BLOCK, true},
    {"READ", ARGS_READ, ARGS_READ | ARGS_WRITE, false},
    {"WRITE", ARGS_WRITE, ARGS_READ | ARGS_WRITE, false},
    {"COUNT", ARGS_COUNT, ARGS_COUNT, true},
    {"FENCED", ARGS_FENCED, ARGS_FENCED, false},
};

/* strcasecmp, for bytes that may hold a zero. */
static bool spells(RedisModuleString *argument, const char *word) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(argument, &length);
    return length == strlen(word) && strncasecmp(bytes, word, length) == 0;
}

static const struct optionRow *findOption(RedisModuleString *argument, unsigned allowed) {
    for (size_t i = 0; i < sizeof(option_rows) / sizeof(option_rows[0]); i++) {
        if ((option_rows[i].option & allowed) && spells(argument, option_rows[i].name)) {
            return &option_rows[i];
        }
    }
    return NULL;
}

/* A lease in units of `unit_ms`, as PEXPIRE checks its own: positive, and now + lease must not
 * overflow. */
static int leaseOrReply(RedisModuleCtx *ctx, RedisModuleString *value, int64_t unit_ms,
                        int64_t now_ms, int64_t *lease_ms) {
    long long amount;
    if (RedisModule_StringToLongLong(value, &amount) != REDISMODULE_OK || amount <= 0 ||
        amount > (INT64_MAX - now_ms) / unit_ms) {
        return replyError(ctx, REPLY_BAD_LEASE);
    }
    *lease_ms = amount * unit_ms;
    return REDISMODULE_OK;
}

static int blockOrReply(RedisModuleCtx *ctx, RedisModuleString *value, int64_t now_ms,
                        int64_t *block_ms) {
    long long amount;
    if (RedisModule_StringToLongLong(value, &amount) != REDISMODULE_OK || amount < 0 ||
        amount > INT64_MAX - now_ms) {
        return replyError(ctx, REPLY_BAD_BLOCK);
    }
    *block_ms = amount;
    return REDISMODULE_OK;
}

static int countOrReply(RedisModuleCtx *ctx, RedisModuleString *value, int64_t *count) {
    long long amount;
    if (RedisModule_StringToLongLong(value, &amount) != REDISMODULE_OK || amount < 0) {
        return replyError(ctx, REPLY_BAD_COUNT);
    }
    *count = amount;
    return REDISMODULE_OK;
}

static int valueOrReply(RedisModuleCtx *ctx, enum argsOption option, RedisModuleString *value,
                        int64_t now_ms, struct argsOptions *options) {
    switch (option) {
    case ARGS_PX:
        return leaseOrReply(ctx, value, 1, now_ms, &options->lease_ms);
    case ARGS_EX:
        return leaseOrReply(ctx, value, 1000, now_ms, &options->lease_ms);
    case ARGS_BLOCK:
        return blockOrReply(ctx, value, now_ms, &options->block_ms);
    case ARGS_COUNT:
        return countOrReply(ctx, value, &options->count);
    case ARGS_FENCED:
    case ARGS_SESSION:
    case ARGS_READ:
    case ARGS_WRITE:
        break; /* words without a value */
    }
    return REDISMODULE_OK;
}

int argsOptionsOrReply(RedisModuleCtx *ctx, RedisModuleString **argv, int argc, int first,
                       unsigned allowed, int64_t now_ms, struct argsOptions *options) {
    *options = (struct argsOptions){
        .lease_ms = configDefaultLeaseMs(), .block_ms = ARGS_NO_BLOCK, .count = DEFAULT_INFO_COUNT};
    for (int at = first; at < argc; at++) {
        const struct optionRow *row = findOption(argv[at], allowed);
        if (!row || (options->given & row->excludes)) {
            return replyError(ctx, REPLY_SYNTAX);
        }
        options->given |= row->option;
        if (!row->has_value) {
            continue;
        }
        if (++at == argc) {
            return replyError(ctx, REPLY_SYNTAX);
        }
        if (valueOrReply(ctx, row->option, argv[at], now_ms, options) != REDISMODULE_OK) {
            return REDISMODULE_ERR;
        }
    }
    return REDISMODULE_OK;
}

static bool endsWith(const char *bytes, size_t length, const char *end) {
    size_t end_length = strlen(end);
    return length >= end_length && memcmp(bytes + length - end_length, end, end_length) == 0;
}

int argsOwnerOrReply(RedisModuleCtx *ctx, RedisModuleString *owner) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(owner, &length);
    if (length < 1 || length > ARGS_LONGEST_OWNER) {
        return replyError(ctx, REPLY_OWNER_LENGTH);
    }
    bool is_mode = length == 4 && memcmp(bytes, "mode", 4) == 0;
    if (is_mode || endsWith(bytes, length, ":write")) {
        return replyError(ctx, REPLY_OWNER_RESERVED);
    }
    return REDISMODULE_OK;
}

int argsNumkeysOrReply(RedisModuleCtx *ctx, RedisModuleString **argv, int argc, int *keys) {
    long long count;
    if (RedisModule_StringToLongLong(argv[1], &count) != REDISMODULE_OK || count < 1 ||
        count > ARGS_MOST_KEYS) {
        return replyError(ctx, REPLY_BAD_NUMKEYS);
    }
    if (count + 3 > argc) {
        return replyError(ctx, REPLY_SYNTAX);
    }
    *keys = (int)count;
    return REDISMODULE_OK;
}

int argsSessionOrReply(RedisModuleCtx *ctx, unsigned long long *client_id) {
    *client_id = serverConnectionOf(ctx);
    return *client_id ? REDISMODULE_OK : replyError(ctx, REPLY_NO_SESSION);
}
