/* See slotwatch.h. */
#include "delay/slotwatch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "delay/scan.h"
#include "server/config.h"
#include "server/server.h"

#define LOOK_MS 250

static bool watches;
static int64_t known_epoch;

/* The number behind `field` in the text, or 0. */
static int64_t numberOf(const char *text, size_t length, const char *field) {
    size_t field_length = strlen(field);
    for (size_t i = 0; i + field_length < length; i++) {
        if (memcmp(text + i, field, field_length) == 0) {
            int64_t number = 0;
            for (i += field_length; i < length && text[i] >= '0' && text[i] <= '9'; i++) {
                number = number * 10 + (text[i] - '0');
            }
            return number;
        }
    }
    return 0;
}

static int64_t askEpoch(RedisModuleCtx *ctx) {
    RedisModuleCallReply *reply = RedisModule_Call(ctx, "CLUSTER", "c", "INFO");
    if (!reply) {
        return 0;
    }
    size_t length = 0;
    const char *text = RedisModule_CallReplyStringPtr(reply, &length);
    int64_t epoch = text ? numberOf(text, length, "cluster_current_epoch:") : 0;
    RedisModule_FreeCallReply(reply);
    return epoch;
}

/* A timer that never ends would keep the module from being unloaded where that is allowed. */
static void look(RedisModuleCtx *ctx, void *data) {
    (void)data;
    int64_t epoch = askEpoch(ctx);
    if (epoch != known_epoch) {
        known_epoch = epoch;
        scanBegin(ctx);
    }
    watches = !configAllowUnload();
    if (watches) {
        RedisModule_CreateTimer(ctx, LOOK_MS, look, NULL);
    }
}

void slotwatchBegin(RedisModuleCtx *ctx) {
    if (serverIsCluster() && !watches) {
        watches = true;
        RedisModule_CreateTimer(ctx, LOOK_MS, look, NULL);
    }
}
