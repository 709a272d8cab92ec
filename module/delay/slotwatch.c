/* See slotwatch.h.
 *
 * The node's own slots we ask by CLUSTER NODES. Not by CLUSTER SLOTS, which crashes Valkey 8.0 to 9.0.0 when a
 * timer asks; and the epochs of CLUSTER INFO do not tell: a node that has the largest already needs no new one
 * to be given a slot.
 */
#include "delay/slotwatch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/clusternodes.h"
#include "delay/scan.h"
#include "server/config.h"
#include "server/server.h"

/* How often to look; less often where a look takes long, as with thousands of ranges of slots. */
#define LOOK_MS 250
#define SELDOM_MS 1000

static bool watches;
static struct clusternodesSlots known; /* the slots that were ours at the last look */

static void askSlots(RedisModuleCtx *ctx, struct clusternodesSlots *slots) {
    RedisModuleCallReply *reply = RedisModule_Call(ctx, "CLUSTER", "c", "NODES");
    size_t length = 0;
    const char *text = reply ? RedisModule_CallReplyStringPtr(reply, &length) : NULL;
    clusternodesOwn(text ? text : "", text ? length : 0, slots);
    if (reply) {
        RedisModule_FreeCallReply(reply);
    }
}

/* Learns which slots are ours. Returns whether some have come. */
static bool haveCome(RedisModuleCtx *ctx) {
    struct clusternodesSlots now;
    unsigned new_bits = 0;
    askSlots(ctx, &now);
    for (size_t i = 0; i < sizeof(now.bits); i++) {
        new_bits |= now.bits[i] & ~(unsigned)known.bits[i];
    }
    known = now;
    return new_bits != 0;
}

static int64_t restAfter(uint64_t took_us) {
    uint64_t rest_ms = took_us; /* of which it is a thousandth */
    if (rest_ms < LOOK_MS) {
        return LOOK_MS;
    }
    return rest_ms < SELDOM_MS ? (int64_t)rest_ms : SELDOM_MS;
}

/* A timer that never ends would keep the module from being unloaded where that is allowed. */
static void look(RedisModuleCtx *ctx, void *data) {
    (void)data;
    uint64_t begin_us = RedisModule_MonotonicMicroseconds();
    if (haveCome(ctx)) {
        scanOnceMore(ctx);
    }
    watches = !configAllowUnload();
    if (watches) {
        uint64_t took_us = RedisModule_MonotonicMicroseconds() - begin_us;
        RedisModule_CreateTimer(ctx, restAfter(took_us), look, NULL);
    }
}

void slotwatchBegin(RedisModuleCtx *ctx) {
    if (serverIsCluster() && !watches) {
        watches = true;
        RedisModule_CreateTimer(ctx, LOOK_MS, look, NULL);
    }
}
