/* See gather.h. */
#include "look/gather.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "net/replies.h"

#define WAITERS_SHOWN "20"

void gatherOpen(struct gather *gather, struct event_base *base, const struct lookOrder *order) {
    *gather = (struct gather){0};
    nodesOpen(&gather->nodes, base, order);
    gather->nodes.arg = gather;
}

void gatherClose(struct gather *gather) {
    nodesFree(&gather->nodes);
    sampleFree(&gather->now);
    sampleFree(&gather->before);
    detailFree(&gather->detail);
    free(gather->error);
}

/* ---- a sample ---- */

static void onInfo(struct node *node, redisReply *reply, const char *name, size_t length) {
    struct gather *gather = node->nodes->arg;
    (void)name;
    (void)length;
    sampleAddInfo(&gather->now, reply);
}

static void onTop(struct node *node, redisReply *reply, const char *name, size_t length) {
    struct gather *gather = node->nodes->arg;
    (void)name;
    (void)length;
    if (reply->type == REDIS_REPLY_ARRAY) {
        sampleAddTop(&gather->now, node->number, reply);
    } else if (!gather->error) {
        gather->error = memoryPrint("%s: %s", node->place, reply->str ? reply->str : "?");
    }
}

static void askNode(struct node *node) {
    struct words info = {0};
    wordsAdd(&info, "INFO");
    wordsAdd(&info, "lock");
    nodeAsk(node, &info, onInfo, NULL, 0);
    struct words top = {0};
    wordsAdd(&top, "LOCK.TOP");
    wordsAdd(&top, "COUNT");
    wordsAdd(&top, "256");
    nodeAsk(node, &top, onTop, NULL, 0);
}

void gatherSample(struct gather *gather) {
    sampleFree(&gather->before);
    gather->before = gather->now;
    gather->now = (struct sample){.at_ms = clockNow()};
    free(gather->error);
    gather->error = NULL;
    for (size_t i = 0; i < gather->nodes.count; i++) {
        askNode(gather->nodes.list[i]);
    }
    nodesFinish(&gather->nodes);
    sampleCompare(&gather->now, &gather->before);
}

/* ---- holders ---- */

/* The name of a request is the index of its lock. */
static struct sampleLock *lockOf(const struct gather *gather, const char *name) {
    size_t number;
    memcpy(&number, name, sizeof(number));
    return &gather->now.locks[number];
}

static void onHolder(struct node *node, redisReply *reply, const char *name, size_t length) {
    const struct gather *gather = node->nodes->arg;
    struct sampleLock *lock = lockOf(gather, name);
    (void)length;
    const redisReply *holders = replyField(reply, "holders");
    lock->holders = holders ? holders->elements : 0;
    if (lock->holders > 0) {
        const redisReply *owner = replyField(holders->element[0], "owner");
        free(lock->holder);
        lock->holder = memoryCopy(owner ? owner->str : "", owner ? owner->len : 0);
        lock->holder_length = owner ? owner->len : 0;
    }
}

static void onDetail(struct node *node, redisReply *reply, const char *name, size_t length) {
    struct gather *gather = node->nodes->arg;
    onHolder(node, reply, name, length);
    detailSet(&gather->detail, reply);
}

static void onSelected(struct node *node, redisReply *reply, const char *name, size_t length) {
    (void)node;
    (void)reply;
    (void)name;
    (void)length;
}

static void selectDb(struct node *node, int64_t db) {
    struct words words = {0};
    wordsAdd(&words, "SELECT");
    wordsAddNumber(&words, db);
    nodeAsk(node, &words, onSelected, NULL, 0);
}

static void askHolder(struct gather *gather, size_t number, bool in_detail) {
    const struct sampleLock *lock = &gather->now.locks[number];
    struct node *node = gather->nodes.list[lock->node];
    struct words words = {0};
    wordsAdd(&words, "LOCK.INFO");
    wordsAddBytes(&words, lock->name, lock->length);
    wordsAdd(&words, "COUNT");
    wordsAdd(&words, in_detail ? WAITERS_SHOWN : "0");
    bool is_elsewhere = lock->db != node->url.db;
    if (is_elsewhere) {
        selectDb(node, lock->db);
    }
    nodeAsk(node, &words, in_detail ? onDetail : onHolder, (const char *)&number, sizeof(number));
    if (is_elsewhere) {
        selectDb(node, node->url.db);
    }
}

void gatherHolders(struct gather *gather, size_t first, size_t count, size_t selected) {
    detailFree(&gather->detail);
    for (size_t i = first; i < first + count && i < gather->now.count; i++) {
        askHolder(gather, i, i == selected);
    }
    nodesFinish(&gather->nodes);
}
