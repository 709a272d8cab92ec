/* See nullreplies.h. */
#include "blocking/nullreplies.h"

#include "blocking/drain.h"
#include "core/list.h"
#include "core/mem.h"
#include "server/timeslice.h"

/* How many are sent at once: about half a ms of the server's work, and then none for a ms. */
#define MOST_AT_ONCE 64
#define WINDOW_US 1000

/* A client whose reply the drain sends. */
struct pending {
    struct blocked client;
    struct link in_list;
};

static struct {
    struct list pending;
    uint64_t window_us; /* when the first of those counted in `sent` was sent */
    unsigned sent;      /* how many were sent since then */
} replies;

static struct pending *nullrepliesOfBlocked(struct blocked *client) {
    return LIST_ELEMENT(client, struct pending, client);
}

static void nullrepliesLeave(struct pending *pending) {
    listRemove(&replies.pending, &pending->in_list);
    memFree(pending);
}

/* The connection has closed, or the server has replied. It has no deadline. */
static void nullrepliesOnEnd(RedisModuleCtx *ctx, struct blocked *client) {
    (void)ctx;
    nullrepliesLeave(nullrepliesOfBlocked(client));
}

static const struct blockedKind kind = {nullrepliesOnEnd, nullrepliesOnEnd, nullrepliesOnEnd};

/* Replies that are pending are sent first. In a time slice waits are only ended: each may keep
 * others from a lock, and ending it takes a tenth of the time that its reply takes. */
static bool maySendNow(void) {
    if (timesliceHasBegun()) {
        return false;
    }
    uint64_t now_us = RedisModule_MonotonicMicroseconds();
    if (now_us - replies.window_us >= WINDOW_US) {
        replies.window_us = now_us;
        replies.sent = 0;
    }
    return listIsEmpty(&replies.pending) && replies.sent++ < MOST_AT_ONCE;
}

void nullrepliesSend(RedisModuleCtx *ctx, struct blocked *client) {
    if (!client->bc) {
        return;
    }
    if (maySendNow()) {
        blockedAnswerNull(client);
        return;
    }
    struct pending *pending = memAlloc(sizeof(*pending));
    blockedMove(client, &pending->client, &kind);
    listAddLast(&replies.pending, &pending->in_list);
    drainSetAlarm(ctx, DRAIN_NULL_REPLIES, 0);
}

void nullrepliesGoOn(RedisModuleCtx *ctx, int64_t now_ms) {
    (void)now_ms;
    struct link *first = replies.pending.first;
    while (first) {
        struct pending *pending = LIST_ELEMENT(first, struct pending, in_list);
        blockedAnswerNull(&pending->client);
        timesliceCharge(BLOCKED_REPLY_US);
        nullrepliesLeave(pending);
        first = timesliceHasEnded() ? NULL : replies.pending.first;
    }
    if (!listIsEmpty(&replies.pending)) {
        drainSetAlarm(ctx, DRAIN_NULL_REPLIES, 0);
    }
}
