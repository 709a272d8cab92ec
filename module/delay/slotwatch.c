/* See slotwatch.h.
 *
 * The node's own slots are read from CLUSTER NODES. Not from CLUSTER SLOTS, which crashes Valkey
 * 8.0 to 9.0.0 when a timer calls it. The epochs of CLUSTER INFO are no sign: a node that has the
 * largest one already is given a slot without a new one.
 */
#include "delay/slotwatch.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/config.h"
#include "core/clusternodes.h"
#include "delay/scan.h"
#include "server/server.h"
#include "server/timer.h"

/* Not often, because MONITOR shows each query; but often enough for queues to be found within two
 * seconds. */
#define LOOK_MS 500

/* If more slots arrive at once, or more keys, all keys are scanned, in time slices. */
#define MOST_SLOTS 64
#define MOST_KEYS 1000

static struct timer timer;
static struct clusternodesSlots known; /* this node's slots at the last query */

static void askSlots(RedisModuleCtx *ctx, struct clusternodesSlots *slots) {
    RedisModuleCallReply *reply = RedisModule_Call(ctx, "CLUSTER", "c", "NODES");
    size_t length = 0;
    const char *text = reply ? RedisModule_CallReplyStringPtr(reply, &length) : NULL;
    clusternodesOwn(text ? text : "", text ? length : 0, slots);
    if (reply) {
        RedisModule_FreeCallReply(reply);
    }
}

/* Has the queues among the keys of a slot checked, for at most `most` keys. Returns for how
 * many. */
static size_t meetKeys(RedisModuleCtx *ctx, int db, size_t slot, size_t most) {
    RedisModuleCallReply *reply =
        RedisModule_Call(ctx, "CLUSTER", "cll", "GETKEYSINSLOT", (long long)slot, (long long)most);
    size_t count = reply ? scanMeetKeys(ctx, db, reply) : 0;
    if (reply) {
        RedisModule_FreeCallReply(reply);
    }
    return count;
}

/* How many more slots and keys one query may check. Most slots arrive alone, with a thousandth of
 * the keys. */
struct come {
    size_t slots, keys;
};

/* Checks the keys of a slot in all databases, as far as `left` allows. An empty database is
 * skipped: on most servers only the first exists in a cluster, and GETKEYSINSLOT returns the keys
 * of that one in any. */
static void hasCome(RedisModuleCtx *ctx, size_t slot, struct come *left) {
    if (left->slots == 0 || left->keys == 0) {
        return;
    }
    left->slots--;
    for (int db = 0; left->keys > 0 && RedisModule_SelectDb(ctx, db) == REDISMODULE_OK; db++) {
        left->keys -= RedisModule_DbSize(ctx) > 0 ? meetKeys(ctx, db, slot, left->keys) : 0;
    }
}

/* Queries which slots are this node's, and has the queues in the new ones found. */
static void slotwatchLookAtSlots(RedisModuleCtx *ctx) {
    struct clusternodesSlots before = known;
    struct come left = {MOST_SLOTS, MOST_KEYS};
    askSlots(ctx, &known);
    for (size_t slot = 0; slot < 8 * sizeof(known.bits); slot++) {
        unsigned bit = 1U << (slot % 8);
        if (known.bits[slot / 8] & ~before.bits[slot / 8] & bit) {
            hasCome(ctx, slot, &left);
        }
    }
    if (left.slots == 0 || left.keys == 0) {
        scanOnceMore(ctx);
    }
}

/* A timer that is set again without end would keep the module from being unloaded, where that is
 * allowed. */
static void slotwatchLook(RedisModuleCtx *ctx, struct timer *timer_that_rang);

static void lookLater(RedisModuleCtx *ctx) {
    timerSet(ctx, &timer, timerAfter(LOOK_MS), slotwatchLook);
}

static void slotwatchLook(RedisModuleCtx *ctx, struct timer *timer_that_rang) {
    (void)timer_that_rang;
    slotwatchLookAtSlots(ctx);
    if (!configAllowUnload()) {
        lookLater(ctx);
    }
}

void slotwatchBegin(RedisModuleCtx *ctx) {
    if (serverIsCluster() && !timer.is_set) {
        lookLater(ctx);
    }
}
