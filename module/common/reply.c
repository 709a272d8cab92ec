/* See reply.h.
 *
 *   replyOutcome                  the reply to how a command on locks has ended
 *   replyInteger, replyNull, …    single replies
 *   replyMap, replyField…, …      the maps and lists of LOCK.INFO
 *
 * To add an error: a row of enum replyError and its text here; if a command on locks can end with
 * it, also a row of enum result, for which the compiler then requires a case in replyOutcome.
 */
#include "common/reply.h"

#include <stddef.h>
#include <string.h>

/* The server's own text. */
static const char unblocked_text[] = "UNBLOCKED force unblock from blocking operation, "
                                     "instance state changed (master -> replica?)";

static const char *const error_texts[REPLY_ERROR_COUNT] = {
    [REPLY_SYNTAX] = "ERR syntax error",
    [REPLY_BAD_LEASE] = "ERR lease is not a positive integer or out of range",
    [REPLY_LONG_LEASE] = "ERR lease is longer than lock.max-lease",
    [REPLY_BAD_BLOCK] = "ERR timeout is not an integer, is negative or out of range",
    [REPLY_BAD_COUNT] = "ERR count is not an integer or is negative",
    [REPLY_BAD_NUMKEYS] = "ERR numkeys is not an integer from 1 to 1024",
    [REPLY_BAD_MODE] = "ERR each mode must be READ or WRITE",
    [REPLY_OWNER_LENGTH] = "ERR owner must be 1 to 512 bytes long",
    [REPLY_OWNER_RESERVED] =
        "ERR owner is reserved: it may not be 'mode' and may not end in ':write'",
    [REPLY_WRONG_TYPE] = "WRONGTYPE Operation against a key holding the wrong kind of value",
    [REPLY_NOT_HELD] = "NOTHELD the owner holds no such lock",
    [REPLY_TOO_MANY_HOLDS] = "ERR hold count would overflow",
    [REPLY_NO_TOKEN] = "ERR no larger fencing token is left for this lock",
    [REPLY_TOO_MANY_WAITERS] = "ERR too many waiters, see lock.max-waiters",
    [REPLY_NO_SIDE_KEYS] = "ERR in a cluster the key must have a hash tag, or contain no '}'",
    [REPLY_BOTH_MODES] = "ERR the owner holds the lock in both modes: READ or WRITE is required",
    [REPLY_NO_SESSION] =
        "ERR SESSION is not allowed in a script, inside LOCK.GUARD or on a replica",
    [REPLY_NESTED_GUARD] = "ERR LOCK.GUARD may not run inside itself",
    [REPLY_NO_KEY_PERMISSION] = "NOPERM No permissions to access a key",
    [REPLY_NO_CHANNEL_PERMISSION] = "NOPERM No permissions to access a channel",
    [REPLY_NOT_RUN] = "ERR the command could not be run",
    [REPLY_BAD_DELAY] = "ERR delay is not an integer, is negative or out of range",
    [REPLY_EMPTY_ID] = "ERR id is empty",
    [REPLY_ANOTHER_LIST] =
        "ERR elements of another list are pending under these keys: 'x' and '{x}' share theirs",
    [REPLY_BAD_LIMIT] = "ERR limit is not an integer from 1 to 2147483647",
    [REPLY_BAD_PERMITS] = "ERR permits is not an integer from 1 to 2147483647",
    [REPLY_OVER_LIMIT] = "ERR more permits than the limit",
    [REPLY_NO_LATCH] = "ERR value is not an integer or out of range",
    [REPLY_BAD_BY] = "ERR by is not a positive integer or out of range",
    [REPLY_BAD_REPLICAS] = "ERR replicas is not an integer from 1 to 2147483647",
    [REPLY_BAD_REPLICAS_TIME] =
        "ERR the time for replicas is not a positive integer or out of range",
    [REPLY_FEW_REPLICAS] = "NOREPLICAS fewer replicas are connected than REPLICAS asks for",
    [REPLY_NO_WAIT_FOR_REPLICAS] =
        "NOREPLICAS this client cannot wait: in a transaction, a script, or on a replica",
    [REPLY_NOT_ACKNOWLEDGED] =
        "NOREPLICAS too few replicas acknowledged it in time, or the hold has ended",
    [REPLY_STALLED] =
        "NOREPLICAS the server was stalled and has not counted its replicas since: try again",
    [REPLY_UNBLOCKED] = unblocked_text,
    [REPLY_TRY_AGAIN] = "TRYAGAIN the slot of this key is being moved",
    [REPLY_CROSS_SLOT] = "CROSSSLOT Keys in request don't hash to the same slot",
    [REPLY_KEY_IN_USE] = "TRYAGAIN the key is being written to a snapshot",
};

int replyError(RedisModuleCtx *ctx, enum replyError error) {
    RedisModule_ReplyWithError(ctx, error_texts[error]);
    return REDISMODULE_ERR;
}

int replyInteger(RedisModuleCtx *ctx, int64_t value) {
    return RedisModule_ReplyWithLongLong(ctx, value);
}

static const char *const words[REPLY_WORD_COUNT] = {
    [REPLY_OK] = "OK", [REPLY_LOST] = "LOST", [REPLY_WANTED] = "WANTED"};

int replyWord(RedisModuleCtx *ctx, enum replyWord word) {
    return RedisModule_ReplyWithSimpleString(ctx, words[word]);
}

int replyString(RedisModuleCtx *ctx, RedisModuleString *value) {
    return RedisModule_ReplyWithString(ctx, value);
}

int replyNull(RedisModuleCtx *ctx) {
    return RedisModule_ReplyWithNull(ctx);
}

/* An error is a single line: bytes of a key or an owner that would end it are replaced by dots. */
static char printable(char byte) {
    unsigned char code = (unsigned char)byte;
    return code < ' ' || code == 0x7f ? '.' : byte;
}

int replyDeadlock(RedisModuleCtx *ctx, RedisModuleString *cycle) {
    RedisModuleString *text = RedisModule_CreateString(ctx, "DEADLOCK ", strlen("DEADLOCK "));
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(cycle, &length);
    for (size_t i = 0; i < length; i++) {
        char byte = printable(bytes[i]);
        RedisModule_StringAppendBuffer(ctx, text, &byte, 1);
    }
    RedisModule_ReplyWithError(ctx, RedisModule_StringPtrLen(text, NULL));
    RedisModule_FreeString(ctx, text);
    return REDISMODULE_OK;
}

int replyNoCommandPermission(RedisModuleCtx *ctx, RedisModuleString *command) {
    RedisModuleString *user = RedisModule_GetCurrentUserName(ctx);
    RedisModuleString *text = RedisModule_CreateStringPrintf(
        ctx, "NOPERM User %s has no permissions to run the '%s' command",
        RedisModule_StringPtrLen(user, NULL), RedisModule_StringPtrLen(command, NULL));
    RedisModule_ReplyWithError(ctx, RedisModule_StringPtrLen(text, NULL));
    RedisModule_FreeString(ctx, text);
    RedisModule_FreeString(ctx, user);
    return REDISMODULE_OK;
}

RedisModuleString *replyMakeRedirection(bool asks, int slot, const char *address) {
    return RedisModule_CreateStringPrintf(NULL, "%s %d %s", asks ? "ASK" : "MOVED", slot, address);
}

int replyErrorText(RedisModuleCtx *ctx, RedisModuleString *error) {
    RedisModule_ReplyWithError(ctx, RedisModule_StringPtrLen(error, NULL));
    return REDISMODULE_OK;
}

int replyOutcome(RedisModuleCtx *ctx, enum result result, struct outcome *outcome) {
    switch (result) {
    case RESULT_DONE:
        replyInteger(ctx, outcome->count);
        break;
    case RESULT_BUSY:
        replyNull(ctx);
        break;
    case RESULT_WAITING:
        break;
    case RESULT_NOT_HELD:
        replyError(ctx, REPLY_NOT_HELD);
        break;
    case RESULT_WRONG_TYPE:
        replyError(ctx, REPLY_WRONG_TYPE);
        break;
    case RESULT_NO_TOKEN:
        replyError(ctx, REPLY_NO_TOKEN);
        break;
    case RESULT_TOO_MANY_HOLDS:
        replyError(ctx, REPLY_TOO_MANY_HOLDS);
        break;
    case RESULT_TOO_MANY_WAITERS:
        replyError(ctx, REPLY_TOO_MANY_WAITERS);
        break;
    case RESULT_NO_SIDE_KEYS:
        replyError(ctx, REPLY_NO_SIDE_KEYS);
        break;
    case RESULT_TRY_AGAIN:
        replyError(ctx, REPLY_TRY_AGAIN);
        break;
    case RESULT_KEY_IN_USE:
        replyError(ctx, REPLY_KEY_IN_USE);
        break;
    case RESULT_BOTH_MODES:
        replyError(ctx, REPLY_BOTH_MODES);
        break;
    case RESULT_NO_LATCH:
        replyError(ctx, REPLY_NO_LATCH);
        break;
    case RESULT_FEW_REPLICAS:
        replyError(ctx, REPLY_FEW_REPLICAS);
        break;
    case RESULT_NO_WAIT_FOR_REPLICAS:
        replyError(ctx, REPLY_NO_WAIT_FOR_REPLICAS);
        break;
    case RESULT_STALLED:
        replyError(ctx, REPLY_STALLED);
        break;
    case RESULT_DEADLOCK:
        replyDeadlock(ctx, outcome->cycle);
        RedisModule_FreeString(ctx, outcome->cycle);
        break;
    }
    return REDISMODULE_OK;
}

void replyMap(RedisModuleCtx *ctx, long fields) {
    RedisModule_ReplyWithMap(ctx, fields);
}

void replyList(RedisModuleCtx *ctx, long length) {
    RedisModule_ReplyWithArray(ctx, length);
}

void replyListStart(RedisModuleCtx *ctx) {
    RedisModule_ReplyWithArray(ctx, REDISMODULE_POSTPONED_LEN);
}

void replyListEnd(RedisModuleCtx *ctx, long length) {
    RedisModule_ReplySetArrayLength(ctx, length);
}

void replyFieldName(RedisModuleCtx *ctx, const char *name) {
    RedisModule_ReplyWithCString(ctx, name);
}

void replyFieldInteger(RedisModuleCtx *ctx, const char *name, int64_t value) {
    replyFieldName(ctx, name);
    RedisModule_ReplyWithLongLong(ctx, value);
}

void replyFieldText(RedisModuleCtx *ctx, const char *name, const char *text) {
    replyFieldName(ctx, name);
    RedisModule_ReplyWithCString(ctx, text);
}

void replyFieldString(RedisModuleCtx *ctx, const char *name, RedisModuleString *value) {
    replyFieldName(ctx, name);
    RedisModule_ReplyWithString(ctx, value);
}

void replyFieldNull(RedisModuleCtx *ctx, const char *name) {
    replyFieldName(ctx, name);
    RedisModule_ReplyWithNull(ctx);
}
