/* How late a waiter gets its lock, while thousands of other keys expire: after the end of a
 * lease that nobody released, of which only the clock knows, and after a release. Server and
 * client share the machine's clock, so the end that PEXPIRETIME names can be compared with the
 * moment at which the grant arrives. */

#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
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
    Crowd *crowd; /* the first LOCKS members wait for a lease's end, the rest for a release */
    long long lease_end_ms[LOCKS]; /* unix time, as the server keeps it */
    Series after_lease;            /* all in ns */
    Series after_release;
    Series after_sleep;
} Session;

/* ---- Requests ------------------------------------------------------------------------------- */

static void queue(const Session *session, const char *text, unsigned number) {
    templateQueue(session->server->control, text, number, number);
}

/* The integer of the next reply, or 0. */
static long long nextInteger(const Session *session) {
    redisReply *reply = serverReply(session->server->control);
    if (reply->type == REDIS_REPLY_ERROR) {
        die("error reply: %s", reply->str);
    }
    long long integer = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    freeReplyObject(reply);
    return integer;
}

/* ---- A lease that ends ---------------------------------------------------------------------- */

static void takeLocks(Session *session) {
    char text[64];
    for (unsigned i = 0; i < LOCKS; i++) {
        snprintf(text, sizeof(text), "LOCK.ACQUIRE {key} {owner} PX %u",
                 LEASE_MS + i % (LEASE_MS + 1));
        queue(session, text, i);
        queue(session, "PEXPIRETIME {key}", i);
    }
    for (unsigned i = 0; i < LOCKS; i++) {
        if (nextInteger(session) != 1) {
            die("lock %u was not free", i);
        }
        session->lease_end_ms[i] = nextInteger(session);
    }
}

static void waitForLeases(Session *session) {
    takeLocks(session);
    for (unsigned i = 0; i < LOCKS; i++) {
        crowdSay(session->crowd, i, "LOCK.ACQUIRE {key} first-{owner} PX 30000 BLOCK 0", i);
    }
    for (unsigned i = 0; i < LOCKS; i++) {
        redisReply *reply = NULL;
        unsigned member = crowdNext(session->crowd, &reply);
        double late_us = (double)wallUs() - 1000.0 * (double)session->lease_end_ms[member];
        if (reply->type != REDIS_REPLY_INTEGER) {
            die("a waiter that waits for ever was told: not in time");
        }
        seriesAdd(&session->after_lease, 1000 * late_us);
        freeReplyObject(reply);
    }
}

/* ---- A release ------------------------------------------------------------------------------ */

/* Two replies are to come, in any order: the holder's and the waiter's. */
static void timeRelease(Session *session, unsigned lock) {
    uint64_t start = nowNs();
    crowdSay(session->crowd, lock, "LOCK.RELEASE {key} first-{owner}", lock);
    for (int replies = 0; replies < 2; replies++) {
        redisReply *reply = NULL;
        unsigned member = crowdNext(session->crowd, &reply);
        if (member == LOCKS + lock) {
            seriesAdd(&session->after_release, (double)(nowNs() - start));
        }
        freeReplyObject(reply);
    }
}

static void waitForReleases(Session *session) {
    for (unsigned i = 0; i < LOCKS; i++) {
        crowdSay(session->crowd, LOCKS + i, "LOCK.ACQUIRE {key} second-{owner} PX 30000 BLOCK 0",
                 i);
    }
    crowdSettle(session->crowd);
    for (unsigned i = 0; i < LOCKS; i++) {
        timeRelease(session, i);
    }
}

/* ---- The machine itself --------------------------------------------------------------------- */

/* How late this process itself is woken: where the CPUs are busy with other things, no server does
 * better. */
static void timeSleeps(Session *session) {
    for (int i = 0; i < SLEEPS; i++) {
        uint64_t end = nowNs() + SLEEP_NS;
        sleepNs(SLEEP_NS);
        seriesAdd(&session->after_sleep, (double)(nowNs() - end));
    }
}

/* ---- Rounds and rows ------------------------------------------------------------------------ */

static void playRound(Session *session) {
    queue(session, "FLUSHALL", 0);
    nextInteger(session);
    othersSet(session->server, OTHERS_MS);
    waitForLeases(session);
    othersSet(session->server, OTHERS_MS);
    waitForReleases(session);
    timeSleeps(session);
}

/* A target is the p99's: the very slowest is the machine's, as the last rows show. */
static void print(const char *cause, Series *delays, double target_ns) {
    char label[64];
    Row row = {.label = label, .unit = UNIT_NS};
    snprintf(label, sizeof(label), "%s: median", cause);
    row.ours = seriesMedian(delays);
    tableRow(&row);
    snprintf(label, sizeof(label), "%s: slowest of %zu", cause, delays->count);
    row.ours = seriesAt(delays, 1);
    tableRow(&row);
    snprintf(label, sizeof(label), "%s: p99", cause);
    row.ours = seriesAt(delays, 0.99);
    row.target_kind = target_ns > 0 ? TARGET_OURS : TARGET_NONE;
    row.target = target_ns;
    tableRow(&row);
    seriesFree(delays);
}

void wakeMeasure(const Options *options) {
    const ServerOptions wanted = {.module = true};
    Session session = {0};
    tableHead("wake", "200 waiters with a lock each, while 5,000 other keys expire");
    session.server = serverStart(options, &wanted);
    session.crowd = crowdOpen(session.server, 2 * LOCKS);
    for (unsigned round = 0; round < options->rounds; round++) {
        playRound(&session);
    }
    crowdClose(session.crowd);
    serverStop(session.server);
    print("lease end to grant", &session.after_lease, 5e6);
    print("release to grant", &session.after_release, 1e6);
    print("for comparison, a sleeping process", &session.after_sleep, 0);
}
