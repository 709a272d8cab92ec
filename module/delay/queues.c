/* See queues.h. */
#include "delay/queues.h"

#include <string.h>

#include "blocking/drain.h"
#include "core/list.h"
#include "core/mem.h"
#include "keys/delaykeys.h"
#include "server/server.h"
#include "server/timer.h"
#include "server/timeslice.h"

/* How many elements without a value are checked again in a ms at most, on average: a client that
 * writes to a queue with 500,000 of them has them walked only every eight seconds. */
#define WALKED_AGAIN_A_MS 64

/* The queues of a database. SWAPDB exchanges the numbers of two of these, and a flush puts one
 * aside, for any number of queues. */
struct queuesDb {
    int number;
    struct link in_list; /* in the list of those that have queues, or of those put aside */
    struct map by_name;
    struct heap going, refused; /* each queue is in one of the two */
    size_t stuck;
};

static struct {
    struct list dbs;     /* those that have queues */
    struct list aside;   /* those whose queues are to be freed, some at a time */
    size_t count, stuck; /* of `dbs` */
    bool own_change;
    void (*listen)(RedisModuleCtx *ctx);
    struct timer timer; /* for the queue that is to be checked first */
} queues;

void queuesConnect(void (*listen)(RedisModuleCtx *ctx)) {
    queues.listen = listen;
}

void queuesListen(RedisModuleCtx *ctx) {
    queues.listen(ctx);
}

/* ---- databases ---- */

static struct queuesDb *queuesOfLink(struct link *link) {
    return LIST_ELEMENT_OR_NULL(link, struct queuesDb, in_list);
}

static struct queuesDb *firstDb(void) {
    return queuesOfLink(queues.dbs.first);
}

static struct queuesDb *nextDb(const struct queuesDb *db) {
    return queuesOfLink(db->in_list.next);
}

/* The database with this number, or NULL if it has no queues. The list has at most `databases`
 * elements, usually one. */
static struct queuesDb *findDb(int number) {
    struct queuesDb *db = firstDb();
    while (db && db->number != number) {
        db = nextDb(db);
    }
    return db;
}

static struct queuesDb *findOrMakeDb(int number) {
    struct queuesDb *db = findDb(number);
    if (!db) {
        db = memAlloc(sizeof(*db));
        db->number = number;
        listAddLast(&queues.dbs, &db->in_list);
    }
    return db;
}

int queuesDbOf(const struct delayedQueue *queue) {
    return queue->of->number;
}

/* ---- finding and making ---- */

static struct delayedQueue *queuesOfEntry(struct mapEntry *entry) {
    return LIST_ELEMENT_OR_NULL(entry, struct delayedQueue, by_name);
}

struct delayedQueue *queuesFind(int db, RedisModuleString *name) {
    const struct queuesDb *of = findDb(db);
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(name, &length);
    return of ? queuesOfEntry(mapFind(&of->by_name, bytes, length)) : NULL;
}

static struct delayedQueue *queuesMake(int db, RedisModuleString *name) {
    struct delayedQueue *queue = memAlloc(sizeof(*queue));
    queue->of = findOrMakeDb(db);
    /* A copy: the caller's string may point into a client's query buffer. */
    queue->name = RedisModule_CreateStringFromString(NULL, name);
    queue->line = &queue->of->going;
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(queue->name, &length);
    mapAdd(&queue->of->by_name, &queue->by_name, bytes, length);
    queues.count++;
    return queue;
}

/* ---- when to check ---- */

static void queuesOnTimer(RedisModuleCtx *ctx, struct timer *timer) {
    (void)timer;
    drainRunSoon(ctx, DRAIN_DELAYED_QUEUES);
}

/* By the wall clock, which may be wrong for a moment now. What the timer is set for may have been
 * delivered when it rings. */
static void queuesSetAlarmAt(RedisModuleCtx *ctx, int64_t at_ms) {
    if (at_ms <= serverNow()) {
        drainSetAlarm(ctx, DRAIN_DELAYED_QUEUES, 0);
    } else if (!queues.timer.is_set || at_ms < queues.timer.place.at) {
        timerSetWall(ctx, &queues.timer, at_ms, queuesOnTimer);
        drainWakeLoop();
    }
}

static struct delayedQueue *queuesFirst(const struct heap *line) {
    struct heapNode *node = heapFirst(line);
    return LIST_ELEMENT_OR_NULL(node, struct delayedQueue, look);
}

static struct delayedQueue *earlier(struct delayedQueue *a, struct delayedQueue *b) {
    return !b || (a && a->look.at <= b->look.at) ? a : b;
}

static struct delayedQueue *firstGoing(void) {
    struct delayedQueue *found = NULL;
    for (const struct queuesDb *db = firstDb(); db; db = nextDb(db)) {
        found = earlier(found, queuesFirst(&db->going));
    }
    return found;
}

static struct delayedQueue *firstRefused(void) {
    struct delayedQueue *found = NULL;
    for (const struct queuesDb *db = firstDb(); db; db = nextDb(db)) {
        found = earlier(found, queuesFirst(&db->refused));
    }
    return found;
}

void queuesSetAlarm(RedisModuleCtx *ctx) {
    const struct delayedQueue *next = earlier(firstGoing(), firstRefused());
    if (next) {
        queuesSetAlarmAt(ctx, next->look.at);
    } else {
        timerStop(ctx, &queues.timer);
    }
}

struct delayedQueue *queuesDue(int64_t now_ms) {
    struct delayedQueue *going = firstGoing(), *refused = firstRefused();
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
    putInto(&queue->of->going, queue, at_ms);
}

void queuesPutBehind(struct delayedQueue *queue, int64_t at_ms) {
    putInto(&queue->of->refused, queue, at_ms);
}

void queuesSetStuck(struct delayedQueue *queue, size_t count) {
    queues.stuck += count - queue->stuck;
    queue->of->stuck += count - queue->stuck;
    queue->stuck = count;
}

/* A queue that was refused keeps its time. */
void queuesLookAt(RedisModuleCtx *ctx, int db, RedisModuleString *name, int64_t at_ms) {
    struct delayedQueue *queue = queuesFind(db, name);
    if (!queue) {
        queuesListen(ctx);
        queue = queuesMake(db, name);
        queuesPutOff(queue, at_ms);
    } else if (queue->line == &queue->of->going && queue->look.at > at_ms) {
        queuesPutOff(queue, at_ms);
    }
    queuesSetAlarm(ctx);
}

void queuesWalkAgain(struct delayedQueue *queue) {
    queue->again_ms = queue->walked_ms + (int64_t)(queue->skipped / WALKED_AGAIN_A_MS);
}

void queuesLookAgain(RedisModuleCtx *ctx, struct delayedQueue *queue) {
    queuesWalkAgain(queue);
    if (queue->line != &queue->of->going || queue->look.at > queue->again_ms) {
        queuesPutOff(queue, queue->again_ms);
    }
    queuesSetAlarm(ctx);
}

void queuesOwnChange(bool is_own) {
    queues.own_change = is_own;
}

/* Whether events are to be handled. On a replica the queues are the master's; while data is loaded
 * they are ignored, because a scan follows. */
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
        queuesLookAgain(ctx, queue);
    } else if (kind == DELAYKEYS_DUE) {
        queuesLookAt(ctx, db, name, 0);
    }
    RedisModule_FreeString(ctx, name);
}

/* ---- removing ---- */

static void freeQueue(struct delayedQueue *queue) {
    heapRemove(queue->line, &queue->look);
    mapRemove(&queue->of->by_name, &queue->by_name);
    RedisModule_FreeString(NULL, queue->name);
    memFree(queue);
}

static void freeDbIfEmpty(struct queuesDb *db, struct list *list) {
    if (db->by_name.used == 0) {
        listRemove(list, &db->in_list);
        memFree(db);
    }
}

void queuesForget(struct delayedQueue *queue) {
    struct queuesDb *db = queue->of;
    queuesSetStuck(queue, 0);
    freeQueue(queue);
    queues.count--;
    freeDbIfEmpty(db, &queues.dbs);
}

static void putAside(struct queuesDb *db) {
    queues.count -= db->by_name.used;
    queues.stuck -= db->stuck;
    listRemove(&queues.dbs, &db->in_list);
    listAddLast(&queues.aside, &db->in_list);
}

void queuesForgetAll(RedisModuleCtx *ctx, int number) {
    struct queuesDb *next;
    for (struct queuesDb *db = firstDb(); db; db = next) {
        next = nextDb(db);
        if (number < 0 || db->number == number) {
            putAside(db);
        }
    }
    if (!listIsEmpty(&queues.aside)) {
        drainSetAlarm(ctx, DRAIN_DELAYED_QUEUES, 0);
    }
}

static struct delayedQueue *queuesAt(const struct heap *line, size_t index) {
    return LIST_ELEMENT(line->nodes[index], struct delayedQueue, look);
}

/* The last queue of a heap: removing it moves no other. */
static struct delayedQueue *queuesLastOf(const struct queuesDb *db) {
    const struct heap *line = db->going.count > 0 ? &db->going : &db->refused;
    return queuesAt(line, line->count - 1);
}

void queuesFreeForgotten(RedisModuleCtx *ctx) {
    struct queuesDb *db;
    bool is_over = false;
    while (!is_over && (db = queuesOfLink(queues.aside.first))) {
        freeQueue(queuesLastOf(db));
        freeDbIfEmpty(db, &queues.aside);
        is_over = timesliceHasEnded();
    }
    if (!listIsEmpty(&queues.aside)) {
        drainSetAlarm(ctx, DRAIN_DELAYED_QUEUES, 0);
    }
}

/* ---- events for all queues ---- */

void queuesSwapped(int first_db, int second_db) {
    struct queuesDb *one = findDb(first_db), *other = findDb(second_db);
    if (one) {
        one->number = second_db;
    }
    if (other) {
        other->number = first_db;
    }
}

static void lookAtAllOf(struct queuesDb *db) {
    while (queuesFirst(&db->refused)) {
        queuesPutOff(queuesFirst(&db->refused), 0);
    }
    for (size_t i = 0; i < db->going.count; i++) {
        queuesAt(&db->going, i)->again_ms = 0;
        queuesPutOff(queuesAt(&db->going, i), 0); /* it keeps its index: those before it are at 0 */
    }
}

/* All in one step: no client can cause it, only the clock. */
void queuesClockStepped(RedisModuleCtx *ctx) {
    for (struct queuesDb *db = firstDb(); db; db = nextDb(db)) {
        lookAtAllOf(db);
    }
    queuesSetAlarm(ctx);
}

size_t queuesStuck(void) {
    return queues.stuck;
}

size_t queuesCount(void) {
    return queues.count;
}

bool queuesKeepMemory(void) {
    return queues.count > 0 || !listIsEmpty(&queues.aside);
}
