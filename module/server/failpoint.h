/* Failpoints: named points at which a test of the checking build (`make CHECKED=1`) makes something
 * go wrong:
 *
 *   CONFIG SET lock.failpoint "take.written kill"      the server is killed there
 *   CONFIG SET lock.failpoint "drain.lock stop 3"      the third time that it gets there, it stops,
 *                                                      until it receives SIGCONT
 *   CONFIG SET lock.failpoint "consent fail"           what is done there fails
 *
 * One failpoint is set at a time, and it acts once: then the setting is empty again. The exception
 * is `open fail`: the key at which it acted stays in use until the setting is changed. Meanwhile
 * the setting reads `open in-use`. Other builds have neither failpoints nor the setting.
 *
 * A new failpoint is a call of failpoint(), a value of the enum, and its name in the table of
 * failpoint.c.
 */
#ifndef LOCK_FAILPOINT_H
#define LOCK_FAILPOINT_H

#include <stdbool.h>

#include "redismodule.h"

enum failpoint {
    FAILPOINT_TAKE_BEGUN,    /* a lock is about to be taken: nothing is written */
    FAILPOINT_TAKE_WRITTEN,  /* its key is written; binding and fencing token are not */
    FAILPOINT_RELEASE_BEGUN, /* a hold is about to be released */
    FAILPOINT_RELEASE_DONE,  /* it has been released; the lock has not been handed off */
    FAILPOINT_RENEW_BEGUN,   /* a hold bound to a session is about to be renewed */
    FAILPOINT_RENEW_DONE,    /* it has been renewed; others of the same time slice have not */
    FAILPOINT_EFFECT,        /* a key is changed; that has not been sent to replicas and the AOF */
    FAILPOINT_ANSWER,        /* a waiter has the lock; its client is about to be unblocked */
    FAILPOINT_REPLY,         /* the reply to a client that waited is about to be written */
    FAILPOINT_DRAIN_BEGUN,   /* the drain begins */
    FAILPOINT_DRAIN_LOCK,    /* it has come to a lock that is due */
    FAILPOINT_MULTIKEY_BETWEEN, /* one of several locks has been taken, the next has not */
    FAILPOINT_FAIR_BETWEEN,     /* a position's ticket is written, its end is not */
    FAILPOINT_DELIVER_BEGUN,    /* due elements are about to be pushed to their list */
    FAILPOINT_DELIVER_PUSHED,   /* they have been pushed; they are still in the keys of the queue */
    FAILPOINT_CONSENT,          /* can fail: the server is asked whether it would accept a write */
    FAILPOINT_BLOCK,            /* can fail: the client is about to be blocked */
    FAILPOINT_OPEN, /* can fail: a key is opened to write, for the first time since this was set */
    FAILPOINT_COUNT
};

#ifdef CHECKED

/* Does what a test has set for this point, if anything. Returns whether the operation at the point
 * is to fail. */
bool failpoint(enum failpoint point);

/* FAILPOINT_OPEN for the key `name` in the selected database: whether the key counts as in use.
 * Counts each key once: a key that a server uses in the background is in use at every access, not
 * at every second one. */
bool failpointKeyIsInUse(RedisModuleCtx *ctx, RedisModuleString *name);

/* Registers the setting. Returns REDISMODULE_OK or REDISMODULE_ERR. */
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
