/* See redirect.h.
 *
 * Where a slot is we read from CLUSTER NODES, one line a node:
 *
 *   id ip:port@busport[,hostname] flags master ping pong epoch link slot slot …
 *
 * with the node's slots as `n`, `first-last` and, on its own line only, `[n->-id]` for one that it
 * gives away. Not from CLUSTER SLOTS, which crashes Valkey 8.0 to 9.0.0 when a timer asks.
 */
#include "redirect.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "waiters.h"

#define WORDS_BEFORE_SLOTS 8

/* A piece of a text that we do not own. */
struct piece {
    const char *at;
    size_t length;
};

/* Cuts what comes before the next `separator` off `rest`. Returns false when nothing is left. */
static bool cut(struct piece *rest, char separator, struct piece *piece) {
    if (rest->length == 0) {
        return false;
    }
    const char *end = memchr(rest->at, separator, rest->length);
    piece->at = rest->at;
    piece->length = end ? (size_t)(end - rest->at) : rest->length;
    size_t used = piece->length + (end ? 1 : 0);
    rest->at += used;
    rest->length -= used;
    return true;
}

static bool contains(struct piece piece, const char *word) {
    size_t length = strlen(word);
    for (size_t i = 0; i + length <= piece.length; i++) {
        if (memcmp(piece.at + i, word, length) == 0) {
            return true;
        }
    }
    return false;
}

static bool equal(struct piece one, struct piece other) {
    return one.length == other.length && one.length > 0 &&
           memcmp(one.at, other.at, one.length) == 0;
}

struct node {
    struct piece id, address, flags, slots;
};

static bool readNode(struct piece *text, struct node *node) {
    struct piece line, words[WORDS_BEFORE_SLOTS];
    if (!cut(text, '\n', &line)) {
        return false;
    }
    *node = (struct node){0};
    for (int i = 0; i < WORDS_BEFORE_SLOTS; i++) {
        if (!cut(&line, ' ', &words[i])) {
            return true; /* no line that we can read: a node without anything */
        }
    }
    *node = (struct node){words[0], words[1], words[2], line};
    return true;
}

/* Whether the node serves the slot. If it gives it away, `target` is the id of the node that gets
 * it. */
static bool serves(const struct node *node, int slot, struct piece *target) {
    struct piece slots = node->slots, word;
    bool found = false;
    *target = (struct piece){0};
    while (cut(&slots, ' ', &word)) {
        bool moves = word.at[0] == '[';
        char *end;
        long first = strtol(word.at + moves, &end, 10);
        long last = *end == '-' && !moves ? strtol(end + 1, NULL, 10) : first;
        if (slot < first || slot > last) {
            continue;
        }
        if (!moves) {
            found = true;
        } else if (strncmp(end, "->-", 3) == 0) {
            *target = (struct piece){end + 3, word.length - (size_t)(end + 3 - word.at) - 1};
        }
    }
    return found;
}

/* "ip:port@busport,hostname" as "ip:port"; nothing if the address is not known. */
static struct piece publicAddress(const struct node *node) {
    struct piece rest = node->address, address = {0};
    cut(&rest, '@', &address);
    return address.length > 0 && address.at[0] != ':' ? address : (struct piece){0};
}

struct route {
    bool asks; /* ASK rather than MOVED */
    struct piece address;
};

static struct piece addressOf(struct piece text, struct piece id) {
    struct node node;
    while (readNode(&text, &node)) {
        if (equal(node.id, id)) {
            return publicAddress(&node);
        }
    }
    return (struct piece){0};
}

/* Where to send those who wait for a lock in this slot; without an address when nobody knows. */
static struct route findRoute(struct piece text, int slot) {
    struct piece rest = text, target;
    struct node node;
    while (readNode(&rest, &node)) {
        if (!serves(&node, slot, &target)) {
            continue;
        }
        if (!contains(node.flags, "myself")) {
            return (struct route){false, publicAddress(&node)};
        }
        /* Still ours: it is the key that has moved ahead. */
        return (struct route){true, addressOf(text, target)};
    }
    return (struct route){0};
}

static int slotOf(RedisModuleCtx *ctx, RedisModuleString *name) {
    RedisModuleCallReply *reply = RedisModule_Call(ctx, "CLUSTER", "cs", "KEYSLOT", name);
    if (!reply) {
        return -1;
    }
    long long slot = RedisModule_CallReplyInteger(reply);
    RedisModule_FreeCallReply(reply);
    return (int)slot;
}

static void endWaits(RedisModuleCtx *ctx, struct lock *lock, const struct route *route, int slot) {
    struct place *place;
    while ((place = waitqueueFirst(&lock->queue))) {
        struct waiter *waiter = waitersOfPlace(place);
        if (route->address.length > 0) {
            waitersEndRedirected(ctx, waiter, route->asks, slot, route->address.at,
                                 route->address.length);
        } else {
            waitersEnd(ctx, waiter, WAITERS_TRY_AGAIN);
        }
    }
}

void redirectWaiters(RedisModuleCtx *ctx, struct lock *lock) {
    int slot = slotOf(ctx, lock->name);
    struct piece text = {"", 0};
    RedisModuleCallReply *reply = RedisModule_Call(ctx, "CLUSTER", "c", "NODES");
    if (reply) {
        const char *bytes = RedisModule_CallReplyStringPtr(reply, &text.length);
        text.at = bytes ? bytes : "";
    }
    struct route route = findRoute(text, slot);
    contendedUse(lock);
    endWaits(ctx, lock, &route, slot);
    waitersForgetUnwritten(lock);
    contendedClearDue(lock);
    contendedEndUse(ctx, lock);
    if (reply) {
        RedisModule_FreeCallReply(reply);
    }
}
