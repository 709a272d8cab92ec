/* LOCK.INFO, and the section of INFO lock. Both write nothing, so they also work on replicas.
 *
 * To show more of a holder: replyHolder; of a waiter: struct shown; of the module: addSection, or a
 * counter of stats.h. */
#include <stdbool.h>
#include <stddef.h>

#include "commands/args.h"
#include "commands/commands.h"
#include "common/quarantine.h"
#include "common/reply.h"
#include "common/stats.h"
#include "delay/queues.h"
#include "delay/scan.h"
#include "keys/fairqueue.h"
#include "keys/fence.h"
#include "keys/holds.h"
#include "keys/keynames.h"
#include "ledger/acks.h"
#include "ledger/sessions.h"
#include "ledger/unconfirmed.h"
#include "observing/watches.h"
#include "queue/waiters.h"
#include "waits/contended.h"
#include "waits/latches.h"

static const char *modeName(enum lockMode mode) {
    switch (mode) {
    case MODE_READ:
        return "read";
    case MODE_WRITE:
        return "write";
    case MODE_SEMAPHORE:
        return "semaphore";
    case MODE_EXCLUSIVE:
    case MODE_COUNT:
        break;
    }
    return "exclusive";
}

struct holderList {
    struct holds *holds;
    long length;
    int64_t permits; /* the sum of a semaphore's */
};

static void replyUnconfirmed(struct holds *holds, RedisModuleString *owner) {
    const struct holdId id = holdsIdOf(holds, owner);
    int64_t unconfirmed_ms = unconfirmedFor(holds->ctx, &id, holds->now_ms);
    if (unconfirmed_ms >= 0) {
        replyFieldInteger(holds->ctx, "unconfirmed", unconfirmed_ms);
    } else {
        replyFieldNull(holds->ctx, "unconfirmed");
    }
}

static void replyHolder(const struct holder *holder, void *data) {
    struct holderList *list = data;
    RedisModuleCtx *ctx = list->holds->ctx;
    int64_t end_ms = holdsLeaseEnd(list->holds, holder);
    replyMap(ctx, 6);
    replyFieldString(ctx, "owner", holder->owner);
    replyFieldText(ctx, "mode", modeName(holder->mode));
    replyFieldInteger(ctx, "holds", holder->count);
    replyFieldInteger(ctx, "pttl", end_ms == HOLDS_NO_END ? -1 : end_ms - list->holds->now_ms);
    const struct holdId id = holdsIdOf(list->holds, holder->owner);
    unsigned long long client_id = sessionsClientOf(&id);
    if (client_id) {
        replyFieldInteger(ctx, "session", (int64_t)client_id);
    } else {
        replyFieldNull(ctx, "session");
    }
    replyUnconfirmed(list->holds, holder->owner);
    list->length++;
    list->permits += holder->count;
}

static void replyHolders(struct holds *holds) {
    struct holderList list = {.holds = holds};
    replyFieldName(holds->ctx, "holders");
    replyListStart(holds->ctx);
    holdsEach(holds, replyHolder, &list);
    replyListEnd(holds->ctx, list.length);
    if (holds->kind == HOLDS_SEMAPHORE) {
        replyFieldInteger(holds->ctx, "permits", list.permits);
    }
}

/* One waiter: the fields of an element of `waiters` in LOCK.INFO. */
struct shown {
    RedisModuleString *owner;
    enum lockMode mode;
    bool fair;
    unsigned long long client_id; /* 0: detached */
    int64_t since_ms;
    int64_t end_ms;                /* INT64_MAX: no end */
    struct permits permits;        /* for a semaphore: what was requested */
    const struct waiter *multikey; /* NULL unless it waits for several keys */
};

static void replyKeys(RedisModuleCtx *ctx, const struct waiter *waiter) {
    replyFieldName(ctx, "keys");
    replyList(ctx, (long)waiter->key_count);
    for (size_t i = 0; i < waiter->key_count; i++) {
        replyMap(ctx, 2);
        replyFieldString(ctx, "key", waiter->keys[i].name);
        replyFieldText(ctx, "mode", modeName(waiter->keys[i].position.mode));
    }
}

static void replyShown(RedisModuleCtx *ctx, const struct shown *shown, int64_t now_ms) {
    bool is_semaphore = shown->mode == MODE_SEMAPHORE;
    replyMap(ctx, 6 + 2 * is_semaphore + (shown->multikey != NULL));
    replyFieldString(ctx, "owner", shown->owner);
    replyFieldText(ctx, "mode", modeName(shown->mode));
    replyFieldInteger(ctx, "fair", shown->fair);
    if (shown->client_id) {
        replyFieldInteger(ctx, "client", (int64_t)shown->client_id);
    } else {
        replyFieldNull(ctx, "client");
    }
    /* The clock may have been set back since. */
    replyFieldInteger(ctx, "waited", now_ms > shown->since_ms ? now_ms - shown->since_ms : 0);
    if (shown->end_ms == INT64_MAX) {
        replyFieldNull(ctx, "left");
    } else {
        replyFieldInteger(ctx, "left", shown->end_ms > now_ms ? shown->end_ms - now_ms : 0);
    }
    if (is_semaphore) {
        replyFieldInteger(ctx, "permits", shown->permits.count);
        replyFieldInteger(ctx, "limit", shown->permits.limit);
    }
    if (shown->multikey) {
        replyKeys(ctx, shown->multikey);
    }
}

static void replyWaiter(RedisModuleCtx *ctx, struct position *position, int64_t now_ms) {
    struct waiter *waiter = waiterOfPosition(position);
    const struct shown shown = {.owner = waiter->wants.owner,
                                .mode = position->mode,
                                .fair = waiter->request.discipline == FAIR,
                                .client_id = waiter->client.client_id,
                                .since_ms = waiter->since_ms,
                                .end_ms = blockedEndMs(&waiter->client, now_ms),
                                .permits = waiter->wants.lock.permits,
                                .multikey = waiter->request.discipline == MULTIKEY ? waiter : NULL};
    replyShown(ctx, &shown, now_ms);
}

struct positionList {
    RedisModuleCtx *ctx;
    struct fairqueue *fq;
    struct lock *lock; /* NULL while nobody waits */
    int64_t now_ms;
    int64_t in_keys; /* how many positions are in the keys only */
    bool is_master;
    long shown;
};

/* A position that is in the keys only: on a replica the master's, on a master one that has not been
 * loaded since the server started or became a master. */
static void replyPosition(const struct fairposition *position, void *data) {
    struct positionList *list = data;
    const struct shown shown = {.owner = position->owner,
                                .mode = MODE_EXCLUSIVE,
                                .fair = true,
                                .since_ms = fairqueueArrival(position->ticket, list->now_ms),
                                .end_ms =
                                    list->is_master ? fairqueueRestoredEnd() : position->end_ms};
    replyShown(list->ctx, &shown, list->now_ms);
    list->shown++;
}

static int64_t cmdInfoSmaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static int64_t positionsInKeysOnly(const struct positionList *list) {
    bool memory_knows = list->lock && list->lock->fair.loaded;
    bool over = list->is_master && list->now_ms >= fairqueueRestoredEnd();
    return memory_knows || over ? 0 : (int64_t)fairqueueLength(list->fq);
}

static void replyWaiters(struct positionList *list, int64_t most) {
    struct lock *lock = list->lock;
    int64_t in_memory = lock ? (int64_t)lock->queue.positions.length : 0;
    int64_t shown = cmdInfoSmaller(most, list->in_keys + in_memory);
    replyFieldInteger(list->ctx, "waiting", list->in_keys + in_memory);
    replyFieldName(list->ctx, "waiters");
    replyListStart(list->ctx);
    const struct fairqueueWalk walk = {FAIRQUEUE_FROM_FIRST, cmdInfoSmaller(shown, list->in_keys),
                                       replyPosition, list};
    fairqueueEach(list->fq, &walk);
    struct position *position = lock ? waitqueueFirst(&lock->queue) : NULL;
    for (int64_t i = list->in_keys; position && i < shown;
         i++, position = waitqueueNext(position)) {
        replyWaiter(list->ctx, position, list->now_ms);
        list->shown++;
    }
    replyListEnd(list->ctx, list->shown);
}

static void noteWriter(const struct holder *holder, void *is_written) {
    if (holder->mode == MODE_WRITE) {
        *(bool *)is_written = true;
    }
}

/* Whether a writer holds the lock. Without an iteration over all readers: the key records the mode
 * `write`. That may be left from a writer whose lease has expired, or that another client has
 * removed. */
static bool isWritten(struct holds *holds) {
    bool is_written = false;
    if (holds->mode == MODE_WRITE) {
        holdsEach(holds, noteWriter, &is_written);
    }
    return is_written;
}

static const char *kindName(struct holds *holds) {
    switch (holds->kind) {
    case HOLDS_FREE:
        return "free";
    case HOLDS_READ_WRITE:
        return isWritten(holds) ? "write" : "read";
    case HOLDS_SEMAPHORE:
        return "semaphore";
    case HOLDS_PLAIN:
    case HOLDS_FOREIGN:
    case HOLDS_WRONG_TYPE:
    case HOLDS_MOVING:
    case HOLDS_IN_USE:
        break;
    }
    return "exclusive";
}

static void replyInfo(struct holds *holds, struct fairqueue *fq, int64_t most) {
    RedisModuleCtx *ctx = holds->ctx;
    struct lock *lock = contendedFindHere(ctx, holds->name);
    struct positionList list = {.ctx = ctx,
                                .fq = fq,
                                .lock = lock,
                                .now_ms = holds->now_ms,
                                .is_master = RedisModule_GetContextFlags(ctx) &
                                             REDISMODULE_CTX_FLAGS_MASTER};
    list.in_keys = positionsInKeysOnly(&list);
    if (holds->kind == HOLDS_WRONG_TYPE) {
        replyError(ctx, REPLY_WRONG_TYPE);
        return;
    }
    bool is_free = holdsIsFree(holds);
    if (is_free && list.in_keys == 0 && !(lock && waitqueueFirst(&lock->queue))) {
        replyNull(ctx);
        return;
    }
    replyMap(ctx, 6 + (holds->kind == HOLDS_SEMAPHORE));
    replyFieldText(ctx, "mode", is_free ? "free" : kindName(holds));
    replyHolders(holds);
    replyWaiters(&list, most);
    int64_t token = fenceLast(ctx, holds->name);
    if (token) {
        replyFieldInteger(ctx, "token", token);
    } else {
        replyFieldNull(ctx, "token");
    }
    replyFieldInteger(ctx, "watchers", (int64_t)watchesOf(ctx, holds->name));
}

/* LOCK.INFO key [COUNT n] */
int infoCommand(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    if (argc < 2) {
        return RedisModule_WrongArity(ctx);
    }
    const struct args args = argsOf(ctx, argv, argc);
    struct argsOptions options;
    if (argsOptionsOrReply(&args, 2, ARGS_COUNT, &options) != REDISMODULE_OK) {
        return REDISMODULE_OK;
    }
    if (!keynamesSidesAreHere(ctx, argv[1])) {
        replyError(ctx, REPLY_TRY_AGAIN);
        return REDISMODULE_OK;
    }
    struct holds holds;
    struct fairqueue fq;
    holdsOpenToRead(&holds, ctx, argv[1], args.now_ms);
    fairqueueOpenToRead(&fq, ctx, argv[1]);
    replyInfo(&holds, &fq, options.count);
    fairqueueClose(&fq);
    holdsClose(&holds);
    return REDISMODULE_OK;
}

/* In a crash report the server is not queried. */
static void addUnconfirmed(RedisModuleInfoCtx *ctx, int for_crash_report) {
    struct unconfirmedSummary summary = {0};
    if (!for_crash_report) {
        summary = unconfirmedLook();
    }
    RedisModule_InfoAddFieldULongLong(ctx, "unconfirmed_grants", summary.grants);
    RedisModule_InfoAddFieldLongLong(ctx, "unconfirmed_oldest_ms", summary.oldest_ms);
}

/* The server adds `lock_` in front of each name. */
static void addSection(RedisModuleInfoCtx *ctx, int for_crash_report) {
    if (RedisModule_InfoAddSection(ctx, NULL) == REDISMODULE_ERR) {
        return; /* not requested */
    }
    RedisModule_InfoAddFieldULongLong(ctx, "waiters", waitersCount());
    RedisModule_InfoAddFieldULongLong(ctx, "waiters_unsearched", waitersNewcomerCount());
    RedisModule_InfoAddFieldULongLong(ctx, "awaiting_replicas", acksCount());
    RedisModule_InfoAddFieldULongLong(ctx, "contended_locks", contendedCount());
    RedisModule_InfoAddFieldULongLong(ctx, "sessions", sessionsCount());
    RedisModule_InfoAddFieldULongLong(ctx, "watchers", watchesCount());
    RedisModule_InfoAddFieldULongLong(ctx, "latch_waiters", latchesWaiting());
    addUnconfirmed(ctx, for_crash_report);
    RedisModule_InfoAddFieldLongLong(ctx, "quarantine_ms", quarantineLeftMs());
    RedisModule_InfoAddFieldULongLong(ctx, "delay_queues", queuesCount());
    RedisModule_InfoAddFieldULongLong(ctx, "delay_stuck", queuesStuck());
    RedisModule_InfoAddFieldULongLong(ctx, "delay_scanning", scanIsRunning());
    statsAddToInfo(ctx);
}

int infoRegister(RedisModuleCtx *ctx) {
    return RedisModule_RegisterInfoFunc(ctx, addSection);
}
