/* See latches.h. What is the same for all clients that wait for one key is in simplewait.c. */
#include "waits/latches.h"

#include <stdbool.h>

#include "blocking/simplewait.h"
#include "server/timeslice.h"
#include "waits/contended.h"

struct latch {
    struct simplewaits all;
    int64_t arrived;  /* the number of the wait that began last */
    int64_t released; /* waits up to this number have seen it open: they are to be replied to */
};

struct latchWait {
    struct simplewait wait;
    int64_t number; /* counted from 1 for each entry */
};

static void latchesLook(RedisModuleCtx *ctx, struct blockingkey *key, int64_t now_ms);
static void latchesRedirect(RedisModuleCtx *ctx, struct blockingkey *key);

static const struct blockingkeyKind table_kind = {FEATURE_LATCH_WAITS, sizeof(struct latch),
                                                  simplewaitIsIdle, simplewaitOnDrop};
static const struct blockingkeyWork work = {latchesLook, latchesRedirect, simplewaitForget,
                                            .reads_only = true};
static struct blockingkeyTable latches = {.kind = &table_kind, .work = &work};

static size_t waiting;

size_t latchesWaiting(void) {
    return waiting;
}

static struct latch *ofKey(struct blockingkey *key) {
    return (struct latch *)key;
}

/* ---- waiting ---- */

static bool isReleased(const struct simplewait *wait) {
    const struct latch *latch = (const struct latch *)wait->of;
    return ((const struct latchWait *)wait)->number <= latch->released;
}

/* The latch has been open, but the drain has not reached this wait yet. */
static void latchesOnDeadline(struct simplewait *wait) {
    if (isReleased(wait)) {
        blockedAnswerNumber(&wait->client, 1, (struct blockedReceipt){NULL, NULL});
    }
}

static const struct simplewaitKind kind = {.table = &latches,
                                           .size = sizeof(struct latchWait),
                                           .onDeadline = latchesOnDeadline,
                                           .count = &waiting};

enum result latchesWait(const struct latchkey *latchkey, const struct latchesTimes *times) {
    RedisModuleCtx *ctx = latchkey->ctx;
    const struct simplewaitStart start = {&kind, latchkey->name, times->block_ms, times->now_ms};
    struct simplewait *wait;
    enum result result = simplewaitBegin(ctx, &start, &wait);
    if (result == RESULT_WAITING) {
        struct latch *latch = (struct latch *)wait->of;
        ((struct latchWait *)wait)->number = ++latch->arrived;
        blockingkeyWatch(ctx, &latch->all.key, latchkey->end_ms, times->now_ms);
    }
    return result;
}

/* ---- replying ---- */

static struct blockingkey *latchesFind(RedisModuleCtx *ctx, RedisModuleString *name) {
    return blockingkeyFind(&latches, RedisModule_GetSelectedDb(ctx), name);
}

void latchesOpened(RedisModuleCtx *ctx, RedisModuleString *name) {
    struct blockingkey *key = latchesFind(ctx, name);
    if (key) {
        ofKey(key)->released = ofKey(key)->arrived;
        blockingkeyMarkDue(ctx, key);
    }
    struct lock *lock = contendedFindHere(ctx, name);
    if (lock) {
        blockingkeyNote(ctx, &lock->key, BLOCKINGKEY_EDITED);
    }
}

void latchesChangedKey(RedisModuleCtx *ctx, RedisModuleString *name) {
    struct blockingkey *key = latchesFind(ctx, name);
    if (key) {
        blockingkeyMarkDue(ctx, key);
    }
}

/* Replies to the waits that have seen the latch open, which are the first ones. Returns false if
 * the time slice ended before that was done for all. */
static bool notifyReleased(RedisModuleCtx *ctx, struct latch *latch) {
    struct simplewait *first;
    while ((first = simplewaitFirst(&latch->all)) && isReleased(first)) {
        if (timesliceHasEnded()) {
            return false;
        }
        simplewaitReplyNumber(ctx, first, 1);
    }
    return true;
}

/* Reads the key. Returns when it expires. If it expires by being opened, this reading sees that
 * already. */
static int64_t readKey(RedisModuleCtx *ctx, struct latch *latch) {
    struct latchkey latchkey;
    latchkeyOpen(&latchkey, ctx, latch->all.key.name, KEY_TO_READ);
    if (latchkey.state == LATCHKEY_OPEN) {
        latch->released = latch->arrived;
    }
    latchkeyClose(&latchkey);
    return latchkey.end_ms;
}

static void latchesLook(RedisModuleCtx *ctx, struct blockingkey *key, int64_t now_ms) {
    struct latch *latch = ofKey(key);
    blockingkeyUse(key);
    int64_t end_ms = readKey(ctx, latch);
    key->notes = 0;
    blockingkeyClearDue(key);
    blockingkeyWatch(ctx, key, end_ms, now_ms);
    if (!notifyReleased(ctx, latch)) {
        blockingkeyMarkDue(ctx, key); /* behind others that are due */
    }
    blockingkeyEndUse(ctx, key);
}

/* A wait that has seen the latch open, but has not been replied to yet, is not redirected. */
static void latchesRedirect(RedisModuleCtx *ctx, struct blockingkey *key) {
    blockingkeyUse(key);
    if (notifyReleased(ctx, ofKey(key))) {
        simplewaitRedirect(ctx, key);
    } else {
        blockingkeyEndUse(ctx, key); /* still due */
    }
}
