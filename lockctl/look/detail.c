/* See detail.h. */
#include "look/detail.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/printable.h"
#include "look/sample.h"
#include "net/replies.h"

#define HOLDERS_SHOWN 8

static void add(struct detail *detail, char *line) {
    if (detail->count < DETAIL_LINES) {
        detail->lines[detail->count++] = line;
    } else {
        free(line);
    }
}

static char *textOf(const redisReply *map, const char *name) {
    const redisReply *value = replyField(map, name);
    bool is_text = value && value->type == REDIS_REPLY_STRING;
    return printableText(is_text ? value->str : "", is_text ? value->len : 0);
}

static char *durationOf(char *room, const redisReply *map, const char *name) {
    int64_t ms = replyNumber(map, name, -1);
    return sampleDuration(room, ms < 0 ? -1 : ms * 1000);
}

static void addHolder(struct detail *detail, const redisReply *holder) {
    char room[16];
    char *owner = textOf(holder, "owner");
    char *mode = textOf(holder, "mode");
    int64_t session = replyNumber(holder, "session", -1);
    char *bound = session >= 0 ? memoryPrint("  client %" PRId64, session) : memoryPrint("%s", "");
    add(detail, memoryPrint("held    %-9s x%-3" PRId64 " lease %-8s%s  %s", mode,
                            replyNumber(holder, "holds", 0), durationOf(room, holder, "pttl"),
                            bound, owner));
    free(bound);
    free(mode);
    free(owner);
}

static void addWaiter(struct detail *detail, const redisReply *waiter) {
    char waited[16];
    char left[16];
    char *owner = textOf(waiter, "owner");
    char *mode = textOf(waiter, "mode");
    int64_t client = replyNumber(waiter, "client", -1);
    char *who = client < 0 ? memoryPrint("reserved") : memoryPrint("client %" PRId64, client);
    add(detail, memoryPrint("waits   %-9s %s for %-8s left %-8s %s  %s", mode,
                            replyNumber(waiter, "fair", 0) ? "fair" : "    ",
                            durationOf(waited, waiter, "waited"), durationOf(left, waiter, "left"),
                            who, owner));
    free(who);
    free(mode);
    free(owner);
}

void detailSet(struct detail *detail, const redisReply *info) {
    detailFree(detail);
    const redisReply *holders = replyField(info, "holders");
    const redisReply *waiters = replyField(info, "waiters");
    size_t count = holders ? holders->elements : 0;
    for (size_t i = 0; i < count && i < HOLDERS_SHOWN; i++) {
        addHolder(detail, holders->element[i]);
    }
    if (count > HOLDERS_SHOWN) {
        add(detail, memoryPrint("        and %zu more", count - HOLDERS_SHOWN));
    }
    count = waiters ? waiters->elements : 0;
    for (size_t i = 0; i < count; i++) {
        addWaiter(detail, waiters->element[i]);
    }
    int64_t waiting = replyNumber(info, "waiting", 0);
    if (waiting > (int64_t)count) {
        add(detail, memoryPrint("        and %" PRId64 " more", waiting - (int64_t)count));
    }
    if (detail->count == 0) {
        add(detail, memoryPrint("free, no waiters"));
    }
}

void detailFree(struct detail *detail) {
    for (size_t i = 0; i < detail->count; i++) {
        free(detail->lines[i]);
    }
    detail->count = 0;
}
