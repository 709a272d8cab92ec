/* Every reply and every error text of the module, and how a command ends. No other file uses RESP
 * or has a text for the user. */
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
    REPLY_BAD_MODE,
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
    REPLY_STALLED,
    REPLY_UNBLOCKED,
    REPLY_ERROR_COUNT
};

/* Replies of one word, as a simple string. */
enum replyWord { REPLY_OK, REPLY_LOST, REPLY_WANTED, REPLY_WORD_COUNT };

/* The result of a command that acquires, renews, releases or frees locks. */
enum result {
    RESULT_DONE,     /* the outcome's `count` is the number of holds, or the token */
    RESULT_BUSY,     /* another owner has the lock, and the request does not wait */
    RESULT_WAITING,  /* the client is blocked, and no reply is sent now */
    RESULT_NOT_HELD, /* the owner holds no such lock */
    RESULT_WRONG_TYPE,
    RESULT_NO_TOKEN, /* FENCED: no larger token is left */
    RESULT_TOO_MANY_HOLDS,
    RESULT_TOO_MANY_WAITERS,
    RESULT_NO_SIDE_KEYS, /* in a cluster, the side keys of the lock cannot be in its slot */
    RESULT_DEADLOCK,     /* the wait would close a cycle, which the outcome's `cycle` describes */
    RESULT_TRY_AGAIN,    /* in a cluster, the slot is being moved, one key at a time */
    RESULT_KEY_IN_USE,   /* the server uses one of the keys (see keynamesIsInUse) */
    RESULT_BOTH_MODES,   /* the owner has read and write holds; the request must name a mode */
    RESULT_NO_LATCH,     /* the key is a string that is not a number */
    RESULT_FEW_REPLICAS, /* fewer replicas are connected than must acknowledge the write */
    RESULT_NO_WAIT_FOR_REPLICAS, /* the client cannot be blocked to wait for replicas */
    RESULT_STALLED, /* the server was stalled, and may have lost its replicas meanwhile */
};

struct outcome {
    int64_t count;
    RedisModuleString *cycle; /* for RESULT_DEADLOCK; freed by the owner of the outcome */
};

/* Sends the reply for `result` and `outcome`, and frees the contents of `outcome`. Sends no reply
 * if the client has begun to wait. Always returns REDISMODULE_OK, so that a handler can return
 * that. */
int replyOutcome(RedisModuleCtx *ctx, enum result result, struct outcome *outcome);

/* Replies with the error. Returns REDISMODULE_ERR, so that a function named …OrReply can return
 * that. */
int replyError(RedisModuleCtx *ctx, enum replyError error);

/* These return REDISMODULE_OK, so that a handler can return that. */

int replyInteger(RedisModuleCtx *ctx, int64_t value);

int replyWord(RedisModuleCtx *ctx, enum replyWord word);

int replyString(RedisModuleCtx *ctx, RedisModuleString *value);

/* Replies null: the lock was not acquired within the timeout. */
int replyNull(RedisModuleCtx *ctx);

/* Replies with the error DEADLOCK, because the wait would close a cycle. `cycle` is the text that
 * describes the cycle: for each owner in it, the key that the owner waits for and the holder of
 * that key. */
int replyDeadlock(RedisModuleCtx *ctx, RedisModuleString *cycle);

/* Replies with the error that the user of this client has no permission to run `command`, which
 * exists. */
int replyNoCommandPermission(RedisModuleCtx *ctx, RedisModuleString *command);

/* Returns the text of the error that redirects a client to `address`, which is `host:port`. The
 * error is ASK while the slot is being moved, and MOVED after that. The caller must free the text
 * with RedisModule_FreeString. */
RedisModuleString *replyMakeRedirection(bool asks, int slot, const char *address);

/* Replies with this error text, which begins with the error code. */
int replyErrorText(RedisModuleCtx *ctx, RedisModuleString *error);

/* Begins a map of `fields` fields, for LOCK.INFO. Each field is a name and a value. In RESP2 the
 * server sends a flat array. */
void replyMap(RedisModuleCtx *ctx, long fields);

/* Begins a list of `length` elements. */
void replyList(RedisModuleCtx *ctx, long length);

/* Begin and end a list whose length is known only at the end. */
void replyListStart(RedisModuleCtx *ctx);
void replyListEnd(RedisModuleCtx *ctx, long length);

/* Write one field of a map. replyFieldName writes only the name, and a value must follow. */
void replyFieldName(RedisModuleCtx *ctx, const char *name);
void replyFieldInteger(RedisModuleCtx *ctx, const char *name, int64_t value);
void replyFieldText(RedisModuleCtx *ctx, const char *name, const char *text);
void replyFieldString(RedisModuleCtx *ctx, const char *name, RedisModuleString *value);
void replyFieldNull(RedisModuleCtx *ctx, const char *name);

#endif
