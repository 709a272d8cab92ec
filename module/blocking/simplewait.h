/* Clients that wait for one key each, without a queue. The common part of latches and watches.
 *
 * Such a client waits until the event that it has requested happens, or until its wait ends as any
 * other wait does: by its deadline, a closed connection, CLIENT UNBLOCK, or because the slot is
 * moved. No other client is delayed by such a wait.
 *
 * A kind embeds `struct simplewait` in the struct that it stores for a client, and `struct
 * simplewaits` in the entry of its table (blockingkey.h), both as the first member. Only the drain
 * replies to such clients, so a wait never ends inside the command of another client.
 */
#ifndef LOCK_SIMPLEWAIT_H
#define LOCK_SIMPLEWAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocking/blocked.h"
#include "blocking/blockingkey.h"
#include "common/reply.h"
#include "core/list.h"
#include "redismodule.h"

/* The entry of a key. It exists as long as a client waits for the key. */
struct simplewaits {
    struct blockingkey key;
    struct list waits; /* in order of arrival, unless the kind reorders it */
};

struct simplewait {
    struct blocked client;
    const struct simplewaitKind *kind;
    struct simplewaits *of;
    struct link in_waits;
};

struct simplewaitKind {
    struct blockingkeyTable *table;
    size_t size; /* of the struct that embeds struct simplewait */
    /* Called when the deadline has passed. Replies, if the reply is not to be null. NULL if it is
     * always null. */
    void (*onDeadline)(struct simplewait *wait);
    /* Called when the wait has ended. Removes the references of the kind to the wait, and frees
     * what the wait owns, but not the wait itself. NULL if there is nothing to do. */
    void (*onLeave)(struct simplewait *wait);
    size_t *count; /* the number of clients that wait, updated by simplewait.c */
};

/* How a wait is to begin. */
struct simplewaitStart {
    const struct simplewaitKind *kind;
    RedisModuleString *name; /* of the key, in the selected database */
    int64_t block_ms;        /* 0: without a limit; negative: does not wait */
    int64_t now_ms;
};

/* Begins a wait. Returns:
 *
 *   RESULT_WAITING             the client of `ctx` is blocked
 *   RESULT_BUSY                `block_ms` is negative, or the client must not be blocked
 *   RESULT_TOO_MANY_WAITERS    lock.max-waiters is reached
 *
 * With RESULT_WAITING, `*wait` is in the list of its key, and the members that the kind adds are
 * all zero. With every other result nothing has changed. */
enum result simplewaitBegin(RedisModuleCtx *ctx, const struct simplewaitStart *start,
                            struct simplewait **wait);

/* Ends the wait with a reply, and frees the wait. The entry of the key may be freed too, unless it
 * is in use. */
void simplewaitReplyNumber(RedisModuleCtx *ctx, struct simplewait *wait, int64_t number);
void simplewaitReplyWord(RedisModuleCtx *ctx, struct simplewait *wait, enum replyWord word);

/* The first wait of the key, or NULL. */
struct simplewait *simplewaitFirst(const struct simplewaits *waits);

/* For the struct blockingkeyKind of the kind: whether no client waits; the entry owns nothing. */
bool simplewaitIsIdle(const struct blockingkey *key);
void simplewaitOnDrop(struct blockingkey *key);

/* For the struct blockingkeyWork of the kind. */
void simplewaitRedirect(RedisModuleCtx *ctx, struct blockingkey *key);
void simplewaitForget(RedisModuleCtx *ctx, struct blockingkey *key);

#endif
