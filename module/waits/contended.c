/* See contended.h. */
#include "waits/contended.h"

static bool isIdle(const struct blockingkey *key);
static void onDrop(struct blockingkey *key);

static const struct blockingkeyKind kind = {FEATURE_WAITERS, sizeof(struct lock), isIdle, onDrop};

static struct blockingkeyTable locks = {.kind = &kind};

static size_t own_waits_left; /* how many locks have `own_waits_left` set */

void contendedConnect(const struct blockingkeyWork *work) {
    locks.work = work;
}

struct lock *contendedFind(int db, RedisModuleString *name) {
    return contendedOfKey(blockingkeyFind(&locks, db, name));
}

struct lock *contendedFindOrMake(int db, RedisModuleString *name) {
    return contendedOfKey(blockingkeyFindOrMake(&locks, db, name));
}

static bool isIdle(const struct blockingkey *key) {
    const struct lock *lock = (const struct lock *)key;
    return !waitqueueFirst(&lock->queue) && contendedIsWritten(lock);
}

static void onDrop(struct blockingkey *key) {
    struct lock *lock = contendedOfKey(key);
    if (lock->fair.names.queue) {
        fairqueueForgetNames(&lock->fair.names);
    }
    contendedOwnWaitsSeen(lock);
}

void contendedOwnWaitsLeft(struct lock *lock) {
    own_waits_left += !lock->own_waits_left;
    lock->own_waits_left = true;
}

void contendedOwnWaitsAreSeen(struct lock *lock) {
    own_waits_left--;
    lock->own_waits_left = false;
}

bool contendedAreOwnWaitsLeft(void) {
    return own_waits_left > 0;
}

size_t contendedCount(void) {
    return locks.count;
}

/* ---- what happens to many locks ---- */

struct swap {
    RedisModuleCtx *ctx;
    int other_db;
};

static void noteOtherPositions(RedisModuleCtx *ctx, struct lock *lock) {
    lock->fair.loaded = true; /* keys that the swap has moved here are not to be loaded */
    blockingkeyNote(ctx, &lock->key, CONTENDED_OTHER_POSITIONS);
}

/* Flags the lock, and the one of the same name where its keys are now. The latter may be created
 * here, in the other map, not in the one that is being iterated over. */
static void noteSwapped(struct blockingkey *key, void *data) {
    const struct swap *swap = data;
    struct lock *lock = contendedOfKey(key);
    if (lock->fair.loaded) {
        noteOtherPositions(swap->ctx, lock);
        noteOtherPositions(swap->ctx, contendedFindOrMake(swap->other_db, key->name));
    }
}

void contendedSwapped(RedisModuleCtx *ctx, int first_db, int second_db) {
    if (first_db >= locks.db_count && second_db >= locks.db_count) {
        return; /* nobody waits there */
    }
    /* Before the iterations, because the array of maps must not be reallocated during one. */
    blockingkeyMakeRoomFor(&locks, first_db);
    blockingkeyMakeRoomFor(&locks, second_db);
    struct swap swap = {ctx, second_db}, back = {ctx, first_db};
    blockingkeyEach(&locks, first_db, noteSwapped, &swap);
    blockingkeyEach(&locks, second_db, noteSwapped, &back);
}

/* DEBUG RELOAD flushes and then loads: its flush has removed nobody's position. But what it loads
 * may be older than the waiters, or have been saved after a flush by another client. */
static void noteLoaded(struct blockingkey *key, void *ctx) {
    blockingkeyTakeNote(key, BLOCKINGKEY_FLUSHED);
    if (contendedOfKey(key)->fair.loaded) {
        blockingkeyNote(ctx, key, CONTENDED_OTHER_POSITIONS);
    }
}

void contendedLoaded(RedisModuleCtx *ctx) {
    blockingkeyEach(&locks, BLOCKINGKEY_EVERY_DB, noteLoaded, ctx);
}

static void noteQuarantineEnded(struct blockingkey *key, void *ctx) {
    blockingkeyNote(ctx, key, BLOCKINGKEY_EDITED | CONTENDED_RESERVES_BEGIN);
}

void contendedQuarantineEnded(RedisModuleCtx *ctx) {
    blockingkeyEach(&locks, BLOCKINGKEY_EVERY_DB, noteQuarantineEnded, ctx);
}

static void noteClock(struct blockingkey *key, void *ctx) {
    if (contendedOfKey(key)->fair.loaded) {
        blockingkeyNote(ctx, key, CONTENDED_OTHER_POSITIONS);
    }
}

void contendedClockStepped(RedisModuleCtx *ctx) {
    fairqueueMayHaveRestored();
    blockingkeyEach(&locks, BLOCKINGKEY_EVERY_DB, noteClock, ctx);
}

static void noteReserves(struct blockingkey *key, void *ctx) {
    if (contendedOfKey(key)->fair.loaded) {
        blockingkeyNote(ctx, key, CONTENDED_RESERVES_CONFIGURED);
    }
}

void contendedReservesConfigured(RedisModuleCtx *ctx) {
    fairqueueMayHaveRestored();
    blockingkeyEach(&locks, BLOCKINGKEY_EVERY_DB, noteReserves, ctx);
}
