/* The delayed queues that have something pending: what memory knows of them, which is when to look
 * at each of them next.
 *
 * The elements are in keys (delaykeys.h). An entry here exists from the first element to the last,
 * on a master only: no elements, no memory.
 */
#ifndef LOCK_QUEUES_H
#define LOCK_QUEUES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hashmap.h"
#include "core/heap.h"
#include "redismodule.h"

struct queuesDb;

struct delayedQueue {
    struct queuesDb *of; /* the queues of its database */
    struct mapEntry by_name;
    struct heap *line;       /* `look` is in it: queues that go on, or those that were refused */
    struct heapNode look;    /* when to look at it next, unix ms */
    RedisModuleString *name; /* delaykeysQueueOf its list */
    size_t skipped;    /* the number of first elements that are due and have no value to deliver */
    int64_t again_ms;  /* when these are looked at again */
    int64_t walked_ms; /* when that was begun last; 0: never */
    int64_t retry_ms;  /* how long it waits to be tried again; 0: it was not refused */
    size_t stuck;      /* how many are due and could not be delivered; by queuesSetStuck */
};

/* Says, once at load, what queuesListen is to call. */
void queuesConnect(void (*listen)(RedisModuleCtx *ctx));

/* From now on, at the latest, the module hears what happens to the keys of queues, and of the
 * clock. Called before there is a first queue, and by each command; all but the first call do
 * nothing. */
void queuesListen(RedisModuleCtx *ctx);

/* The number of the queue's database. */
int queuesDbOf(const struct delayedQueue *queue);

/* The queue of this name, or NULL. One comparison when there is none anywhere. */
struct delayedQueue *queuesFind(int db, RedisModuleString *name);

/* Sees to it that the queue is looked at, by the drain, at `at_ms` at the latest; makes the entry
 * if there is none. Allowed in every callback. */
void queuesLookAt(RedisModuleCtx *ctx, int db, RedisModuleString *name, int64_t at_ms);

/* Somebody has changed this key of the database: if it is one of a queue's, looks at that as soon
 * as possible, and at all of it. Allowed in every callback. */
void queuesKeyChanged(RedisModuleCtx *ctx, int db, RedisModuleString *key);

/* While true, events of keys are our own, and are not listened to. */
void queuesOwnChange(bool is_own);

/* What was passed by is to be looked at again, as soon as it is its time: of a few at once, of many
 * not again and again. */
void queuesWalkAgain(struct delayedQueue *queue);

/* Elements have changed places, or all have gone: looks at all of the queue as soon as it may be
 * walked again, which is at once unless many elements have been passed by. */
void queuesLookAnew(RedisModuleCtx *ctx, struct delayedQueue *queue);

/* The queue is to be looked at next at `at_ms`, and not before. */
void queuesPutOff(struct delayedQueue *queue, int64_t at_ms);

/* Likewise; but it was refused, and comes after all that were not. Unseen by tests: thousands of
 * such queues would only make the others late. */
void queuesPutBehind(struct delayedQueue *queue, int64_t at_ms);

/* So many elements are due and could not be delivered. */
void queuesSetStuck(struct delayedQueue *queue, size_t count);

/* Sets the alarm of the drain for the first look. */
void queuesSetAlarm(RedisModuleCtx *ctx);

/* The queue that is to be looked at now, or NULL. */
struct delayedQueue *queuesDue(int64_t now_ms);

void queuesForget(struct delayedQueue *queue);

/* Forgets those of the database of this number, or with -1 all: a flush; a replica's are the master's. In one step,
 * and the drain frees them. Allowed in every callback. */
void queuesForgetAll(RedisModuleCtx *ctx, int number);

/* The drain's part of it, as much as the time slice has time for. */
void queuesFreeForgotten(RedisModuleCtx *ctx);

/* The wall clock has been set. What was put off to a unix time may be due, or would come too late: all
 * queues are looked at. */
void queuesClockStepped(RedisModuleCtx *ctx);

/* Two databases have changed places, and their keys with them. */
void queuesSwapped(int first_db, int second_db);

/* How many queues have elements; how many elements were due and could not be delivered. */
size_t queuesCount(void);
size_t queuesStuck(void);

/* Whether there is memory of any, also of forgotten ones that are still to be freed. */
bool queuesKeepMemory(void);

#endif
