/* Delivery, queue by queue and in batches.
 *
 *   deliverDue     the drain's job
 *   deliverHold    the same, while nothing may be written
 *   deliverLookAt  one queue: may it be written?
 *   deliver        then batches of due elements, and when to check it again
 *   collect        a batch: the next ids, and their values
 *   deliverPush    the batch, as RPUSH, ZREM and HDEL in one transaction
 *
 * These are commands, not low-level calls: RPUSH wakes clients that block on the list, checks the
 * memory limit, and notifies keyspace listeners, as it does for a client. They are replicated as
 * they are.
 *
 * An element that cannot be delivered stays: while the server refuses writes, or uses the queue's
 * keys, while `list` is not a list, and while there is no value for the element, as between two
 * commands of another client that restores the keys. The first three delay the whole queue, which
 * is tried again after a while. In the last case only the element is skipped: elements without a
 * value gather at the front of the sorted set, and the next batch begins behind them, by rank.
 */
#include "delay/deliver.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "blocking/drain.h"
#include "common/failpoint.h"
#include "common/stats.h"
#include "delay/queues.h"
#include "keys/delaykeys.h"
#include "server/server.h"
#include "server/timeslice.h"

/* How many elements are pushed by one command. If ids and values are long there are fewer: all but
 * the last have at most BATCH_BYTES together. */
#define BATCH 32
#define BATCH_BYTES 65536

/* If elements without a value have been skipped, ids are read before their length is known. */
#define BATCH_BEHIND_SKIPPED 8

/* There is no event when memory is available again, or when the key has become a list: the queue is
 * tried again after the first time, and then after twice the last one, up to the second. */
#define FIRST_RETRY_MS 100
#define LAST_RETRY_MS 1000

/* If a check takes long, for example because of a name of 10 MB, the pause after it is this many
 * times as long. */
#define RETRY_SHARE 200

/* While clients are paused, all queues are checked this often. */
#define HELD_RETRY_MS 20

/* A queue whose slot is being moved is checked this often. */
#define MOVING_RETRY_MS 500

/* Skipped elements are checked again after this time. A missing value that is written is an event,
 * but not if it arrives with a slot or a swap. */
#define SKIPPED_RETRY_MS 10000

/* ---- the server's commands ---- */

static void freeReply(RedisModuleCallReply *reply) {
    if (reply) {
        RedisModule_FreeCallReply(reply);
    }
}

/* Whether the command has succeeded. Frees the reply. */
static bool isDone(RedisModuleCallReply *reply) {
    bool done = reply && RedisModule_CallReplyType(reply) != REDISMODULE_REPLY_ERROR;
    freeReply(reply);
    return done;
}

/* Whether the server evicts keys to make room. */
static bool evicts(RedisModuleCtx *ctx) {
    return RedisModule_GetContextFlags(ctx) & REDISMODULE_CTX_FLAGS_EVICT;
}

/* Whether the server is out of memory, checked now: for a call ("M") the server uses the state from
 * before the last client's command, which may be long ago. A server that evicts keys decides by
 * that itself. */
static bool isOutOfMemory(RedisModuleCtx *ctx) {
    return (RedisModule_GetContextFlags(ctx) & REDISMODULE_CTX_FLAGS_OOM) && !evicts(ctx);
}

/* ---- a batch ---- */

struct batch {
    struct delayedQueue *queue;
    RedisModuleString *list, *due_name, *value_name;
    size_t most;    /* how many elements it has room for */
    size_t bytes;   /* of their ids and values */
    size_t skipped; /* how many elements have no value */
    size_t count;
    RedisModuleString *ids[BATCH], *values[BATCH];
};

static void beginBatch(RedisModuleCtx *ctx, struct delayedQueue *queue, struct batch *batch) {
    struct delaykeys keys;
    delaykeysOpenQueue(&keys, ctx, queue->name);
    *batch = (struct batch){.queue = queue, .list = delaykeysList(&keys)};
    batch->due_name = keys.due_name;
    batch->value_name = keys.value_name;
    RedisModule_RetainString(NULL, keys.due_name);
    RedisModule_RetainString(NULL, keys.value_name);
    delaykeysClose(&keys);
}

static void endBatch(struct batch *batch) {
    for (size_t i = 0; i < batch->count; i++) {
        RedisModule_FreeString(NULL, batch->ids[i]);
        RedisModule_FreeString(NULL, batch->values[i]);
    }
    RedisModule_FreeString(NULL, batch->list);
    RedisModule_FreeString(NULL, batch->due_name);
    RedisModule_FreeString(NULL, batch->value_name);
}

static size_t lengthOf(RedisModuleString *string) {
    size_t length;
    RedisModule_StringPtrLen(string, &length);
    return length;
}

/* Takes over both references. Returns whether the batch has room for more. */
static bool addToBatch(struct batch *batch, RedisModuleString *id, RedisModuleString *value) {
    batch->bytes += lengthOf(id) + (value ? lengthOf(value) : 0);
    if (value) {
        batch->ids[batch->count] = id;
        batch->values[batch->count++] = value;
    } else {
        RedisModule_FreeString(NULL, id);
        batch->skipped++;
    }
    return batch->count + batch->skipped < batch->most && batch->bytes < BATCH_BYTES;
}

static bool addElement(const struct delaykeysElement *element, void *batch) {
    RedisModule_RetainString(NULL, element->id);
    if (element->value) {
        RedisModule_RetainString(NULL, element->value);
    }
    return addToBatch(batch, element->id, element->value);
}

static void addFirst(RedisModuleCtx *ctx, struct batch *batch) {
    struct delaykeys keys;
    delaykeysOpenQueue(&keys, ctx, batch->queue->name);
    delaykeysEach(&keys, addElement, batch);
    delaykeysClose(&keys);
}

/* `ids` is the reply of ZRANGE, or NULL. */
static void addEach(RedisModuleCtx *ctx, struct batch *batch, RedisModuleCallReply *ids) {
    bool is_array = ids && RedisModule_CallReplyType(ids) == REDISMODULE_REPLY_ARRAY;
    size_t count = is_array ? RedisModule_CallReplyLength(ids) : 0;
    struct delaykeys keys;
    bool has_room = true;
    delaykeysOpenQueue(&keys, ctx, batch->queue->name);
    for (size_t i = 0; i < count && has_room; i++) {
        RedisModuleString *id =
            RedisModule_CreateStringFromCallReply(RedisModule_CallReplyArrayElement(ids, i));
        has_room = addToBatch(batch, id, delaykeysValue(&keys, id));
    }
    delaykeysClose(&keys);
}

/* Reads by rank, which only a command can do. */
static void addBehindSkipped(RedisModuleCtx *ctx, struct batch *batch) {
    size_t from = batch->queue->skipped;
    RedisModuleCallReply *reply =
        RedisModule_Call(ctx, "ZRANGE", "Esll", batch->due_name, (long long)from,
                         (long long)(from + batch->most) - 1);
    addEach(ctx, batch, reply);
    freeReply(reply);
}

/* Collects the next of `due` elements. Returns false if there is none. */
static bool collect(RedisModuleCtx *ctx, struct batch *batch, size_t due) {
    size_t left = due - batch->queue->skipped;
    size_t most = batch->queue->skipped > 0 ? BATCH_BEHIND_SKIPPED : BATCH;
    batch->most = left < most ? left : most;
    if (batch->queue->skipped > 0) {
        addBehindSkipped(ctx, batch);
    } else {
        addFirst(ctx, batch);
    }
    return batch->count + batch->skipped > 0;
}

/* Calls a command with a key and many arguments. Returns whether it has succeeded. */
static bool deliverCall(RedisModuleCtx *ctx, const char *command, RedisModuleString *key,
                        const struct batch *batch, RedisModuleString *const *arguments) {
    const char *format = evicts(ctx) ? "!EMsv" : "!Esv";
    return isDone(RedisModule_Call(ctx, command, format, key, arguments, batch->count));
}

/* Removes what has been pushed, which would be pushed again otherwise, even if the command is
 * disabled by rename-command. */
static void removeSurely(RedisModuleCtx *ctx, const struct batch *batch) {
    struct delaykeys keys;
    delaykeysOpen(&keys, ctx, batch->list, KEY_TO_WRITE);
    delaykeysRemove(&keys, batch->ids, batch->count);
    delaykeysClose(&keys);
}

/* ZREM, and HDEL, or UNLINK when nothing is left. The server does not refuse this, because the push
 * has succeeded. */
static void removeBatch(RedisModuleCtx *ctx, const struct batch *batch) {
    struct delaykeys keys;
    delaykeysOpenQueue(&keys, ctx, batch->queue->name);
    bool is_last = delaykeysLength(&keys) == batch->count;
    delaykeysClose(&keys);
    if (!deliverCall(ctx, "ZREM", batch->due_name, batch, batch->ids)) {
        removeSurely(ctx, batch);
    } else if (is_last) {
        (void)isDone(RedisModule_Call(ctx, "UNLINK", "!Es", batch->value_name));
    } else {
        deliverCall(ctx, "HDEL", batch->value_name, batch, batch->ids);
    }
}

/* Whether what is pushed can be removed after it: neither key is in use. */
static bool canRemove(RedisModuleCtx *ctx, const struct batch *batch) {
    struct delaykeys keys;
    delaykeysOpen(&keys, ctx, batch->list, KEY_TO_WRITE);
    bool in_use = delaykeysAreInUse(&keys);
    delaykeysClose(&keys);
    return !in_use;
}

/* Returns false if the push was refused. The module's own changes are not treated as events: no
 * test would notice if they were, but the queue, and its elements without a value, would be checked
 * more often. */
static bool deliverPush(RedisModuleCtx *ctx, const struct batch *batch) {
    queuesOwnChange(true);
    (void)failpoint(FAILPOINT_DELIVER_BEGUN);
    bool pushed =
        !isOutOfMemory(ctx) && deliverCall(ctx, "RPUSH", batch->list, batch, batch->values);
    if (pushed) {
        (void)failpoint(FAILPOINT_DELIVER_PUSHED);
        removeBatch(ctx, batch);
        statsCountMany(STATS_DELAY_DELIVERED, batch->count);
    }
    queuesOwnChange(false);
    return pushed;
}

/* ---- a queue ---- */

struct look {
    int64_t now_ms;
    uint64_t began_us;
};

/* How many elements are due; also 0 if the server refuses the command. */
static size_t countDue(RedisModuleCtx *ctx, struct delayedQueue *queue, int64_t now_ms) {
    struct batch names;
    char before[32];
    beginBatch(ctx, queue, &names);
    snprintf(before, sizeof(before), "(%lld", (long long)now_ms + 1);
    RedisModuleCallReply *reply =
        RedisModule_Call(ctx, "ZCOUNT", "Escc", names.due_name, "-inf", before);
    endBatch(&names);
    long long count = 0;
    if (reply && RedisModule_CallReplyType(reply) == REDISMODULE_REPLY_INTEGER) {
        count = RedisModule_CallReplyInteger(reply);
    }
    freeReply(reply);
    return (size_t)count;
}

/* Delivers a batch of `*due` elements, and subtracts it. Returns false if it was refused. */
static bool deliverSome(RedisModuleCtx *ctx, struct delayedQueue *queue, size_t *due) {
    struct batch batch;
    beginBatch(ctx, queue, &batch);
    bool done = collect(ctx, &batch, *due) &&
                (batch.count == 0 || (canRemove(ctx, &batch) && deliverPush(ctx, &batch)));
    if (done) {
        *due -= batch.count;
        queue->skipped += batch.skipped;
    }
    endBatch(&batch);
    return done;
}

/* If it is time, has the skipped elements checked again. */
static void beginAgain(struct delayedQueue *queue, int64_t now_ms) {
    if (now_ms >= queue->again_ms) {
        queue->again_ms = now_ms + SKIPPED_RETRY_MS;
        queue->walked_ms = now_ms;
        queue->skipped = 0;
    }
}

/* Sets when to check a queue next in which nothing is due any more except elements without a value;
 * removes its entry if it has no elements. */
static void deliverSetNextLook(RedisModuleCtx *ctx, struct delayedQueue *queue, int64_t now_ms) {
    struct delaykeys keys;
    delaykeysOpenQueue(&keys, ctx, queue->name);
    size_t length = delaykeysLength(&keys);
    int64_t next_ms = delaykeysNext(&keys, now_ms);
    delaykeysClose(&keys);
    if (length == 0) {
        queuesForget(queue);
        return;
    }
    if (queue->skipped > 0 && next_ms > queue->again_ms) {
        next_ms = queue->again_ms;
    }
    queuesPutOff(queue, next_ms);
}

/* The delay of a queue that was refused, by its number of refusals and by the time of this check,
 * which began at `began_us`. */
static int64_t retryAfter(const struct delayedQueue *queue, uint64_t began_us) {
    uint64_t took_us = RedisModule_MonotonicMicroseconds() - began_us;
    int64_t longer_ms = (int64_t)(took_us * RETRY_SHARE / 1000);
    return longer_ms > queue->retry_ms ? longer_ms : queue->retry_ms;
}

/* The due elements stay for now. */
static void deliverRefuse(struct delayedQueue *queue, size_t due, const struct look *look) {
    int64_t retry_ms = queue->retry_ms > 0 ? 2 * queue->retry_ms : FIRST_RETRY_MS;
    queue->retry_ms = retry_ms < LAST_RETRY_MS ? retry_ms : LAST_RETRY_MS;
    queuesWalkAgain(queue);
    queuesSetStuck(queue, due);
    queuesPutBehind(queue, look->now_ms + retryAfter(queue, look->began_us));
}

/* Delivers at least one batch, and more as the time slice allows. Queues that have more due
 * elements alternate. */
static void deliver(RedisModuleCtx *ctx, struct delayedQueue *queue, const struct look *look) {
    int64_t now_ms = look->now_ms;
    size_t due = countDue(ctx, queue, now_ms);
    bool taken = true;
    beginAgain(queue, now_ms);
    while (taken && due > queue->skipped) {
        taken = deliverSome(ctx, queue, &due);
        if (timesliceHasEndedByClock()) {
            break;
        }
    }
    if (!taken) {
        deliverRefuse(queue, due, look);
        return;
    }
    queue->retry_ms = 0;
    queuesSetStuck(queue, queue->skipped < due ? queue->skipped : due);
    if (due > queue->skipped) {
        queuesPutOff(queue, now_ms);
    } else {
        deliverSetNextLook(ctx, queue, now_ms);
    }
}

/* If a slot is being moved, one key may be here and the other on the other node. If the sorted set
 * is here, the slot may still arrive, or stay; if it is not, it has moved away. */
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

static void deliverLookAt(RedisModuleCtx *ctx, struct delayedQueue *queue, int64_t now_ms) {
    const struct look look = {now_ms, RedisModule_MonotonicMicroseconds()};
    RedisModule_SelectDb(ctx, queuesDbOf(queue));
    switch (serverMayWriteKey(ctx, queue->name)) {
    case SERVER_ACCEPTS:
        if (keynamesSidesAreHere(ctx, queue->name)) {
            deliver(ctx, queue, &look);
        } else {
            putOffUntilMoved(ctx, queue, now_ms);
        }
        break;
    case SERVER_NOT_OURS:
        putOffUntilMoved(ctx, queue, now_ms);
        break;
    case SERVER_REFUSES:
        deliverRefuse(queue, countDue(ctx, queue, now_ms), &look);
        break;
    }
}

/* At least one queue, even when locks have used up the time slice, as they may do for a while. */
void deliverDue(RedisModuleCtx *ctx, int64_t now_ms) {
    struct delayedQueue *queue = queuesDue(now_ms);
    while (queue) {
        deliverLookAt(ctx, queue, now_ms);
        queue = timesliceHasEndedByClock() ? NULL : queuesDue(now_ms);
    }
    queuesFreeForgotten(ctx);
    queuesSetAlarm(ctx);
}

void deliverHold(RedisModuleCtx *ctx, int64_t now_ms) {
    struct delayedQueue *queue;
    while ((queue = queuesDue(now_ms)) && !timesliceHasEndedByClock()) {
        RedisModule_SelectDb(ctx, queuesDbOf(queue));
        queuesWalkAgain(queue);
        queuesSetStuck(queue, countDue(ctx, queue, now_ms));
        queuesPutOff(queue, now_ms + HELD_RETRY_MS);
    }
}
