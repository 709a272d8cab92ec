/* LOCK.MACQUIRE and LOCK.MRELEASE: several locks of one owner, all or none.
 *
 * Both work in the selected database of `ctx`. A name that is given twice is one lock.
 */
#ifndef LOCK_SEVERAL_H
#define LOCK_SEVERAL_H

#include <stddef.h>
#include <stdint.h>

#include "grant/grantresult.h"
#include "grant/take.h"
#include "redismodule.h"

struct severalNames {
    RedisModuleString **names;
    size_t count;
};

struct severalRequest {
    struct severalNames locks;
    struct take take; /* exclusive */
    int64_t block_ms; /* QUEUEING_NO_WAIT, or how long it waits: 0 = for ever */
    int64_t now_ms;
};

/* Acquires all, or begins to wait for all. On GRANT_DONE `count` is the number of locks. Every
 * result but GRANT_DONE and GRANT_WAITING leaves everything as it was. */
enum grantResult severalAcquire(RedisModuleCtx *ctx, const struct severalRequest *request,
                                struct grantOutcome *outcome);

/* Releases one hold of each, and then hands on what has become free. GRANT_DONE (`count`: how
 * many the owner holds no more in that mode); or GRANT_NOT_HELD: it lacks one of them;
 * GRANT_BOTH_MODES or GRANT_WRONG_TYPE: then nothing is changed. */
enum grantResult severalRelease(RedisModuleCtx *ctx, const struct severalNames *locks,
                                RedisModuleString *owner, int64_t now_ms,
                                struct grantOutcome *outcome);

#endif
