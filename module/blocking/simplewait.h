/* Clients that wait for one key each, without a queue: what latches and watches have in common.
 *
 * Such a client waits until the event that it has requested happens, or until its wait ends like
 * any other: deadline, closed connection, CLIENT UNBLOCK, a slot that is moved. It delays no other
 * client.
 *
 * A kind embeds `struct simplewait` in what it stores for a client, and `struct simplewaits` in the
 * entry of its table (blockingkey.h), both as the first member. Only the drain replies to such
 * clients: a wait never ends inside the command of another client.
 */
#ifndef LOCK_SIMPLEWAIT_H
#define LOCK_SIMPLEWAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocking/blocked.h"
#include "blocking/blockingkey.h"
#include "core/list.h"
#include "redismodule.h"
#include "server/reply.h"

/* The entry of a key. It exists as long as a client waits. */
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
    /* The deadline has passed: replies, if the reply is not to be null. NULL: does nothing. */
    void (*onDeadline)(struct simplewait *wait);
    /* The wait has ended: removes it from everything of the kind that refers to it, and frees what
     * it owns, but not the wait itself. NULL: nothing to do. */
    void (*onLeave)(struct simplewait *wait);
    size_t *count; /* of the clients that wait, updated by simplewait.c */
};

/* How a wait is to begin. */
struct simplewaitStart {
    const struct simplewaitKind *kind;
    RedisModuleString *name; /* of the key, in the selected database */
    int64_t block_ms;        /* 0: without a limit; negative: not at all */
    int64_t now_ms;
};

/* Begins a wait. RESULT_WAITING: the client of `ctx` is blocked, and `*wait` is in the list of its
 * key, all zero in the members that the kind adds. RESULT_BUSY: it does not wait, or the client may
 * not be blocked. RESULT_TOO_MANY_WAITERS: lock.max-waiters is reached. Unless it is
 * RESULT_WAITING, nothing has changed. */
enum result simplewaitBegin(RedisModuleCtx *ctx, const struct simplewaitStart *start,
                            struct simplewait **wait);

/* Ends the wait with a reply, and frees it. The entry of the key may be freed too, unless it is in
 * use. */
void simplewaitReplyNumber(RedisModuleCtx *ctx, struct simplewait *wait, int64_t number);
void simplewaitReplyWord(RedisModuleCtx *ctx, struct simplewait *wait, enum replyWord word);

/* The first wait of the key, or NULL. */
struct simplewait *simplewaitFirst(const struct simplewaits *waits);

/* For the kind's struct blockingkeyKind: whether nobody waits; nothing to free but the entry. */
bool simplewaitIsIdle(const struct blockingkey *key);
void simplewaitOnDrop(struct blockingkey *key);

/* For its struct blockingkeyWork. */
void simplewaitRedirect(RedisModuleCtx *ctx, struct blockingkey *key);
void simplewaitForget(RedisModuleCtx *ctx, struct blockingkey *key);

#endif
