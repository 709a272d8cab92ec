/* See scan.h. */
#include "delay/scan.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "blocking/drain.h"
#include "delay/queues.h"
#include "keys/delaykeys.h"
#include "server/timeslice.h"

/* The clock is read once for this many keys, about 100 µs. Redis 7.0 scans about 1,000 in a ms. */
#define KEYS_A_LOOK 200

#define FIRST "0"

static struct {
    bool is_running;
    bool restarts;  /* with the next step: the cause may be a key of this one */
    bool once_more; /* another scan when this one has ended */
    int db;
    char cursor[24]; /* of SCAN */
} scan;

bool scanIsRunning(void) {
    return scan.is_running;
}

void scanBegin(RedisModuleCtx *ctx) {
    scan.is_running = true;
    scan.restarts = true;
    drainSetAlarm(ctx, DRAIN_SCAN, 0);
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
    scan.is_running = scan.once_more = false;
    queuesForgetAll(ctx, -1);
    queuesFreeForgotten(ctx);
}

static void meetKey(RedisModuleCtx *ctx, int db, RedisModuleString *name) {
    if (delaykeysKindOf(name) != DELAYKEYS_DUE) {
        return;
    }
    RedisModuleString *queue = delaykeysQueueOfKey(ctx, name);
    if (queue) {
        queuesLookAt(ctx, db, queue, 0);
        RedisModule_FreeString(ctx, queue);
    }
}

size_t scanMeetKeys(RedisModuleCtx *ctx, int db, RedisModuleCallReply *names) {
    bool is_array = RedisModule_CallReplyType(names) == REDISMODULE_REPLY_ARRAY;
    size_t count = is_array ? RedisModule_CallReplyLength(names) : 0;
    for (size_t i = 0; i < count; i++) {
        RedisModuleString *name =
            RedisModule_CreateStringFromCallReply(RedisModule_CallReplyArrayElement(names, i));
        meetKey(ctx, db, name);
        RedisModule_FreeString(ctx, name);
    }
    return count;
}

/* Reads the reply of SCAN: the next cursor, and keys. Returns false if it is something else. */
static bool scanTake(RedisModuleCtx *ctx, RedisModuleCallReply *reply) {
    RedisModuleCallReply *keys = reply ? RedisModule_CallReplyArrayElement(reply, 1) : NULL;
    if (!keys) {
        return false;
    }
    size_t length;
    const char *cursor =
        RedisModule_CallReplyStringPtr(RedisModule_CallReplyArrayElement(reply, 0), &length);
    snprintf(scan.cursor, sizeof(scan.cursor), "%.*s", (int)length, cursor);
    scanMeetKeys(ctx, scan.db, keys);
    return true;
}

/* Scans some keys. Returns whether there may be more. */
static bool step(RedisModuleCtx *ctx) {
    if (RedisModule_SelectDb(ctx, scan.db) != REDISMODULE_OK) {
        return false;
    }
    RedisModuleCallReply *reply =
        RedisModule_Call(ctx, "SCAN", "ccccl", scan.cursor, "MATCH", DELAYKEYS_DUE_PATTERN, "COUNT",
                         (long long)KEYS_A_LOOK);
    bool walked = scanTake(ctx, reply);
    if (reply) {
        RedisModule_FreeCallReply(reply);
    }
    if (!walked) {
        RedisModule_Log(
            ctx, REDISMODULE_LOGLEVEL_WARNING,
            "SCAN is refused, so delayed queues from before the start are found only by "
            "the next DELAY.PUSH to their list");
        return false;
    }
    if (strcmp(scan.cursor, FIRST) == 0) {
        scan.db++;
    }
    return true;
}

static void scanStart(void) {
    scan.restarts = scan.once_more = false;
    scan.db = 0;
    strcpy(scan.cursor, FIRST);
}

/* As many keys as the time slice allows, and some even if locks have used it up. Without pauses: a
 * million keys are to be scanned within two seconds, and between any two drains the server serves
 * other clients. */
void scanGoOn(RedisModuleCtx *ctx, int64_t now_ms) {
    (void)now_ms;
    if (!scan.is_running) {
        return;
    }
    if (scan.restarts) {
        scanStart();
    }
    bool continues = step(ctx);
    while (continues && !timesliceHasEndedByClock()) {
        continues = step(ctx);
    }
    if (!continues && scan.once_more) {
        scan.restarts = true;
    }
    scan.is_running = continues || scan.restarts;
    if (scan.is_running) {
        drainSetAlarm(ctx, DRAIN_SCAN, 0);
    }
}
