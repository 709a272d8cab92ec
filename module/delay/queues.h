/* The delayed queues that have pending elements: what is known about them in memory, which is when
 * to check each of them next.
 *
 * The elements are in keys (delaykeys.h). An entry exists from the first element to the last, and
 * on a master only: without elements there is no memory.
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
    struct heap *line;       /* the heap with `look`: of going queues, or of refused ones */
    struct heapNode look;    /* when to check it next, unix ms */
    RedisModuleString *name; /* delaykeysQueueOf its list */
    size_t skipped;          /* how many of the first elements are due and have no value */
    int64_t again_ms;        /* when these are checked again */
    int64_t walked_ms;       /* when that was begun last; 0: never */
    int64_t retry_ms;        /* the delay until it is tried again; 0: it was not refused */
    size_t stuck;            /* how many are due and could not be delivered; by queuesSetStuck */
};

/* To be called once, at load: what queuesListen is to call. */
void queuesConnect(void (*listen)(RedisModuleCtx *ctx));

/* Subscribes to the events of queues' keys and to steps of the clock. To be called before there is
 * a first queue, and by each command; all calls but the first do nothing. */
void queuesListen(RedisModuleCtx *ctx);

/* The number of the queue's database. */
int queuesDbOf(const struct delayedQueue *queue);

/* The queue of this name, or NULL. One comparison when there is none anywhere. */
struct delayedQueue *queuesFind(int db, RedisModuleString *name);

/* Has the drain check the queue at `at_ms`, unix ms, at the latest; creates the entry if there is
 * none. Allowed in every callback. */
void queuesLookAt(RedisModuleCtx *ctx, int db, RedisModuleString *name, int64_t at_ms);

/* This key of the database has changed: if it is one of a queue's keys, has all of that queue
 * checked as soon as possible. Allowed in every callback. */
void queuesKeyChanged(RedisModuleCtx *ctx, int db, RedisModuleString *key);

/* While true, events of keys are the module's own and are ignored. */
void queuesOwnChange(bool is_own);

/* Has skipped elements checked again when it is time: a few at once, many not again and again. */
void queuesWalkAgain(struct delayedQueue *queue);

/* Elements have changed places, or all have been removed: has all of the queue checked as soon as
 * it may be walked again, which is at once unless many elements have been skipped. */
void queuesLookAgain(RedisModuleCtx *ctx, struct delayedQueue *queue);

/* Sets that the queue is checked next at `at_ms`, and not before. */
void queuesPutOff(struct delayedQueue *queue, int64_t at_ms);

/* The same for a queue that was refused, which is checked after all that were not. No test notices
 * it: thousands of such queues would only delay the others. */
void queuesPutBehind(struct delayedQueue *queue, int64_t at_ms);

/* Sets how many of its elements are due and could not be delivered. */
void queuesSetStuck(struct delayedQueue *queue, size_t count);

/* Sets the drain's alarm for the earliest check. */
void queuesSetAlarm(RedisModuleCtx *ctx);

/* The queue that is to be checked now, or NULL. */
struct delayedQueue *queuesDue(int64_t now_ms);

/* Removes the entry and frees it. */
void queuesForget(struct delayedQueue *queue);

/* Removes the entries of the database with this number, or with -1 all: after a flush, or on a
 * replica, whose queues are the master's. Takes one step; the drain frees them. Allowed in every
 * callback. */
void queuesForgetAll(RedisModuleCtx *ctx, int number);

/* The drain's job: frees removed entries, as many as the time slice allows. */
void queuesFreeForgotten(RedisModuleCtx *ctx);

/* The wall clock has been set. What was delayed to a unix time may be due, or be checked too late:
 * has all queues checked. */
void queuesClockStepped(RedisModuleCtx *ctx);

/* SWAPDB has exchanged two databases, with their keys. */
void queuesSwapped(int first_db, int second_db);

/* How many queues have elements; how many elements were due and could not be delivered. */
size_t queuesCount(void);
size_t queuesStuck(void);

/* Whether there is memory of any entry, including removed ones that are still to be freed. */
bool queuesKeepMemory(void);

#endif
