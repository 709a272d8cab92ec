/* A waiter: a request that waits for one lock or for several. Waits begin and end in waiters.c. */
#ifndef LOCK_WAITER_H
#define LOCK_WAITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "blocking/blocked.h"
#include "core/list.h"
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
    uint64_t number;       /* higher for a later waiter */
    struct request wants;  /* the owner is the waiter's own string */
    struct blocked client; /* without one: detached; its deadline ends the reservation */
    int64_t since_ms;
    int64_t began_us;      /* monotonic, for toplocks.c; 0 while there is no client */
    uint64_t search_at_us; /* when to search for a cycle from a newcomer, monotonic */
    int64_t ticket;        /* FAIR only; 0: none yet */
    struct link note;      /* in the lock's `fair.unwritten` */
    int db;
    bool over;         /* out of its queue; only its position in the keys is still to be removed */
    bool noted;        /* it is in the lock's `fair.unwritten` */
    bool placed;       /* FAIR only: the keys have its ticket */
    size_t key_count;  /* in how many of its keys' queues it is, or has been */
    size_t in_the_way; /* the number of the key that did not fit the last time; see multikey.c */
    struct waiterKey keys[];
};

/* The waiter whose position this is. */
struct waiter *waiterOfPosition(struct position *position);

/* Frees a waiter that nothing refers to any more. */
void waiterFree(struct waiter *waiter);

#endif
