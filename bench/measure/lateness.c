/* See lateness.h. */

#define _POSIX_C_SOURCE 200809L

#include "measure/lateness.h"

#include <stdio.h>

#include "base/table.h"
#include "load/others.h"
#include "load/template.h"

enum {
    OTHERS_MS = 400,
    SLEEPS = 200,
    SLEEP_NS = 1000000,
};

/* The integer of the next reply, or 0. */
static long long nextInteger(const Lateness *lateness) {
    redisReply *reply = serverReply(lateness->server->control);
    if (reply->type == REDIS_REPLY_ERROR) {
        die("error reply: %s", reply->str);
    }
    long long integer = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    freeReplyObject(reply);
    return integer;
}

void latenessTakeLocks(Lateness *lateness, unsigned lease_ms) {
    char text[64];
    for (unsigned i = 0; i < LATENESS_LOCKS; i++) {
        snprintf(text, sizeof(text), "LOCK.ACQUIRE {key} {owner} PX %u",
                 lease_ms + i % (LATENESS_LEASE_MS + 1));
        templateQueue(lateness->server->control, text, i, i);
        templateQueue(lateness->server->control, "PEXPIRETIME {key}", i, i);
    }
    for (unsigned i = 0; i < LATENESS_LOCKS; i++) {
        if (nextInteger(lateness) != 1) {
            die("lock %u was not free", i);
        }
        lateness->lease_end_ms[i] = nextInteger(lateness);
    }
}

void latenessNoteLease(Lateness *lateness, unsigned lock) {
    double late_us = (double)wallUs() - 1000.0 * (double)lateness->lease_end_ms[lock];
    seriesAdd(&lateness->after_lease, 1000 * late_us);
}

/* How late this process itself is woken: while the CPUs are busy with other work, a server cannot
 * be faster. */
static void timeSleeps(Lateness *lateness) {
    for (int i = 0; i < SLEEPS; i++) {
        uint64_t end = nowNs() + SLEEP_NS;
        sleepNs(SLEEP_NS);
        seriesAdd(&lateness->after_sleep, (double)(nowNs() - end));
    }
}

static void playRound(Lateness *lateness, const LatenessHalves *halves) {
    templateQueue(lateness->server->control, "FLUSHALL", 0, 0);
    nextInteger(lateness);
    othersSet(lateness->server, OTHERS_MS);
    halves->after_leases(lateness);
    othersSet(lateness->server, OTHERS_MS);
    halves->after_releases(lateness);
    timeSleeps(lateness);
}

/* The target is for the p99: the slowest value is caused by the machine, as the last rows show. */
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

static void printAll(Lateness *lateness, const char *told) {
    char cause[32];
    snprintf(cause, sizeof(cause), "lease end to %s", told);
    print(cause, &lateness->after_lease, 5e6);
    snprintf(cause, sizeof(cause), "release to %s", told);
    print(cause, &lateness->after_release, 1e6);
    print("for comparison, a sleeping process", &lateness->after_sleep, 0);
}

void latenessMeasure(const Options *options, const LatenessHalves *halves, const char *told) {
    const ServerOptions wanted = {.module = true};
    Lateness lateness = {0};
    lateness.server = serverStart(options, &wanted);
    lateness.crowd = crowdOpen(lateness.server, 2 * LATENESS_LOCKS);
    for (unsigned round = 0; round < options->rounds; round++) {
        playRound(&lateness, halves);
    }
    crowdClose(lateness.crowd);
    serverStop(lateness.server);
    printAll(&lateness, told);
}
