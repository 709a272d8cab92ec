/* Failpoints: named points at which a test of the checking build (`make CHECKED=1`) makes something
 * go wrong:
 *
 *   CONFIG SET lock.failpoint "take.written kill"      the server is killed there
 *   CONFIG SET lock.failpoint "drain.lock stop 3"      the server stops the third time that it gets
 *                                                      there, until it receives SIGCONT
 *   CONFIG SET lock.failpoint "consent fail"           the operation at this point fails
 *
 * Only one failpoint is set at a time. It acts once, and after that the setting is empty again. The
 * exception is `open fail`. The key at which it acted stays in use until the setting is changed,
 * and meanwhile the value of the setting is `open in-use`. Other builds have neither failpoints nor
 * the setting.
 *
 * A new failpoint is a call of failpoint(), a value of the enum, and its name in the table of
 * failpoint.c.
 */
#ifndef LOCK_FAILPOINT_H
#define LOCK_FAILPOINT_H

#include <stdbool.h>

#include "redismodule.h"

enum failpoint {
    FAILPOINT_TAKE_BEGUN,    /* a lock is about to be acquired; nothing is written */
    FAILPOINT_TAKE_WRITTEN,  /* the lock's key is written; binding and fencing token are not */
    FAILPOINT_RELEASE_BEGUN, /* a hold is about to be released */
    FAILPOINT_RELEASE_DONE,  /* the hold is released; the lock has not been handed off */
    FAILPOINT_RENEW_BEGUN,   /* a hold bound to a session is about to be renewed */
    FAILPOINT_RENEW_DONE,    /* the hold is renewed; others of the same time slice are not */
    FAILPOINT_EFFECT,        /* a key is changed; the change is not sent to replicas and the AOF */
    FAILPOINT_ANSWER,        /* a waiter has the lock; its client is about to be unblocked */
    FAILPOINT_REPLY,         /* the reply to a client that waited is about to be written */
    FAILPOINT_DRAIN_BEGUN,   /* the drain begins */
    FAILPOINT_DRAIN_LOCK,    /* the drain is about to check a lock that is due */
    FAILPOINT_MULTIKEY_BETWEEN, /* one of several locks is acquired, the next is not */
    FAILPOINT_FAIR_BETWEEN,     /* a position's ticket is written, its end is not */
    FAILPOINT_DELIVER_BEGUN,    /* due elements are about to be pushed to their list */
    FAILPOINT_DELIVER_PUSHED, /* the elements are pushed, and are still in the keys of the queue */
    FAILPOINT_CONSENT,        /* can fail: the query whether the server would accept a write */
    FAILPOINT_BLOCK,          /* can fail: the blocking of a client */
    FAILPOINT_OPEN, /* can fail: the first opening of a key to write since the failpoint was set */
    FAILPOINT_COUNT
};

#ifdef CHECKED

/* Performs the action that a test has set for this point, if there is one. Returns whether the
 * operation at this point is to fail. */
bool failpoint(enum failpoint point);

/* FAILPOINT_OPEN for the key `name` in the selected database. Returns whether the key is to count
 * as in use. Each key is counted once, because a key that a server uses in the background is in use
 * at every access. */
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
