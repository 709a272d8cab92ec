/* A waiter: a request that waits for one lock or for several. Waits begin and end in waiters.c. */
#ifndef LOCK_WAITER_H
#define LOCK_WAITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocking/blocked.h"
#include "core/list.h"
#include "core/mem.h"
#include "core/waitqueue.h"
#include "redismodule.h"
#include "waits/request.h"

/* One key that a waiter waits for. */
struct waiterKey {
    struct position position;
    RedisModuleString *name;
};

struct waiter {
    struct waitRequest request;
    uint64_t number;      /* higher for a later waiter; for cancelled.c */
    struct request wants; /* the owner is the waiter's own string */
    /* Without a client the waiter is detached, and the deadline ends the reservation. */
    struct blocked client;
    int64_t since_ms;      /* when it began to wait, unix time */
    int64_t began_us;      /* monotonic, for toplocks.c; 0 while there is no client */
    uint64_t search_at_us; /* when to search for a cycle from a newcomer, monotonic */
    int64_t ticket;        /* FAIR only; 0 if it has none yet */
    struct link note;      /* in the lock's `fair.unwritten` */
    int db;
    bool over;        /* removed from its queue; its position must still be removed from the keys */
    bool noted;       /* it is in the lock's `fair.unwritten` */
    bool placed;      /* FAIR only: the keys contain its ticket */
    size_t key_count; /* the number of keys in whose queues it is, or has been */
    size_t in_the_way; /* the index of the key that did not fit at the last check (multikey.c) */
    struct waiterKey keys[];
};

/* The waiter whose position this is. */
static inline struct waiter *waiterOfPosition(struct position *position) {
    return LIST_ELEMENT(position->request, struct waiter, request);
}

/* Frees a waiter. Nothing may refer to it any more. */
static inline void waiterFree(struct waiter *waiter) {
    for (size_t i = 0; i < waiter->key_count; i++) {
        RedisModule_FreeString(NULL, waiter->keys[i].name);
    }
    RedisModule_FreeString(NULL, waiter->wants.owner);
    memFree(waiter);
}

#endif
