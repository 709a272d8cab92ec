/* REPLICAS 1: how much later a client receives its reply if the master waits for a replica, and
 * what a thousand such clients at the same time cost the master. There is a master and one replica;
 * the figures are compared with those of the same command without the option. */

#define _POSIX_C_SOURCE 200809L

#include <string.h>

#include "base/table.h"
#include "load/crowd.h"
#include "machine/probe.h"
#include "measure/measure.h"

enum {
    CROWD = 1000,
    QUICK_CROWD = 100,
    ROUNDS_OF_CROWD = 20,
    PAIRS = 2000,
    QUICK_PAIRS = 100,
    TRIES = 100,
};

static const char plain[] = "LOCK.ACQUIRE {key} {owner} PX 60000";
static const char acknowledged[] = "LOCK.ACQUIRE {key} {owner} PX 60000 REPLICAS 1 60000";
static const char release[] = "LOCK.RELEASE {key} {owner}";

typedef struct Pair {
    Server *master, *replica;
} Pair;

static redisReply *ask(const Server *server, const char *text) {
    templateQueue(server->control, text, 0, 0);
    return serverReply(server->control);
}

static void say(const Server *server, const char *text) {
    redisReply *reply = ask(server, text);
    if (reply->type == REDIS_REPLY_ERROR) {
        die("%s: %s", text, reply->str);
    }
    freeReplyObject(reply);
}

/* Waits until a grant is acknowledged: then the replica has caught up. */
static void awaitReplica(const Server *master) {
    for (int tries = 0; tries < TRIES; tries++) {
        redisReply *reply = ask(master, "LOCK.ACQUIRE first first ONCE REPLICAS 1 1000");
        bool is_told = reply->type == REDIS_REPLY_INTEGER;
        freeReplyObject(reply);
        if (is_told) {
            say(master, "LOCK.RELEASE first first");
            return;
        }
        sleepNs(100000000);
    }
    die("the replica acknowledges nothing");
}

static Pair start(const Options *options) {
    const ServerOptions wanted = {.module = true, .clients = CROWD + 100};
    Pair pair = {serverStart(options, &wanted), serverStart(options, &wanted)};
    freeReplyObject(
        redisCommand(pair.replica->control, "REPLICAOF 127.0.0.1 %d", pair.master->port));
    awaitReplica(pair.master);
    return pair;
}

static void stop(const Pair *pair) {
    serverStop(pair->replica);
    serverStop(pair->master);
}

/* ---- One at a time -------------------------------------------------------------------------- */

static void timeOne(const Server *server, const char *acquire, Series *took) {
    uint64_t asked = nowNs();
    say(server, acquire);
    seriesAdd(took, (double)(nowNs() - asked));
    say(server, release);
}

static void measureLatency(const Options *options, Series *later) {
    Pair pair = start(options);
    Series with = {0}, without = {0};
    for (int i = 0; i < (options->quick ? QUICK_PAIRS : PAIRS); i++) {
        timeOne(pair.master, acknowledged, &with);
        timeOne(pair.master, plain, &without);
    }
    seriesAdd(later, seriesMedian(&with) - seriesMedian(&without));
    seriesFree(&with);
    seriesFree(&without);
    stop(&pair);
}

/* ---- Many at a time ------------------------------------------------------------------------- */

static void allSay(Crowd *crowd, unsigned size, const char *text) {
    for (unsigned i = 0; i < size; i++) {
        crowdSay(crowd, i, text, i);
    }
    for (unsigned i = 0; i < size; i++) {
        redisReply *reply = NULL;
        crowdNext(crowd, &reply);
        freeReplyObject(reply);
    }
}

/* The master's CPU for each acquire and release. */
static double costOfPair(const Server *master, Crowd *crowd, unsigned size, const char *acquire) {
    uint64_t before = probeCpuNs(master);
    for (int i = 0; i < ROUNDS_OF_CROWD; i++) {
        allSay(crowd, size, acquire);
        allSay(crowd, size, release);
    }
    return (double)(probeCpuNs(master) - before) / (ROUNDS_OF_CROWD * size);
}

static void measureCrowd(const Options *options, Series *with, Series *without) {
    unsigned size = options->quick ? QUICK_CROWD : CROWD;
    Pair pair = start(options);
    Crowd *crowd = crowdOpen(pair.master, size);
    costOfPair(pair.master, crowd, size, acknowledged); /* for what is allocated the first time */
    seriesAdd(with, costOfPair(pair.master, crowd, size, acknowledged));
    seriesAdd(without, costOfPair(pair.master, crowd, size, plain));
    crowdClose(crowd);
    stop(&pair);
}

void replicasMeasure(const Options *options) {
    Series later = {0}, with = {0}, without = {0};
    tableHead("replicas",
              "a grant that one replica has to acknowledge, against one that needs none");
    for (unsigned round = 0; round < options->rounds; round++) {
        measureLatency(options, &later);
        measureCrowd(options, &with, &without);
    }
    Row row = {.label = "how much later the reply comes, median", .unit = UNIT_NS};
    row.target_kind = TARGET_OURS;
    row.target = 2e6;
    row.ours = seriesMedian(&later);
    tableRow(&row);
    row = (Row){.label = "CPU of a pair, 1,000 at a time: REPLICAS 1 / without", .unit = UNIT_NS};
    row.target_kind = TARGET_RATIO;
    row.target = 1.5;
    tableSeries(row, &with, &without);
    seriesFree(&later);
    seriesFree(&with);
    seriesFree(&without);
}
