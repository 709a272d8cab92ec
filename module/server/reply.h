/* Every reply and every error text of the module. No other file knows RESP or a text for the user.
 */
#ifndef LOCK_REPLY_H
#define LOCK_REPLY_H

#include <stdbool.h>
#include <stdint.h>

#include "redismodule.h"

enum replyError {
    REPLY_SYNTAX,
    REPLY_BAD_LEASE,
    REPLY_BAD_BLOCK,
    REPLY_BAD_COUNT,
    REPLY_BAD_NUMKEYS,
    REPLY_OWNER_LENGTH,
    REPLY_OWNER_RESERVED,
    REPLY_WRONG_TYPE,
    REPLY_NOT_HELD,
    REPLY_TOO_MANY_HOLDS,
    REPLY_TOO_MANY_WAITERS,
    REPLY_NO_SIDE_KEYS,
    REPLY_BOTH_MODES,
    REPLY_NO_SESSION,
    REPLY_NESTED_GUARD,
    REPLY_NO_KEY_PERMISSION,
    REPLY_NO_CHANNEL_PERMISSION,
    REPLY_NOT_RUN,
    REPLY_TRY_AGAIN,
    REPLY_ERROR_COUNT
};

/* Replies the error. Returns REDISMODULE_ERR, so that a function named …OrReply can return it on.
 */
int replyError(RedisModuleCtx *ctx, enum replyError error);

/* These return REDISMODULE_OK, so that a handler can return them on. */

int replyInteger(RedisModuleCtx *ctx, int64_t value);

/* Not acquired in time. */
int replyNull(RedisModuleCtx *ctx);

/* This wait would close a cycle, which the text names: who waits for which key held by whom. */
int replyDeadlock(RedisModuleCtx *ctx, RedisModuleString *cycle);

/* The user of this client may not run `command`, which exists. */
int replyNoCommandPermission(RedisModuleCtx *ctx, RedisModuleString *command);

/* The lock is served at `address`, `host:port`: ASK while its slot is on its way, MOVED afterwards.
 */
int replyRedirection(RedisModuleCtx *ctx, bool asks, int slot, const char *address);

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
