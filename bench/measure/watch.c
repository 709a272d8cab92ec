/* How late an owner that watches its lock is notified that it has lost the lock, while thousands of
 * other keys expire and no client waits for the lock: after its lease has expired, which the server
 * notices only by its clock, and after a release on another connection. */

#define _POSIX_C_SOURCE 200809L

#include <stdbool.h>
#include <string.h>

#include "base/table.h"
#include "measure/lateness.h"
#include "measure/measure.h"

enum { LONG_LEASE_MS = 600000 };

/* The first members of the crowd watch, the others release. */

static void watchAll(const Lateness *lateness) {
    for (unsigned i = 0; i < LATENESS_LOCKS; i++) {
        crowdSay(lateness->crowd, i, "LOCK.WATCH {key} {owner} BLOCK 0", i);
    }
}

/* Reads the next reply; returns the member that received it. */
static unsigned next(Lateness *lateness, bool *is_notice) {
    redisReply *reply = NULL;
    unsigned member = crowdNext(lateness->crowd, &reply);
    *is_notice = reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, "LOST") == 0;
    freeReplyObject(reply);
    return member;
}

static void timeLeases(Lateness *lateness) {
    latenessTakeLocks(lateness, LATENESS_LEASE_MS);
    watchAll(lateness);
    for (unsigned i = 0; i < LATENESS_LOCKS; i++) {
        bool is_notice;
        unsigned member = next(lateness, &is_notice);
        latenessNoteLease(lateness, member);
        if (!is_notice) {
            die("a watch did not receive LOST");
        }
    }
}

/* Two replies are expected, in any order: the releaser's and the watch's. */
static void timeRelease(Lateness *lateness, unsigned lock) {
    uint64_t start = nowNs();
    crowdSay(lateness->crowd, LATENESS_LOCKS + lock, "LOCK.RELEASE {key} {owner}", lock);
    for (int replies = 0; replies < 2; replies++) {
        bool is_notice;
        if (next(lateness, &is_notice) == lock) {
            seriesAdd(&lateness->after_release, (double)(nowNs() - start));
        }
    }
}

static void timeReleases(Lateness *lateness) {
    latenessTakeLocks(lateness, LONG_LEASE_MS);
    watchAll(lateness);
    crowdSettle(lateness->crowd);
    for (unsigned i = 0; i < LATENESS_LOCKS; i++) {
        timeRelease(lateness, i);
    }
}

void watchMeasure(const Options *options) {
    static const LatenessHalves halves = {timeLeases, timeReleases};
    tableHead("watch", "200 watches of a lock each, while 5,000 other keys expire");
    latenessMeasure(options, &halves, "LOST");
}
