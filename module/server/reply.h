/* Every reply and every error text of the module, and how a command ends. No other file knows RESP
 * or a text for the user.
 */
#ifndef LOCK_REPLY_H
#define LOCK_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "redismodule.h"

enum replyError {
    REPLY_SYNTAX,
    REPLY_BAD_LEASE,
    REPLY_LONG_LEASE,
    REPLY_BAD_BLOCK,
    REPLY_BAD_COUNT,
    REPLY_BAD_NUMKEYS,
    REPLY_OWNER_LENGTH,
    REPLY_OWNER_RESERVED,
    REPLY_WRONG_TYPE,
    REPLY_NOT_HELD,
    REPLY_TOO_MANY_HOLDS,
    REPLY_NO_TOKEN,
    REPLY_TOO_MANY_WAITERS,
    REPLY_NO_SIDE_KEYS,
    REPLY_BOTH_MODES,
    REPLY_NO_SESSION,
    REPLY_NESTED_GUARD,
    REPLY_NO_KEY_PERMISSION,
    REPLY_NO_CHANNEL_PERMISSION,
    REPLY_NOT_RUN,
    REPLY_TRY_AGAIN,
    REPLY_CROSS_SLOT,
    REPLY_KEY_IN_USE,
    REPLY_BAD_DELAY,
    REPLY_EMPTY_ID,
    REPLY_ANOTHER_LIST,
    REPLY_BAD_LIMIT,
    REPLY_BAD_PERMITS,
    REPLY_OVER_LIMIT,
    REPLY_NO_LATCH,
    REPLY_BAD_BY,
    REPLY_BAD_REPLICAS,
    REPLY_BAD_REPLICAS_TIME,
    REPLY_FEW_REPLICAS,
    REPLY_NO_WAIT_FOR_REPLICAS,
    REPLY_NOT_ACKNOWLEDGED,
    REPLY_STOOD_STILL,
    REPLY_UNBLOCKED,
    REPLY_ERROR_COUNT
};

/* What is said in one word, a simple string. */
enum replyWord { REPLY_OK, REPLY_LOST, REPLY_WANTED, REPLY_WORD_COUNT };

/* How a command that acquires, renews, releases or frees locks has ended. */
enum result {
    RESULT_DONE,     /* the outcome's `count` says how many holds there are, or the token */
    RESULT_BUSY,     /* somebody else has it, and the request does not wait */
    RESULT_WAITING,  /* the client is blocked: no reply is to be made now */
    RESULT_NOT_HELD, /* the owner holds no such lock */
    RESULT_WRONG_TYPE,
    RESULT_NO_TOKEN, /* FENCED: no larger one is left */
    RESULT_TOO_MANY_HOLDS,
    RESULT_TOO_MANY_WAITERS,
    RESULT_NO_SIDE_KEYS, /* in a cluster: this name can have none in its slot */
    RESULT_DEADLOCK,     /* the wait would never end; the outcome's `cycle` tells why */
    RESULT_TRY_AGAIN,    /* in a cluster: the slot moves, and side keys with it, one by one */
    RESULT_KEY_IN_USE,   /* the server writes one of the keys to a snapshot: keynamesIsInUse */
    RESULT_BOTH_MODES,   /* the owner holds reads and writes, and has to say which to release */
    RESULT_NO_LATCH,     /* the key is a string, and no number */
    RESULT_FEW_REPLICAS, /* fewer are connected than are to acknowledge it */
    RESULT_NO_WAIT_FOR_REPLICAS, /* the client may not be blocked until they have */
    RESULT_STOOD_STILL, /* it may have lost its replicas meanwhile, and would refuse a write */
};

struct outcome {
    int64_t count;
    RedisModuleString *cycle; /* of RESULT_DEADLOCK; the owner of the outcome frees it */
};

/* Replies `result`, with what `outcome` says, and frees that; nothing when the client has begun to
 * wait. Always returns REDISMODULE_OK, for a handler to return. */
int replyOutcome(RedisModuleCtx *ctx, enum result result, struct outcome *outcome);

/* Replies the error. Returns REDISMODULE_ERR, so that a function named …OrReply can return it on.
 */
int replyError(RedisModuleCtx *ctx, enum replyError error);

/* These return REDISMODULE_OK, so that a handler can return them on. */

int replyInteger(RedisModuleCtx *ctx, int64_t value);

int replyWord(RedisModuleCtx *ctx, enum replyWord word);

int replyString(RedisModuleCtx *ctx, RedisModuleString *value);

/* Not acquired in time. */
int replyNull(RedisModuleCtx *ctx);

/* This wait would close a cycle, which the text names: who waits for which key held by whom. */
int replyDeadlock(RedisModuleCtx *ctx, RedisModuleString *cycle);

/* The user of this client may not run `command`, which exists. */
int replyNoCommandPermission(RedisModuleCtx *ctx, RedisModuleString *command);

/* The text of the error that sends a client to `address`, `host:port`: ASK while the slot is on its
 * way, MOVED afterwards. The text is the caller's, to be freed with RedisModule_FreeString. */
RedisModuleString *replyMakeRedirection(bool asks, int slot, const char *address);

/* An error that has been made before: code and text. */
int replyErrorText(RedisModuleCtx *ctx, RedisModuleString *error);

/* LOCK.INFO: a map of `fields` fields follows, each a name and then a value. In RESP2 the server
 * makes it a flat array. */
void replyMap(RedisModuleCtx *ctx, long fields);

/* A list of `length` elements follows. */
void replyList(RedisModuleCtx *ctx, long length);

/* A list follows whose length replyListEnd tells. */
void replyListStart(RedisModuleCtx *ctx);
void replyListEnd(RedisModuleCtx *ctx, long length);

/* One field of a map. */
void replyFieldName(RedisModuleCtx *ctx, const char *name);
void replyFieldInteger(RedisModuleCtx *ctx, const char *name, int64_t value);
void replyFieldText(RedisModuleCtx *ctx, const char *name, const char *text);
void replyFieldString(RedisModuleCtx *ctx, const char *name, RedisModuleString *value);
void replyFieldNull(RedisModuleCtx *ctx, const char *name);

#endif
