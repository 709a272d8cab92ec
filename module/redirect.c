/* See redirect.h.
 *
 * Where a slot is we ask by CLUSTER NODES. Not by CLUSTER SLOTS, which crashes Valkey 8.0 to 9.0.0
 * when a timer asks.
 */
#include "redirect.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "clusternodes.h"
#include "waiters.h"

static int slotOf(RedisModuleCtx *ctx, RedisModuleString *name) {
    RedisModuleCallReply *reply = RedisModule_Call(ctx, "CLUSTER", "cs", "KEYSLOT", name);
    if (!reply) {
        return -1;
    }
    long long slot = RedisModule_CallReplyInteger(reply);
    RedisModule_FreeCallReply(reply);
    return (int)slot;
}

static bool isText(RedisModuleCallReply *reply, const char *text) {
    size_t length;
    const char *bytes = RedisModule_CallReplyStringPtr(reply, &length);
    return bytes && length == strlen(text) && memcmp(bytes, text, length) == 0;
}

/* The name that the server would use in a redirection of its own. */
static enum clusternodesName preferredName(RedisModuleCtx *ctx) {
    enum clusternodesName name = CLUSTERNODES_IP;
    RedisModuleCallReply *reply =
        RedisModule_Call(ctx, "CONFIG", "cc", "GET", "cluster-preferred-endpoint-type");
    RedisModuleCallReply *value = reply ? RedisModule_CallReplyArrayElement(reply, 1) : NULL;
    if (value && isText(value, "hostname")) {
        name = CLUSTERNODES_HOSTNAME;
    } else if (value && isText(value, "unknown-endpoint")) {
        name = CLUSTERNODES_NO_NAME;
    }
    if (reply) {
        RedisModule_FreeCallReply(reply);
    }
    return name;
}

static struct clusternodesRoute findRoute(RedisModuleCtx *ctx, RedisModuleCallReply *nodes,
                                          int slot) {
    size_t length = 0;
    const char *text = nodes ? RedisModule_CallReplyStringPtr(nodes, &length) : NULL;
    return clusternodesFind(text ? text : "", text ? length : 0, slot, preferredName(ctx));
}

/* As it stands in an error reply; NULL if nobody knows. */
static RedisModuleString *addressOf(RedisModuleCtx *ctx, const struct clusternodesRoute *route) {
    if (route->port.length == 0) {
        return NULL;
    }
    return RedisModule_CreateStringPrintf(ctx, "%.*s:%.*s", (int)route->host.length, route->host.at,
                                          (int)route->port.length, route->port.at);
}

static void endWaits(RedisModuleCtx *ctx, struct lock *lock, const struct clusternodesRoute *route,
                     int slot) {
    RedisModuleString *address = addressOf(ctx, route);
    size_t length = 0;
    const char *bytes = address ? RedisModule_StringPtrLen(address, &length) : NULL;
    struct place *place;
    while ((place = waitqueueFirst(&lock->queue))) {
        struct waiter *waiter = waitersOfPlace(place);
        if (bytes) {
            waitersEndRedirected(ctx, waiter, route->asks, slot, bytes, length);
        } else {
            waitersEnd(ctx, waiter, WAITERS_TRY_AGAIN);
        }
    }
    if (address) {
        RedisModule_FreeString(ctx, address);
    }
}

void redirectWaiters(RedisModuleCtx *ctx, struct lock *lock) {
    int slot = slotOf(ctx, lock->name);
    RedisModuleCallReply *nodes = RedisModule_Call(ctx, "CLUSTER", "c", "NODES");
    struct clusternodesRoute route = findRoute(ctx, nodes, slot);
    contendedUse(lock);
    endWaits(ctx, lock, &route, slot);
    waitersForgetUnwritten(lock);
    contendedClearDue(lock);
    contendedEndUse(ctx, lock);
    if (nodes) {
        RedisModule_FreeCallReply(nodes);
    }
}
