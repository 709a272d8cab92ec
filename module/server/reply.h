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

/* How a command that acquires, renews, releases or frees locks has ended. */
enum result {
    RESULT_DONE,     /* the outcome's `count` is the number of holds, or the token */
    RESULT_BUSY,     /* another owner has the lock, and the request does not wait */
    RESULT_WAITING,  /* the client is blocked: no reply is made now */
    RESULT_NOT_HELD, /* the owner holds no such lock */
    RESULT_WRONG_TYPE,
    RESULT_NO_TOKEN, /* FENCED: no larger token is left */
    RESULT_TOO_MANY_HOLDS,
    RESULT_TOO_MANY_WAITERS,
    RESULT_NO_SIDE_KEYS, /* in a cluster: the lock cannot have side keys in its slot */
    RESULT_DEADLOCK,     /* the wait would never end; the outcome's `cycle` says why */
    RESULT_TRY_AGAIN,    /* in a cluster: the slot moves, and its side keys one by one */
    RESULT_KEY_IN_USE,   /* the server is writing one of the keys to a snapshot: keynamesIsInUse */
    RESULT_BOTH_MODES,   /* the owner holds reads and writes: the request has to name one */
    RESULT_NO_LATCH,     /* the key is a string, but no number */
    RESULT_FEW_REPLICAS, /* fewer replicas are connected than are to acknowledge */
    RESULT_NO_WAIT_FOR_REPLICAS, /* the client cannot be blocked until they have */
    RESULT_STALLED, /* the server was stalled: it may have lost its replicas meanwhile */
};

struct outcome {
    int64_t count;
    RedisModuleString *cycle; /* for RESULT_DEADLOCK; freed by the owner of the outcome */
};

/* Replies `result`, with what `outcome` has, and frees that; replies nothing if the client has
 * begun to wait. Always returns REDISMODULE_OK, for a handler to return. */
int replyOutcome(RedisModuleCtx *ctx, enum result result, struct outcome *outcome);

/* Replies the error. Returns REDISMODULE_ERR, so that a function named …OrReply can return that. */
int replyError(RedisModuleCtx *ctx, enum replyError error);

/* These return REDISMODULE_OK, so that a handler can return that. */

int replyInteger(RedisModuleCtx *ctx, int64_t value);

int replyWord(RedisModuleCtx *ctx, enum replyWord word);

int replyString(RedisModuleCtx *ctx, RedisModuleString *value);

/* Null: not acquired within the timeout. */
int replyNull(RedisModuleCtx *ctx);

/* The error DEADLOCK: this wait would close a cycle, which the text describes: who waits for which
 * key held by whom. */
int replyDeadlock(RedisModuleCtx *ctx, RedisModuleString *cycle);

/* The error that the user of this client may not run `command`, which exists. */
int replyNoCommandPermission(RedisModuleCtx *ctx, RedisModuleString *command);

/* The text of the error that redirects a client to `address`, which is `host:port`: ASK while the
 * slot is being moved, MOVED afterwards. Belongs to the caller, to be freed with
 * RedisModule_FreeString. */
RedisModuleString *replyMakeRedirection(bool asks, int slot, const char *address);

/* Replies an error that was made before, with its code and text. */
int replyErrorText(RedisModuleCtx *ctx, RedisModuleString *error);

/* Begins a map of `fields` fields, each a name and then a value, for LOCK.INFO. In RESP2 the server
 * makes it a flat array. */
void replyMap(RedisModuleCtx *ctx, long fields);

/* Begins a list of `length` elements. */
void replyList(RedisModuleCtx *ctx, long length);

/* Begin and end a list whose length is known only at the end. */
void replyListStart(RedisModuleCtx *ctx);
void replyListEnd(RedisModuleCtx *ctx, long length);

/* One field of a map. replyFieldName writes the name only: a value has to follow. */
void replyFieldName(RedisModuleCtx *ctx, const char *name);
void replyFieldInteger(RedisModuleCtx *ctx, const char *name, int64_t value);
void replyFieldText(RedisModuleCtx *ctx, const char *name, const char *text);
void replyFieldString(RedisModuleCtx *ctx, const char *name, RedisModuleString *value);
void replyFieldNull(RedisModuleCtx *ctx, const char *name);

#endif
