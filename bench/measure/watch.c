/* How late an owner that watches its lock is told that it has lost it, while thousands of other keys
 * expire and nobody waits for the lock: after the end of its lease, of which only the clock knows, and
 * after a release on another connection. */

#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <string.h>

#include "base/table.h"
#include "load/crowd.h"
#include "load/others.h"
#include "measure/measure.h"

enum {
    LOCKS = 200,
    LEASE_MS = 50, /* the shortest; the longest is twice as long */
    OTHERS_MS = 400,
    SLEEPS = 200,
    SLEEP_NS = 1000000,
};

typedef struct Session {
    Server *server;
    Crowd *crowd; /* the first LOCKS members watch, the rest release */
    long long lease_end_ms[LOCKS];
    Series after_lease, after_release, after_sleep; /* ns */
} Session;

static long long nextInteger(const Session *session) {
    redisReply *reply = serverReply(session->server->control);
    if (reply->type == REDIS_REPLY_ERROR) {
        die("error reply: %s", reply->str);
    }
    long long integer = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    freeReplyObject(reply);
    return integer;
}

/* Takes the locks, with leases from `lease_ms` to twice that. */
static void takeLocks(Session *session, unsigned lease_ms) {
    char text[64];
    for (unsigned i = 0; i < LOCKS; i++) {
        snprintf(text, sizeof(text), "LOCK.ACQUIRE {key} {owner} PX %u",
                 lease_ms + i % (LEASE_MS + 1));
        templateQueue(session->server->control, text, i, i);
        templateQueue(session->server->control, "PEXPIRETIME {key}", i, i);
    }
    for (unsigned i = 0; i < LOCKS; i++) {
        if (nextInteger(session) != 1) {
            die("lock %u was not free", i);
        }
        session->lease_end_ms[i] = nextInteger(session);
    }
}

static void watchAll(const Session *session) {
    for (unsigned i = 0; i < LOCKS; i++) {
        crowdSay(session->crowd, i, "LOCK.WATCH {key} {owner} BLOCK 0", i);
    }
}

/* The next reply; whose it is. */
static unsigned next(Session *session, bool *is_notice) {
    redisReply *reply = NULL;
    unsigned member = crowdNext(session->crowd, &reply);
    *is_notice = reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "LOST") == 0;
    freeReplyObject(reply);
    return member;
}

static void timeLeases(Session *session) {
    takeLocks(session, LEASE_MS);
    watchAll(session);
    for (unsigned i = 0; i < LOCKS; i++) {
        bool is_notice;
        unsigned member = next(session, &is_notice);
        double late_us = (double)wallUs() - 1000.0 * (double)session->lease_end_ms[member];
        if (!is_notice) {
            die("a watch was not told LOST");
        }
        seriesAdd(&session->after_lease, 1000 * late_us);
    }
}

/* Two replies are to come, in any order: the releaser's and the watch's. */
static void timeRelease(Session *session, unsigned lock) {
    uint64_t start = nowNs();
    crowdSay(session->crowd, LOCKS + lock, "LOCK.RELEASE {key} {owner}", lock);
    for (int replies = 0; replies < 2; replies++) {
        bool is_notice;
        if (next(session, &is_notice) == lock) {
            seriesAdd(&session->after_release, (double)(nowNs() - start));
        }
    }
}

static void timeReleases(Session *session) {
    takeLocks(session, 600000);
    watchAll(session);
    crowdSettle(session->crowd);
    for (unsigned i = 0; i < LOCKS; i++) {
        timeRelease(session, i);
    }
}

static void timeSleeps(Session *session) {
    for (int i = 0; i < SLEEPS; i++) {
        uint64_t end = nowNs() + SLEEP_NS;
        sleepNs(SLEEP_NS);
        seriesAdd(&session->after_sleep, (double)(nowNs() - end));
    }
}

static void playRound(Session *session) {
    templateQueue(session->server->control, "FLUSHALL", 0, 0);
    nextInteger(session);
    othersSet(session->server, OTHERS_MS);
    timeLeases(session);
    othersSet(session->server, OTHERS_MS);
    timeReleases(session);
    timeSleeps(session);
}

static void print(const char *cause, Series *delays, double target_ns) {
    char label[64];
    Row row = {.label = label, .unit = UNIT_NS};
    snprintf(label, sizeof(label), "%s: median", cause);
    row.ours = seriesMedian(delays);
    tableRow(&row);
    snprintf(label, sizeof(label), "%s: p99", cause);
    row.ours = seriesAt(delays, 0.99);
    row.target_kind = target_ns > 0 ? TARGET_OURS : TARGET_NONE;
    row.target = target_ns;
    tableRow(&row);
    seriesFree(delays);
}

void watchMeasure(const Options *options) {
    const ServerOptions wanted = {.module = true};
    Session session = {0};
    tableHead("watch", "200 watches of a lock each, while 5,000 other keys expire");
    session.server = serverStart(options, &wanted);
    session.crowd = crowdOpen(session.server, 2 * LOCKS);
    for (unsigned round = 0; round < options->rounds; round++) {
        playRound(&session);
    }
    crowdClose(session.crowd);
    serverStop(session.server);
    print("lease end to LOST", &session.after_lease, 5e6);
    print("release to LOST", &session.after_release, 1e6);
    print("for comparison, a sleeping process", &session.after_sleep, 0);
}
