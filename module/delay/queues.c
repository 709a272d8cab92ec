/* See queues.h. */
#include "delay/queues.h"

#include <string.h>

#include "blocking/drain.h"
#include "core/list.h"
#include "core/mem.h"
#include "keys/delaykeys.h"
#include "server/timer.h"

/* A clock that is slewed, or read twice, may seem to go back by less. */
#define STEP_MS 20

static struct {
    struct map by_list;
    struct heap going, refused; /* each queue is in one of the two */
    size_t stuck;
    bool own_change;
    void (*listen)(RedisModuleCtx *ctx);
    int64_t clock_ms; /* when it was looked at last */
} queues;

void queuesConnect(void (*listen)(RedisModuleCtx *ctx)) {
    queues.listen = listen;
}

void queuesListen(RedisModuleCtx *ctx) {
    if (queues.clock_ms == 0) {
        queues.clock_ms = RedisModule_Milliseconds();
    }
    queues.listen(ctx);
}

static struct delayedQueue *ofEntry(struct mapEntry *entry) {
    return entry ? LIST_ELEMENT(entry, struct delayedQueue, by_list) : NULL;
}

/* The bytes that tell a queue from all others; free them with memFree. */
static char *keyOf(int db, RedisModuleString *name, size_t *length) {
    size_t name_length;
    const char *bytes = RedisModule_StringPtrLen(name, &name_length);
    *length = sizeof(db) + name_length;
    char *key = memAlloc(*length);
    memcpy(key, &db, sizeof(db));
    memcpy(key + sizeof(db), bytes, name_length);
    return key;
}

struct delayedQueue *queuesFind(int db, RedisModuleString *name) {
    if (queues.by_list.used == 0) {
        return NULL;
    }
    size_t length;
    char *key = keyOf(db, name, &length);
    struct delayedQueue *queue = ofEntry(mapFind(&queues.by_list, key, length));
    memFree(key);
    return queue;
}

static void addToMap(struct delayedQueue *queue, int db) {
    size_t length;
    memFree(queue->key);
    queue->db = db;
    queue->key = keyOf(db, queue->name, &length);
    mapAdd(&queues.by_list, &queue->by_list, queue->key, length);
}

static struct delayedQueue *make(int db, RedisModuleString *name) {
    struct delayedQueue *queue = memAlloc(sizeof(*queue));
    /* A copy: the caller's may be a slice of a client's query buffer. */
    queue->name = RedisModule_CreateStringFromString(NULL, name);
    queue->line = &queues.going;
    addToMap(queue, db);
    return queue;
}

static void setAlarm(RedisModuleCtx *ctx, int64_t at_ms) {
    int64_t now_ms = RedisModule_Milliseconds();
    drainSetAlarm(ctx, at_ms > now_ms ? timerDelay(at_ms, now_ms) : 0);
}

static struct delayedQueue *first(const struct heap *line) {
    struct heapNode *node = heapFirst(line);
    return node ? LIST_ELEMENT(node, struct delayedQueue, look) : NULL;
}

void queuesSetAlarm(RedisModuleCtx *ctx) {
    const struct delayedQueue *going = first(&queues.going), *refused = first(&queues.refused);
    if (going && (!refused || going->look.at <= refused->look.at)) {
        setAlarm(ctx, going->look.at);
    } else if (refused) {
        setAlarm(ctx, refused->look.at);
    }
}

struct delayedQueue *queuesDue(int64_t now_ms) {
    struct delayedQueue *going = first(&queues.going), *refused = first(&queues.refused);
    if (going && going->look.at <= now_ms) {
        return going;
    }
    return refused && refused->look.at <= now_ms ? refused : NULL;
}

static void putInto(struct heap *line, struct delayedQueue *queue, int64_t at_ms) {
    if (queue->line != line) {
        heapRemove(queue->line, &queue->look);
        queue->line = line;
    }
    heapPut(line, &queue->look, at_ms);
}

void queuesPutOff(struct delayedQueue *queue, int64_t at_ms) {
    putInto(&queues.going, queue, at_ms);
}

void queuesPutBehind(struct delayedQueue *queue, int64_t at_ms) {
    putInto(&queues.refused, queue, at_ms);
}

void queuesSetStuck(struct delayedQueue *queue, size_t count) {
    queues.stuck += count - queue->stuck;
    queue->stuck = count;
}

/* The alarm is set anew also where nothing is to be earlier: when the clock has stepped back, the
 * one that is set would ring as much later. A queue that was refused is tried again in its time. */
void queuesLookAt(RedisModuleCtx *ctx, int db, RedisModuleString *name, int64_t at_ms) {
    struct delayedQueue *queue = queuesFind(db, name);
    if (!queue) {
        queuesListen(ctx);
        queue = make(db, name);
        queuesPutOff(queue, at_ms);
    } else if (queue->line == &queues.going && queue->look.at > at_ms) {
        queuesPutOff(queue, at_ms);
    }
    queuesSetAlarm(ctx);
}

void queuesLookAnew(RedisModuleCtx *ctx, struct delayedQueue *queue) {
    queue->again_ms = 0;
    queuesPutOff(queue, 0);
    queuesSetAlarm(ctx);
}

void queuesOwnChange(bool is_own) {
    queues.own_change = is_own;
}

/* On a replica the queues are the master's, and what is loaded is looked for when all of it is
 * there. */
static bool isOurs(RedisModuleCtx *ctx) {
    int flags = RedisModule_GetContextFlags(ctx);
    return (flags & REDISMODULE_CTX_FLAGS_MASTER) && !(flags & REDISMODULE_CTX_FLAGS_LOADING);
}

void queuesKeyChanged(RedisModuleCtx *ctx, int db, RedisModuleString *key) {
    enum delaykeysKind kind = delaykeysKindOf(key);
    if (kind == DELAYKEYS_NEITHER || queues.own_change || !isOurs(ctx)) {
        return;
    }
    RedisModuleString *name = delaykeysQueueOfKey(ctx, key);
    if (!name) {
        return;
    }
    struct delayedQueue *queue = queuesFind(db, name);
    if (queue) {
        queuesLookAnew(ctx, queue);
    } else if (kind == DELAYKEYS_DUE) {
        queuesLookAt(ctx, db, name, 0);
    }
    RedisModule_FreeString(ctx, name);
}

void queuesForget(struct delayedQueue *queue) {
    queuesSetStuck(queue, 0);
    heapRemove(queue->line, &queue->look);
    mapRemove(&queues.by_list, &queue->by_list);
    RedisModule_FreeString(NULL, queue->name);
    memFree(queue->key);
    memFree(queue);
}

static void forgetIfIn(struct mapEntry *entry, void *data) {
    const int *db = data;
    struct delayedQueue *queue = ofEntry(entry);
    if (*db < 0 || queue->db == *db) {
        queuesForget(queue);
    }
}

void queuesForgetAll(int db) {
    mapEach(&queues.by_list, forgetIfIn, &db);
}

static struct delayedQueue *at(const struct heap *line, size_t index) {
    return LIST_ELEMENT(line->nodes[index], struct delayedQueue, look);
}

static void moveTo(struct delayedQueue *queue, int db) {
    mapRemove(&queues.by_list, &queue->by_list);
    addToMap(queue, db);
}

static void swap(const struct heap *line, int first_db, int second_db) {
    for (size_t i = 0; i < line->count; i++) {
        if (at(line, i)->db == first_db) {
            moveTo(at(line, i), second_db);
        } else if (at(line, i)->db == second_db) {
            moveTo(at(line, i), first_db);
        }
    }
}

void queuesSwapped(int first_db, int second_db) {
    if (first_db != second_db) {
        swap(&queues.going, first_db, second_db);
        swap(&queues.refused, first_db, second_db);
    }
}

static void lookAtAll(RedisModuleCtx *ctx) {
    while (first(&queues.refused)) {
        queuesPutOff(first(&queues.refused), 0);
    }
    for (size_t i = 0; i < queues.going.count; i++) {
        at(&queues.going, i)->again_ms = 0;
        queuesPutOff(at(&queues.going, i), 0); /* it stays there: those before it are at 0 */
    }
    queuesSetAlarm(ctx);
}

void queuesWatchClock(RedisModuleCtx *ctx) {
    int64_t now_ms = RedisModule_Milliseconds();
    bool has_stepped_back = now_ms < queues.clock_ms - STEP_MS;
    queues.clock_ms = now_ms;
    if (has_stepped_back) {
        lookAtAll(ctx);
    }
}

size_t queuesStuck(void) {
    return queues.stuck;
}

size_t queuesCount(void) {
    return queues.by_list.used;
}
