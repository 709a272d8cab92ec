/* lockctl ls. SCAN finds all hashes, and LOCK.INFO shows which of them are locks. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "base/memory.h"
#include "base/printable.h"
#include "look/look.h"
#include "look/nodes.h"
#include "net/replies.h"

#define TOKEN_PREFIX "lock:token:{"

struct row {
    char *key;
    size_t length;
    char *mode;
    char *owner; /* the first one */
    size_t owner_length;
    size_t holders;
    int64_t holds, pttl_ms, waiting;
    bool is_session;
};

struct listing {
    const struct lookOrder *order;
    struct row *rows;
    size_t count, room;
    char *error; /* the first one */
};

/* ---- finding ---- */

static void addRow(struct listing *listing, struct row row) {
    if (listing->count == listing->room) {
        listing->room = listing->room ? listing->room * 2 : 64;
        listing->rows = memoryResize(listing->rows, listing->room * sizeof(row));
    }
    listing->rows[listing->count++] = row;
}

static void noteError(struct listing *listing, const struct node *node, const char *error) {
    if (!listing->error) {
        listing->error = memoryPrint("%s: %s", node->place, error);
    }
}

static char *textOf(const redisReply *map, const char *name, size_t *length) {
    const redisReply *value = replyField(map, name);
    bool is_text = value && value->type == REDIS_REPLY_STRING;
    *length = is_text ? value->len : 0;
    return memoryCopy(is_text ? value->str : "", *length);
}

static void onInfo(struct node *node, redisReply *reply, const char *key, size_t length) {
    struct listing *listing = node->nodes->arg;
    if (reply->type == REDIS_REPLY_ERROR && !replyIsError(reply, "WRONGTYPE")) {
        noteError(listing, node, reply->str);
        return;
    }
    const redisReply *holders = replyField(reply, "holders");
    if (!holders || holders->elements == 0) {
        return; /* the lock is gone by now, or the hash is not a lock */
    }
    const redisReply *first = holders->element[0];
    const redisReply *session = replyField(first, "session");
    struct row row = {.key = memoryCopy(key, length),
                      .length = length,
                      .holders = holders->elements,
                      .holds = replyNumber(first, "holds", 0),
                      .pttl_ms = replyNumber(first, "pttl", -1),
                      .waiting = replyNumber(reply, "waiting", 0),
                      .is_session = session && session->type == REDIS_REPLY_INTEGER};
    size_t mode_length;
    row.mode = textOf(reply, "mode", &mode_length);
    row.owner = textOf(first, "owner", &row.owner_length);
    addRow(listing, row);
}

static void scan(struct node *node, const char *cursor);

static void onScanned(struct node *node, redisReply *reply, const char *name, size_t length) {
    struct listing *listing = node->nodes->arg;
    (void)name;
    (void)length;
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2) {
        noteError(listing, node, reply->str ? reply->str : "unexpected reply to SCAN");
        return;
    }
    const redisReply *keys = reply->element[1];
    for (size_t i = 0; i < keys->elements; i++) {
        const redisReply *key = keys->element[i];
        struct words words = {0};
        wordsAdd(&words, "LOCK.INFO");
        wordsAddBytes(&words, key->str, key->len);
        wordsAdd(&words, "COUNT");
        wordsAdd(&words, "0");
        if (strncmp(key->str, TOKEN_PREFIX, strlen(TOKEN_PREFIX)) != 0) {
            nodeAsk(node, &words, onInfo, key->str, key->len);
        }
    }
    if (strcmp(reply->element[0]->str, "0") != 0) {
        scan(node, reply->element[0]->str);
    }
}

static void scan(struct node *node, const char *cursor) {
    const struct listing *listing = node->nodes->arg;
    struct words words = {0};
    wordsAdd(&words, "SCAN");
    wordsAdd(&words, cursor);
    if (listing->order->pattern) {
        wordsAdd(&words, "MATCH");
        wordsAdd(&words, listing->order->pattern);
    }
    wordsAdd(&words, "COUNT");
    wordsAdd(&words, "1000");
    wordsAdd(&words, "TYPE");
    wordsAdd(&words, "hash");
    nodeAsk(node, &words, onScanned, NULL, 0);
}

/* ---- sorting, without duplicates: SCAN may return a key twice ---- */

static int compare(const void *a, const void *b) {
    const struct row *first = a;
    const struct row *second = b;
    size_t shorter = first->length < second->length ? first->length : second->length;
    int by_bytes = memcmp(first->key, second->key, shorter);
    return by_bytes ? by_bytes
                    : (first->length > second->length) - (first->length < second->length);
}

static void freeRow(const struct row *row) {
    free(row->key);
    free(row->mode);
    free(row->owner);
}

static void sort(struct listing *listing) {
    size_t kept = 0;
    if (listing->count > 0) {
        qsort(listing->rows, listing->count, sizeof(struct row), compare);
    }
    for (size_t i = 0; i < listing->count; i++) {
        if (kept > 0 && compare(&listing->rows[kept - 1], &listing->rows[i]) == 0) {
            freeRow(&listing->rows[i]);
        } else {
            listing->rows[kept++] = listing->rows[i];
        }
    }
    listing->count = kept;
}

/* ---- printing ---- */

static void printJson(const struct listing *listing) {
    json_t *list = json_array();
    for (size_t i = 0; i < listing->count; i++) {
        const struct row *row = &listing->rows[i];
        json_t *lock = json_object();
        printableSet(lock, "lock", row->key, row->length);
        json_object_set_new(lock, "mode", json_string(row->mode));
        printableSet(lock, "owner", row->owner, row->owner_length);
        json_object_set_new(lock, "holders", json_integer((json_int_t)row->holders));
        json_object_set_new(lock, "holds", json_integer(row->holds));
        json_object_set_new(lock, "pttl", json_integer(row->pttl_ms));
        json_object_set_new(lock, "session", json_boolean(row->is_session));
        json_object_set_new(lock, "waiting", json_integer(row->waiting));
        json_array_append_new(list, lock);
    }
    json_dumpf(list, stdout, JSON_INDENT(2) | JSON_PRESERVE_ORDER);
    putchar('\n');
    json_decref(list);
}

static void printCell(const char *text, size_t width) {
    printf("%s%*s  ", text, (int)(width - printableWidth(text)), "");
}

static char *leaseOf(const struct row *row) {
    return row->is_session    ? memoryPrint("session")
           : row->pttl_ms < 0 ? memoryPrint("none")
                              : memoryPrint("%.1f s", (double)row->pttl_ms / 1000);
}

static void printText(const struct listing *listing) {
    size_t width = strlen("LOCK");
    char **names = memoryNew((listing->count + 1) * sizeof(char *));
    for (size_t i = 0; i < listing->count; i++) {
        names[i] = printableText(listing->rows[i].key, listing->rows[i].length);
        size_t needed = printableWidth(names[i]);
        width = needed > width ? needed : width;
    }
    if (listing->count > 0) {
        printf("%-*s  %-9s  %7s  %10s  %s\n", (int)width, "LOCK", "MODE", "WAITING", "LEASE",
               "OWNER");
    }
    for (size_t i = 0; i < listing->count; i++) {
        const struct row *row = &listing->rows[i];
        char *lease = leaseOf(row);
        char *owner = printableText(row->owner, row->owner_length);
        printCell(names[i], width);
        printf("%-9s  %7" PRId64 "  %10s  %s", row->mode, row->waiting, lease, owner);
        if (row->holders > 1) {
            printf(" and %zu more", row->holders - 1);
        }
        putchar('\n');
        free(owner);
        free(lease);
        free(names[i]);
    }
    free(names);
}

int lsCommand(const struct lookOrder *order) {
    struct listing listing = {.order = order};
    struct event_base *base = event_base_new();
    struct nodes nodes;
    nodesOpen(&nodes, base, order);
    nodes.arg = &listing;
    for (size_t i = 0; i < nodes.count; i++) {
        scan(nodes.list[i], "0");
    }
    nodesFinish(&nodes);
    for (size_t i = 0; i < nodes.count; i++) {
        if (nodes.list[i]->trouble) {
            noteError(&listing, nodes.list[i], nodes.list[i]->trouble);
        }
    }
    sort(&listing);
    if (order->as_json) {
        printJson(&listing);
    } else {
        printText(&listing);
    }
    if (listing.error) {
        failureSay("%s", listing.error);
    }
    int status = listing.error ? FAILURE_UNAVAILABLE : 0;
    for (size_t i = 0; i < listing.count; i++) {
        freeRow(&listing.rows[i]);
    }
    free(listing.rows);
    free(listing.error);
    nodesFree(&nodes);
    event_base_free(base);
    return status;
}
