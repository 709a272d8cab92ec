/* Clients that wait for one key each, in no queue: what those of latches and watches have in
 * common.
 *
 * Such a client waits until it is told what it has asked for, or its wait ends as any does:
 * deadline, closed connection, CLIENT UNBLOCK, a slot that moves. It is in nobody's way.
 *
 * A kind embeds `struct keywait` in what it keeps of a client, and `struct keywaits` in the entry
 * of its table (waitedkey.h), both as the first member. Only the drain tells who waits: a client's
 * wait never ends in the command of another.
 */
#ifndef LOCK_KEYWAIT_H
#define LOCK_KEYWAIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocking/blocked.h"
#include "blocking/waitedkey.h"
#include "core/list.h"
#include "redismodule.h"
#include "server/reply.h"

/* The entry of a key. It exists as long as somebody waits. */
struct keywaits {
    struct waitedkey key;
    struct list waits; /* in order of arrival, unless the kind puts it otherwise */
};

struct keywait {
    struct blocked client;
    const struct keywaitKind *kind;
    struct keywaits *of;
    struct link in_waits;
};

struct keywaitKind {
    struct waitedkeyTable *table;
    size_t size; /* of what embeds the struct keywait */
    /* When the deadline has come: answers, if it is not to be null. NULL: does nothing. */
    void (*onDeadline)(struct keywait *wait);
    /* The wait is over: takes it out of whatever else leads to it, and frees what it owns, but not
     * itself. NULL: nothing to be done. */
    void (*onLeave)(struct keywait *wait);
    size_t *count; /* of those who wait, kept by keywait.c */
};

/* How a wait is to begin. */
struct keywaitStart {
    const struct keywaitKind *kind;
    RedisModuleString *name; /* of the key, in the selected database */
    int64_t block_ms;        /* 0 = for ever; below 0: not at all */
    int64_t now_ms;
};

/* RESULT_WAITING: the client of `ctx` is blocked, and `*wait` is in the list of its key, all zero
 * in what the kind adds. Or RESULT_BUSY, if it does not wait, or the client may not be blocked; or
 * RESULT_TOO_MANY_WAITERS: then nothing has happened. */
enum result keywaitBegin(RedisModuleCtx *ctx, const struct keywaitStart *start,
                         struct keywait **wait);

/* Ends the wait, and tells the client. The entry of the key may be gone afterwards, unless it is in
 * use. */
void keywaitTellNumber(RedisModuleCtx *ctx, struct keywait *wait, int64_t number);
void keywaitTellWord(RedisModuleCtx *ctx, struct keywait *wait, enum replyWord word);

/* The first who waits, or NULL. */
struct keywait *keywaitFirst(const struct keywaits *waits);

/* For the kind's struct waitedkeyKind: nobody waits any more; nothing but the entry is to be
 * freed. */
bool keywaitIsIdle(const struct waitedkey *key);
void keywaitOnDrop(struct waitedkey *key);

/* For its struct waitedkeyWork. */
void keywaitRedirect(RedisModuleCtx *ctx, struct waitedkey *key);
void keywaitForget(RedisModuleCtx *ctx, struct waitedkey *key);

#endif
