/* Delivering: what is due goes from a queue's keys to its list.
 *
 *   deliverDue       the drain's job
 *   deliverHold      the same, while nothing may be written
 *   lookAt           one queue: deliver, then find out when to look again
 *   collect          what is due, a batch at a time
 *   push             the batch, as RPUSH, ZREM and HDEL in one transaction
 *
 * As commands, and not by low-level calls: RPUSH wakes who blocks on the list, asks for memory, and tells
 * keyspace listeners, as it does when a client says it. They are replicated as what they are.
 *
 * An element that cannot be delivered stays: while the server refuses writes, while `list` is no list, and
 * while there is no value for it, as between two commands of somebody who restores the keys by hand. The
 * first two are tried again after a while, the last when the keys change, or after a longer while.
 */
#include "delay/deliver.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "blocking/drain.h"
#include "delay/queues.h"
#include "keys/delaykeys.h"
#include "server/failpoint.h"
#include "server/server.h"
#include "server/stats.h"
#include "server/turn.h"

/* So many elements go in one command. */
#define BATCH 32

/* Of elements without a value so many are passed by before others may speak. Unseen: a walk over all of them
 * does the same, in one piece. */
#define MOST_SKIPPED 256

/* Nothing announces that there is memory again, or that the list is one: it is asked again after this
 * long. */
#define RETRY_MS 100

/* While nothing at all may be written the drain looks more often. */
#define HELD_RETRY_MS 20

/* Nor that a slot is ours, but to who looks for new queues of its keys: see slotwatch.h. */
#define MOVING_RETRY_MS 500

/* A value that is missing comes with an event, unless it comes with a slot or a swap. */
#define SKIPPED_RETRY_MS 10000

struct batch {
    struct delayedQueue *queue;
    RedisModuleString *list; /* that it is pushed to */
    int64_t now_ms;
    size_t count, skipped;
    RedisModuleString *ids[BATCH], *values[BATCH];
};

/* Never within a score: the next walk begins behind it. */
static bool hasSkippedEnough(const struct batch *batch, const struct delaykeysElement *element) {
    return batch->skipped >= MOST_SKIPPED && element->score > batch->queue->skipped;
}

static bool collect(const struct delaykeysElement *element, void *data) {
    struct batch *batch = data;
    if (element->due_ms > batch->now_ms || hasSkippedEnough(batch, element)) {
        return false;
    }
    if (!element->value) {
        batch->skipped++;
        if (batch->count == 0) { /* or it is met again by the next walk */
            batch->queue->skipped = element->score;
            batch->queue->stuck++;
        }
        return true;
    }
    batch->ids[batch->count] = element->id;
    batch->values[batch->count] = element->value;
    RedisModule_RetainString(NULL, element->id);
    RedisModule_RetainString(NULL, element->value);
    return ++batch->count < BATCH;
}

static void freeBatch(struct batch *batch) {
    for (size_t i = 0; i < batch->count; i++) {
        RedisModule_FreeString(NULL, batch->ids[i]);
        RedisModule_FreeString(NULL, batch->values[i]);
    }
}

/* Whether the server would make room by itself. */
static bool evicts(RedisModuleCtx *ctx) {
    return RedisModule_GetContextFlags(ctx) & REDISMODULE_CTX_FLAGS_EVICT;
}

/* Asked anew: what the server looks at in a call ("M") is how it was before the last client's command, which
 * may be long ago. Only where that has failed to evict there is no better answer. */
static bool isOutOfMemory(RedisModuleCtx *ctx) {
    return (RedisModule_GetContextFlags(ctx) & REDISMODULE_CTX_FLAGS_OOM) && !evicts(ctx);
}

/* Whether the server has done it. The reply is freed. */
static bool isDone(RedisModuleCallReply *reply) {
    bool done = reply && RedisModule_CallReplyType(reply) != REDISMODULE_REPLY_ERROR;
    if (reply) {
        RedisModule_FreeCallReply(reply);
    }
    return done;
}

/* Likewise. */
static bool call(RedisModuleCtx *ctx, const char *command, RedisModuleString *key,
                 const struct batch *batch, RedisModuleString *const *arguments) {
    const char *format = evicts(ctx) ? "!EMsv" : "!Esv";
    return isDone(RedisModule_Call(ctx, command, format, key, arguments, batch->count));
}

/* What has been pushed has to go, or it would be pushed again: also where somebody has taken the command away
 * (rename-command). */
static void removeSurely(RedisModuleCtx *ctx, const struct batch *batch) {
    struct delaykeys keys;
    delaykeysOpen(&keys, ctx, batch->list, KEY_TO_WRITE);
    for (size_t i = 0; i < batch->count; i++) {
        delaykeysRemove(&keys, batch->ids[i]);
    }
    delaykeysClose(&keys);
}

/* ZREM, and HDEL, or UNLINK when nothing is left. What is removed has been pushed, so the server would not
 * refuse it. */
static void removeBatch(RedisModuleCtx *ctx, const struct batch *batch) {
    struct delaykeys keys;
    delaykeysOpenQueue(&keys, ctx, batch->queue->name);
    bool is_last = delaykeysLength(&keys) == batch->count;
    RedisModuleString *due = keys.due_name, *value = keys.value_name;
    RedisModule_RetainString(NULL, due);
    RedisModule_RetainString(NULL, value);
    delaykeysClose(&keys);
    if (!call(ctx, "ZREM", due, batch, batch->ids)) {
        removeSurely(ctx, batch);
    } else if (is_last) {
        (void)isDone(RedisModule_Call(ctx, "UNLINK", "!Es", value));
    } else {
        call(ctx, "HDEL", value, batch, batch->ids);
    }
    RedisModule_FreeString(NULL, due);
    RedisModule_FreeString(NULL, value);
}

/* Returns false when the list would not take it. Our own changes need not be heard. Unseen: without that
 * there are more looks at the queue, and at its elements without a value, but nothing else. */
static bool push(RedisModuleCtx *ctx, const struct batch *batch) {
    queuesOwnChange(true);
    (void)failpoint(FAILPOINT_DELIVER_BEGUN);
    bool pushed = !isOutOfMemory(ctx) && call(ctx, "RPUSH", batch->list, batch, batch->values);
    if (pushed) {
        (void)failpoint(FAILPOINT_DELIVER_PUSHED);
        removeBatch(ctx, batch);
        statsCountMany(STATS_DELAY_DELIVERED, batch->count);
    }
    queuesOwnChange(false);
    return pushed;
}

enum delivery {
    DELIVERY_GOES_ON, /* there may be more that is due */
    DELIVERY_DONE,
    DELIVERY_REFUSED
};

/* Delivers a batch. */
static enum delivery deliverSome(RedisModuleCtx *ctx, struct delayedQueue *queue, int64_t now_ms) {
    struct batch batch = {.queue = queue, .now_ms = now_ms};
    struct delaykeys keys;
    const struct delaykeysWalk walk = {queue->skipped, collect, &batch};
    delaykeysOpenQueue(&keys, ctx, queue->name);
    delaykeysEach(&keys, &walk);
    batch.list = delaykeysList(&keys);
    delaykeysClose(&keys);
    bool refused = batch.count > 0 && !push(ctx, &batch);
    RedisModule_FreeString(ctx, batch.list);
    freeBatch(&batch);
    if (refused) {
        return DELIVERY_REFUSED;
    }
    return batch.count > 0 || batch.skipped > 0 ? DELIVERY_GOES_ON : DELIVERY_DONE;
}

static size_t countDue(RedisModuleCtx *ctx, struct delayedQueue *queue, int64_t now_ms) {
    struct delaykeys keys;
    delaykeysOpenQueue(&keys, ctx, queue->name);
    RedisModuleCallReply *reply =
        RedisModule_Call(ctx, "ZCOUNT", "Escl", keys.due_name, "-inf", (long long)now_ms);
    delaykeysClose(&keys);
    long long count = 0;
    if (reply && RedisModule_CallReplyType(reply) == REDISMODULE_REPLY_INTEGER) {
        count = RedisModule_CallReplyInteger(reply);
    }
    if (reply) {
        RedisModule_FreeCallReply(reply);
    }
    return (size_t)count;
}

/* Finds out when the queue is to be looked at next; forgets it when it has no elements. */
static void setNextLook(RedisModuleCtx *ctx, struct delayedQueue *queue, int64_t now_ms) {
    struct delaykeys keys;
    delaykeysOpenQueue(&keys, ctx, queue->name);
    size_t length = delaykeysLength(&keys);
    int64_t next_ms = delaykeysFirst(&keys, queue->skipped);
    delaykeysClose(&keys);
    if (length == 0) {
        queuesForget(queue);
        return;
    }
    if (queue->stuck > 0 && next_ms > now_ms + SKIPPED_RETRY_MS) {
        next_ms = now_ms + SKIPPED_RETRY_MS;
    }
    queuesPutOff(queue, next_ms);
}

/* Elements that were passed by are looked at again. */
static void beginAgain(struct delayedQueue *queue, int64_t now_ms) {
    if (now_ms >= queue->again_ms) {
        queue->again_ms = now_ms + SKIPPED_RETRY_MS;
        queue->skipped = -INFINITY;
        queue->stuck = 0;
    }
}

/* All that is due stays for now. */
static void putOff(RedisModuleCtx *ctx, struct delayedQueue *queue, int64_t now_ms,
                   int64_t retry_ms) {
    queue->stuck = countDue(ctx, queue, now_ms);
    queue->again_ms = 0;
    queuesPutOff(queue, now_ms + retry_ms);
}

static void deliver(RedisModuleCtx *ctx, struct delayedQueue *queue, int64_t now_ms) {
    enum delivery delivery;
    beginAgain(queue, now_ms);
    do {
        delivery = deliverSome(ctx, queue, now_ms);
    } while (delivery == DELIVERY_GOES_ON && !turnIsOverByClock());
    if (delivery == DELIVERY_REFUSED) {
        putOff(ctx, queue, now_ms, RETRY_MS);
    } else {
        setNextLook(ctx, queue, now_ms);
    }
}

/* Of a slot that moves, one key may be here and another there. Where a key is, the slot may yet come, or stay
 * after all; where there is none, it has gone. */
static void putOffUntilMoved(RedisModuleCtx *ctx, struct delayedQueue *queue, int64_t now_ms) {
    struct delaykeys keys;
    delaykeysOpenQueue(&keys, ctx, queue->name);
    size_t length = delaykeysLength(&keys);
    delaykeysClose(&keys);
    if (length > 0) {
        queuesPutOff(queue, now_ms + MOVING_RETRY_MS);
    } else {
        queuesForget(queue);
    }
}

static void lookAt(RedisModuleCtx *ctx, struct delayedQueue *queue, int64_t now_ms) {
    RedisModule_SelectDb(ctx, queue->db);
    switch (serverConsentTo(ctx, queue->name)) {
    case SERVER_ACCEPTS:
        if (keynamesSidesAreHere(ctx, queue->name)) {
            deliver(ctx, queue, now_ms);
        } else {
            putOffUntilMoved(ctx, queue, now_ms);
        }
        break;
    case SERVER_NOT_OURS:
        putOffUntilMoved(ctx, queue, now_ms);
        break;
    case SERVER_REFUSES:
        putOff(ctx, queue, now_ms, RETRY_MS);
        break;
    }
}

/* One at least, also when the locks have used up the turn: they may be thousands, for a while. */
void deliverDue(RedisModuleCtx *ctx, int64_t now_ms) {
    struct delayedQueue *queue = queuesFirst();
    while (queue && queue->look.at <= now_ms) {
        lookAt(ctx, queue, now_ms);
        queue = turnIsOverByClock() ? NULL : queuesFirst();
    }
    queuesSetAlarm(ctx);
}

void deliverHold(RedisModuleCtx *ctx, int64_t now_ms) {
    struct delayedQueue *queue;
    while ((queue = queuesFirst()) && queue->look.at <= now_ms && !turnIsOverByClock()) {
        RedisModule_SelectDb(ctx, queue->db);
        putOff(ctx, queue, now_ms, HELD_RETRY_MS);
    }
}
