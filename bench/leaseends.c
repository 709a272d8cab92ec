/* One more reader after another lets its lease end, on the one lock or on as many locks as there
 * are ends, each with a writer that waits: else nobody would notice. What a server does in as much
 * time without any end is taken off. Most of the CPU is spent in waking up for each. */

#define _POSIX_C_SOURCE 200809L

#include <stdio.h>

#include "crowd.h"
#include "leaseends.h"
#include "probe.h"
#include "readers.h"
#include "table.h"

#define END \
    { NULL, NULL }

enum {
    ENDS = 1000,
    WRITERS_FEW = ENDS,
    DEPTH = 64,
    LEASE_MS = 4000, /* until the first end: all is prepared by then, and the idle time over */
    APART_MS = 1,
    MARGIN_MS = 50, /* before the first end and after the last */
    WINDOW_MS = ENDS * APART_MS + 2 * MARGIN_MS,
};

static const uint64_t ms = 1000000;

typedef struct Ends {
    Server *server;
    Crowd *writers;
    uint64_t first_ns; /* when the first lease will end */
} Ends;

static const Step many_leavers[] = {{"LOCK.RWREAD lock n{owner}" READERS_HOUR, "1"}, END};
static const Step few_leavers[] = {{"LOCK.RWREAD {key} n{owner}" READERS_HOUR, "1"}, END};

static void prepare(const Server *server, const Step *steps, unsigned times) {
    const Conditions conditions = {.depth = DEPTH};
    const Requests requests = {.steps = steps, .keys = times};
    void *session = requestsKind.open(server, &requests, &conditions);
    requestsKind.run(session, times);
    requestsKind.close(session);
}

static void beginToWrite(Ends *ends, bool many) {
    unsigned count = many ? 1 : WRITERS_FEW;
    ends->writers = crowdOpen(ends->server, count);
    for (unsigned i = 0; i < count; i++) {
        const char *text =
            many ? "LOCK.RWWRITE lock w{owner} BLOCK 0" : "LOCK.RWWRITE {key} w{owner} BLOCK 0";
        Message message = templateExpand(ends->server->control, text, i, i);
        crowdSend(ends->writers, i, &message);
        redisFreeCommand(message.bytes);
    }
    crowdSettle(ends->writers);
}

/* Gives the leavers leases that end one after another. */
static void shorten(Ends *ends, bool many) {
    redisContext *control = ends->server->control;
    for (unsigned i = 0; i < ENDS; i++) {
        char text[80];
        snprintf(text, sizeof(text), "LOCK.RENEW %s n{owner} PX %u", many ? "lock" : "{key}",
                 LEASE_MS + i * APART_MS);
        Message message = templateExpand(control, text, i, i);
        redisAppendFormattedCommand(control, message.bytes, message.size);
        redisFreeCommand(message.bytes);
    }
    ends->first_ns = nowNs() + LEASE_MS * ms;
    for (unsigned i = 0; i < ENDS; i++) {
        void *reply = NULL;
        if (redisGetReply(control, &reply) != REDIS_OK) {
            die("the server has gone");
        }
        if (((redisReply *)reply)->integer != 1) {
            die("a reader had nothing to renew");
        }
        freeReplyObject(reply);
    }
}

static void endsBegin(Ends *ends, const Options *options, bool many) {
    const ServerOptions wanted = {.module = true};
    ends->server = serverStart(options, &wanted);
    prepare(ends->server, many ? readersOnOne : readersOnEach, many ? READERS_MANY : ENDS);
    prepare(ends->server, many ? many_leavers : few_leavers, ENDS);
    beginToWrite(ends, many);
    shorten(ends, many);
}

/* The CPU that the server uses in the time in which all leases could end. */
static double useMeanwhile(const Ends *ends) {
    uint64_t before = probeCpuNs(ends->server);
    sleepNs(WINDOW_MS * ms);
    return (double)(probeCpuNs(ends->server) - before);
}

static double costOfEnds(const Options *options, bool many) {
    Ends ends;
    endsBegin(&ends, options, many);
    double idle = useMeanwhile(&ends);
    uint64_t begin_ns = ends.first_ns - MARGIN_MS * ms;
    uint64_t now_ns = nowNs();
    if (now_ns >= begin_ns) {
        die("this machine is too slow for LEASE_MS in leaseends.c");
    }
    sleepNs(begin_ns - now_ns);
    double used = useMeanwhile(&ends);
    unsigned seen = (unsigned)probeCounter(ends.server, "lock_lease_ends");
    if (seen != ENDS) {
        die("%u leases should have ended, %u have", (unsigned)ENDS, seen);
    }
    crowdClose(ends.writers);
    serverStop(ends.server);
    return (used - idle) / ENDS;
}

void leaseendsCompare(const Options *options, double target) {
    const Row row = {.label = "CPU, lease end: 10000 readers / 10",
                     .unit = UNIT_NS,
                     .target_kind = TARGET_RATIO,
                     .target = target};
    Series many = {0};
    Series few = {0};
    for (unsigned round = 0; round < options->rounds; round++) {
        seriesAdd(&many, costOfEnds(options, true));
        seriesAdd(&few, costOfEnds(options, false));
    }
    tableSeries(row, &many, &few);
    seriesFree(&many);
    seriesFree(&few);
}
