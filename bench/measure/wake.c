/* How late a waiter is granted its lock, while thousands of other keys expire: after a lease has
 * expired, which the server notices only by its clock, and after a release. */

#define _POSIX_C_SOURCE 200809L

#include "base/table.h"
#include "measure/lateness.h"
#include "measure/measure.h"

/* The first members of the crowd wait for the ends of leases, the others for releases. */

static void waitForLeases(Lateness *lateness) {
    latenessTakeLocks(lateness, LATENESS_LEASE_MS);
    for (unsigned i = 0; i < LATENESS_LOCKS; i++) {
        crowdSay(lateness->crowd, i, "LOCK.ACQUIRE {key} first-{owner} PX 30000 BLOCK 0", i);
    }
    for (unsigned i = 0; i < LATENESS_LOCKS; i++) {
        redisReply *reply = NULL;
        unsigned member = crowdNext(lateness->crowd, &reply);
        latenessNoteLease(lateness, member);
        if (reply->type != REDIS_REPLY_INTEGER) {
            die("a waiter without a timeout received the reply of a timeout");
        }
        freeReplyObject(reply);
    }
}

/* Two replies are expected, in any order: the holder's and the waiter's. */
static void timeRelease(Lateness *lateness, unsigned lock) {
    uint64_t start = nowNs();
    crowdSay(lateness->crowd, lock, "LOCK.RELEASE {key} first-{owner}", lock);
    for (int replies = 0; replies < 2; replies++) {
        redisReply *reply = NULL;
        unsigned member = crowdNext(lateness->crowd, &reply);
        if (member == LATENESS_LOCKS + lock) {
            seriesAdd(&lateness->after_release, (double)(nowNs() - start));
        }
        freeReplyObject(reply);
    }
}

static void waitForReleases(Lateness *lateness) {
    for (unsigned i = 0; i < LATENESS_LOCKS; i++) {
        crowdSay(lateness->crowd, LATENESS_LOCKS + i,
                 "LOCK.ACQUIRE {key} second-{owner} PX 30000 BLOCK 0", i);
    }
    crowdSettle(lateness->crowd);
    for (unsigned i = 0; i < LATENESS_LOCKS; i++) {
        timeRelease(lateness, i);
    }
}

void wakeMeasure(const Options *options) {
    static const LatenessHalves halves = {waitForLeases, waitForReleases};
    tableHead("wake", "200 waiters with a lock each, while 5,000 other keys expire");
    latenessMeasure(options, &halves, "grant");
}
