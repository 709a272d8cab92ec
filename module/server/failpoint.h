/* Named points at which a test of the checking build (`make CHECKED=1`) makes something go wrong:
 *
 *   CONFIG SET lock.failpoint "take.written kill"      the server is killed there
 *   CONFIG SET lock.failpoint "drain.lock stop 3"      the third time that it comes there, it stops,
 *                                                      until it gets SIGCONT
 *   CONFIG SET lock.failpoint "consent fail"           what is done there fails
 *
 * One is set at a time, and what happens there happens once: then the config is empty again. But a
 * key at which `open fail` has happened is in use until the config is set anew; `open in-use` is
 * what can be read there meanwhile. In any other build there are neither points nor the config.
 *
 * A new point is a call of failpoint() and its name in the table of failpoint.c.
 */
#ifndef LOCK_FAILPOINT_H
#define LOCK_FAILPOINT_H

#include <stdbool.h>

#include "redismodule.h"

enum failpoint {
    FAILPOINT_TAKE_BEGUN,       /* a lock is about to be taken: nothing is written */
    FAILPOINT_TAKE_WRITTEN,     /* its key says so; binding and fencing token do not */
    FAILPOINT_RELEASE_BEGUN,    /* a hold is about to be released */
    FAILPOINT_RELEASE_DONE,     /* it has been; the lock has not been handed off */
    FAILPOINT_RENEW_BEGUN,      /* a bound hold is about to be renewed */
    FAILPOINT_RENEW_DONE,       /* it has been, and others of the same turn have not */
    FAILPOINT_EFFECT,           /* a key is changed; replicas and the AOF have not been told */
    FAILPOINT_ANSWER,           /* a waiter has the lock; its client is about to be unblocked */
    FAILPOINT_REPLY,            /* the answer of a client that waited is about to be written */
    FAILPOINT_DRAIN_BEGUN,      /* the drain begins */
    FAILPOINT_DRAIN_LOCK,       /* it has come to a lock that is due */
    FAILPOINT_MULTIKEY_BETWEEN, /* one of several locks has been taken, the next has not */
    FAILPOINT_FAIR_BETWEEN,     /* a position's ticket is written, its end is not */
    FAILPOINT_DELIVER_BEGUN,    /* due elements are about to be pushed to their list */
    FAILPOINT_DELIVER_PUSHED,   /* they have been; they are still in the keys of the queue */
    FAILPOINT_CONSENT,          /* can fail: the server is asked whether it would take a write */
    FAILPOINT_BLOCK,            /* can fail: the client is about to be blocked */
    FAILPOINT_OPEN, /* can fail: a key that was not opened to be written to since it was set is */
    FAILPOINT_COUNT
};

#ifdef CHECKED

/* Does what a test wants here, if anything. Returns whether what the point stands for is to fail. */
bool failpoint(enum failpoint point);

/* FAILPOINT_OPEN, of the key `name` in the selected database. Counts keys, each once: what a server
 * uses in the background it uses all the time, not each second time. */
bool failpointKeyIsInUse(RedisModuleCtx *ctx, RedisModuleString *name);

/* Registers the config. Returns REDISMODULE_OK or REDISMODULE_ERR. */
int failpointRegister(RedisModuleCtx *ctx);

#else

static inline bool failpoint(enum failpoint point) {
    (void)point;
    return false;
}

static inline bool failpointKeyIsInUse(RedisModuleCtx *ctx, RedisModuleString *name) {
    (void)ctx, (void)name;
    return false;
}

static inline int failpointRegister(RedisModuleCtx *ctx) {
    (void)ctx;
    return REDISMODULE_OK;
}

#endif

#endif
