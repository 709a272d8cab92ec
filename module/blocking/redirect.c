/* See redirect.h.
 *
 * The node that serves a slot is read from CLUSTER NODES. Not from CLUSTER SLOTS, which crashes
 * Valkey 8.0 to 9.0.0 when a timer calls it.
 */
#include "blocking/redirect.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "common/reply.h"
#include "core/clusternodes.h"
#include "core/keyslot.h"

static int redirectSlotOf(RedisModuleString *name) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(name, &length);
    return keyslotOf(bytes, length);
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

/* What has been found since redirectForget: the text that the routes are read from, and the last
 * route. */
static struct {
    RedisModuleCallReply *nodes; /* NULL: not queried yet, or no reply */
    enum clusternodesName name;
    int slot;                 /* of `error`; -1: none */
    RedisModuleString *error; /* NULL: cannot be determined */
} found = {.slot = -1};

bool redirect_has_asked;

static void forgetRoute(void) {
    found.slot = -1;
    if (found.error) {
        RedisModule_FreeString(NULL, found.error);
        found.error = NULL;
    }
}

void redirectForgetAll(void) {
    forgetRoute();
    if (found.nodes) {
        RedisModule_FreeCallReply(found.nodes);
        found.nodes = NULL;
    }
    redirect_has_asked = false;
}

static void askOnce(RedisModuleCtx *ctx) {
    if (!redirect_has_asked) {
        found.nodes = RedisModule_Call(ctx, "CLUSTER", "c", "NODES");
        found.name = preferredName(ctx);
        redirect_has_asked = true;
    }
}

static RedisModuleString *errorOf(const struct clusternodesRoute *route, int slot) {
    const struct clusternodesPiece *host = &route->host, *port = &route->port;
    RedisModuleString *address = RedisModule_CreateStringPrintf(
        NULL, "%.*s:%.*s", (int)host->length, host->at, (int)port->length, port->at);
    RedisModuleString *error =
        replyMakeRedirection(route->asks, slot, RedisModule_StringPtrLen(address, NULL));
    RedisModule_FreeString(NULL, address);
    return error;
}

/* Many keys of one slot follow each other: what was found for the last one is kept. */
static void findRoute(RedisModuleCtx *ctx, int slot) {
    if (slot == found.slot) {
        return;
    }
    askOnce(ctx);
    forgetRoute();
    size_t length = 0;
    const char *text = found.nodes ? RedisModule_CallReplyStringPtr(found.nodes, &length) : NULL;
    const struct clusternodesRoute route =
        clusternodesFind(text ? text : "", text ? length : 0, slot, found.name);
    found.slot = slot;
    if (route.port.length > 0) {
        found.error = errorOf(&route, slot);
    }
}

RedisModuleString *redirectFind(RedisModuleCtx *ctx, RedisModuleString *name) {
    findRoute(ctx, redirectSlotOf(name));
    return found.error;
}
