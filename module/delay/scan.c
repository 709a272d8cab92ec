/* See scan.h. */
#include "delay/scan.h"

#include <stddef.h>

#include "blocking/drain.h"
#include "core/list.h"
#include "core/mem.h"
#include "delay/queues.h"
#include "keys/delaykeys.h"

/* So long a slice takes, and so long others may speak then: a third of the time. */
#define SLICE_US 400
#define PAUSE_MS 1

/* One look at the clock for so many buckets. */
#define BUCKETS_A_LOOK 32

static struct {
    bool is_running;
    bool begins_anew; /* with the next slice: it may be a key of this one that asked for it */
    bool once_more;   /* another one, when this is over */
    int db;
    RedisModuleScanCursor *cursor;
} scan;

bool scanIsRunning(void) {
    return scan.is_running;
}

static void stop(void) {
    if (scan.cursor) {
        RedisModule_ScanCursorDestroy(scan.cursor);
        scan.cursor = NULL;
    }
    scan.is_running = false;
}

void scanBegin(RedisModuleCtx *ctx) {
    scan.is_running = true;
    scan.begins_anew = true;
    drainSetAlarm(ctx, 0);
}

void scanSwapped(RedisModuleCtx *ctx) {
    if (scan.is_running) {
        scanBegin(ctx);
    }
}

void scanOnceMore(RedisModuleCtx *ctx) {
    if (scan.is_running) {
        scan.once_more = true;
    } else {
        scanBegin(ctx);
    }
}

void scanForget(RedisModuleCtx *ctx) {
    (void)ctx;
    stop();
    scan.once_more = false;
    queuesForgetAll(-1);
}

void scanMeetKey(RedisModuleCtx *ctx, int db, RedisModuleString *name) {
    if (delaykeysKindOf(name) != DELAYKEYS_DUE) {
        return;
    }
    RedisModuleString *queue = delaykeysQueueOfKey(ctx, name);
    if (queue) {
        queuesLookAt(ctx, db, queue, 0);
        RedisModule_FreeString(ctx, queue);
    }
}

static void onKey(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleKey *key, void *data) {
    (void)key, (void)data;
    scanMeetKey(ctx, scan.db, name);
}

/* Walks the next bucket. Returns whether there may be more. */
static bool step(RedisModuleCtx *ctx) {
    if (!scan.cursor) {
        if (RedisModule_SelectDb(ctx, scan.db) != REDISMODULE_OK) {
            return false;
        }
        scan.cursor = RedisModule_ScanCursorCreate();
    }
    if (!RedisModule_Scan(ctx, scan.cursor, onKey, NULL)) {
        RedisModule_ScanCursorDestroy(scan.cursor);
        scan.cursor = NULL;
        scan.db++;
    }
    return true;
}

void scanGoOn(RedisModuleCtx *ctx, int64_t now_ms) {
    (void)now_ms;
    if (!scan.is_running) {
        return;
    }
    if (scan.begins_anew) {
        stop();
        scan.is_running = true;
        scan.begins_anew = scan.once_more = false;
        scan.db = 0;
    }
    RedisModule_SelectDb(ctx, scan.db);
    uint64_t end_us = RedisModule_MonotonicMicroseconds() + SLICE_US;
    bool goes_on = true;
    for (size_t i = 1; goes_on; i++) {
        goes_on = step(ctx);
        if (i % BUCKETS_A_LOOK == 0 && RedisModule_MonotonicMicroseconds() >= end_us) {
            break;
        }
    }
    if (!goes_on && scan.once_more) {
        scan.begins_anew = true;
    }
    if (goes_on || scan.begins_anew) {
        drainSetAlarm(ctx, PAUSE_MS);
    } else {
        stop();
    }
}
