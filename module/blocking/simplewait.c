/* How a wait for one key begins and ends.
 *
 *   simplewaitBegin       blocks the client, and adds its wait to the list of its key
 *
 * One of the following functions ends the wait:
 *
 *   simplewaitReply…      sends the reply, because the requested event has happened
 *   simplewaitOnDeadline  replies null, because the wait has timed out
 *   simplewaitOnEnd       frees the wait, because the connection has closed or CLIENT UNBLOCK has
 *                         ended the wait
 *   simplewaitRedirect    redirects the client, because another node serves the key
 *
 * To add a kind, embed the two structs, fill in a struct simplewaitKind, a struct blockingkeyKind
 * and a struct blockingkeyWork, and write the function `look` of the last one. latches.c is an
 * example.
 *
 * Contracts are in simplewait.h.
 */
#include "blocking/simplewait.h"

#include "blocking/nullreplies.h"
#include "blocking/redirect.h"
#include "core/mem.h"
#include "server/server.h"
#include "server/timeslice.h"

static struct simplewait *simplewaitOfLink(struct link *link) {
    return LIST_ELEMENT_OR_NULL(link, struct simplewait, in_waits);
}

static struct simplewait *simplewaitOfBlocked(struct blocked *blocked) {
    return LIST_ELEMENT(blocked, struct simplewait, client);
}

struct simplewait *simplewaitFirst(const struct simplewaits *waits) {
    return simplewaitOfLink(waits->waits.first);
}

/* ---- how a wait ends ---- */

/* The client has received its reply, or is gone: frees the wait. */
static void simplewaitLeave(RedisModuleCtx *ctx, struct simplewait *wait) {
    struct simplewaits *of = wait->of;
    RedisModule_Assert(!wait->client.bc);
    blockedStopTimer(ctx, &wait->client);
    listRemove(&of->waits, &wait->in_waits);
    (*wait->kind->count)--;
    if (wait->kind->onLeave) {
        wait->kind->onLeave(wait);
    }
    memFree(wait);
    blockingkeyDropIfIdle(ctx, &of->key);
}

void simplewaitReplyNumber(RedisModuleCtx *ctx, struct simplewait *wait, int64_t number) {
    blockedAnswerNumber(&wait->client, number, (struct blockedReceipt){NULL, NULL});
    timesliceCharge(BLOCKED_REPLY_US);
    simplewaitLeave(ctx, wait);
}

void simplewaitReplyWord(RedisModuleCtx *ctx, struct simplewait *wait, enum replyWord word) {
    blockedAnswerWord(&wait->client, word);
    timesliceCharge(BLOCKED_REPLY_US);
    simplewaitLeave(ctx, wait);
}

static void simplewaitOnDeadline(RedisModuleCtx *ctx, struct blocked *client) {
    struct simplewait *wait = simplewaitOfBlocked(client);
    if (wait->kind->onDeadline) {
        wait->kind->onDeadline(wait);
    }
    nullrepliesSend(ctx, client); /* unless it has received its reply */
    simplewaitLeave(ctx, wait);
}

static void simplewaitOnEnd(RedisModuleCtx *ctx, struct blocked *client) {
    simplewaitLeave(ctx, simplewaitOfBlocked(client));
}

static const struct blockedKind blocked_kind = {simplewaitOnDeadline, simplewaitOnEnd,
                                                simplewaitOnEnd};

/* ---- how a wait begins ---- */

enum result simplewaitBegin(RedisModuleCtx *ctx, const struct simplewaitStart *start,
                            struct simplewait **wait) {
    if (start->block_ms < 0 || !serverMayBlock(ctx)) {
        return RESULT_BUSY;
    }
    if (!blockedHaveRoom()) {
        return RESULT_TOO_MANY_WAITERS;
    }
    struct simplewait *new = memAlloc(start->kind->size);
    if (!blockedBegin(&new->client, ctx, &blocked_kind)) {
        memFree(new);
        return RESULT_BUSY;
    }
    int db = RedisModule_GetSelectedDb(ctx);
    new->kind = start->kind;
    new->of = (struct simplewaits *)blockingkeyFindOrMake(start->kind->table, db, start->name);
    listAddLast(&new->of->waits, &new->in_waits);
    (*new->kind->count)++;
    blockingkeyWatchSlots(ctx);
    blockedEndAfter(ctx, &new->client, start->block_ms, start->now_ms);
    *wait = new;
    return RESULT_WAITING;
}

/* ---- for the kinds' tables ---- */

bool simplewaitIsIdle(const struct blockingkey *key) {
    return !simplewaitFirst((const struct simplewaits *)key);
}

void simplewaitOnDrop(struct blockingkey *key) {
    (void)key;
}

static void simplewaitSendOn(RedisModuleCtx *ctx, struct simplewait *wait,
                             RedisModuleString *error) {
    if (error) {
        blockedAnswerText(&wait->client, error);
    } else {
        blockedAnswerError(&wait->client, REPLY_TRY_AGAIN);
    }
    timesliceCharge(BLOCKED_REPLY_US);
    simplewaitLeave(ctx, wait);
}

/* The key stays due as long as some are left. */
void simplewaitRedirect(RedisModuleCtx *ctx, struct blockingkey *key) {
    struct simplewaits *waits = (struct simplewaits *)key;
    RedisModuleString *error = redirectFind(ctx, key->name);
    blockingkeyUse(key);
    bool over = false;
    for (struct simplewait *first; !over && (first = simplewaitFirst(waits));
         over = timesliceHasEnded()) {
        simplewaitSendOn(ctx, first, error);
    }
    blockingkeyEndUse(ctx, key);
}

/* The server has replied to all of them when it became a replica, and their waits have ended. */
void simplewaitForget(RedisModuleCtx *ctx, struct blockingkey *key) {
    blockingkeyClearDue(key);
    blockingkeyDropIfIdle(ctx, key);
}
