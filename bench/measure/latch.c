/* Latches: 10,000 clients that wait for a latch and are notified that it is open, against the same
 * number of BLPOPs that one RPUSH serves; and how long other clients wait meanwhile. */

#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>

#include "base/table.h"
#include "load/crowd.h"
#include "machine/probe.h"
#include "measure/measure.h"

enum {
    CROWD = 10000,
    QUICK_CROWD = 1000,
    PINGS_A_LOOK = 20,
};

/* One side: what each member of the crowd sends, and the command that then serves all of them. */
typedef struct Side {
    bool module;
    const char *prepare; /* sent before; or NULL */
    const char *wait;
    const char *serve; /* NULL: RPUSH */
} Side;

static const Side latch_side = {true, "LATCH.SET latch 1", "LATCH.WAIT latch BLOCK 0",
                                "LATCH.DOWN latch"};
static const Side list_side = {false, NULL, "BLPOP list 0", NULL};

static unsigned crowdSize(const Options *options) {
    return options->quick ? QUICK_CROWD : CROWD;
}

static void say(const Server *server, const char *text) {
    templateQueue(server->control, text, 0, 0);
    freeReplyObject(serverReply(server->control));
}

static Server *start(const Options *options, const Side *side, Crowd **crowd) {
    const ServerOptions wanted = {.module = side->module, .clients = crowdSize(options) + 100};
    Server *server = serverStart(options, &wanted);
    *crowd = crowdOpen(server, crowdSize(options));
    return server;
}

static void waitAll(const Server *server, const Crowd *crowd, const Side *side, unsigned size) {
    if (side->prepare) {
        say(server, side->prepare);
    }
    for (unsigned i = 0; i < size; i++) {
        crowdSay(crowd, i, side->wait, i);
    }
    crowdSettle(crowd);
}

/* RPUSH needs an element for each client. */
static void push(const Server *server, unsigned size) {
    const char **words = allocate((size + 2) * sizeof(*words));
    words[0] = "RPUSH";
    words[1] = "list";
    for (unsigned i = 0; i < size; i++) {
        words[2 + i] = "x";
    }
    freeReplyObject(redisCommandArgv(server->control, (int)size + 2, words, NULL));
    free(words);
}

static void serve(const Server *server, const Side *side, unsigned size) {
    if (side->serve) {
        say(server, side->serve);
    } else {
        push(server, size);
    }
}

static void hearAll(Crowd *crowd, unsigned size) {
    for (unsigned i = 0; i < size; i++) {
        redisReply *reply = NULL;
        crowdNext(crowd, &reply);
        if (reply->type == REDIS_REPLY_NIL) {
            die("a client without a timeout received the reply of a timeout");
        }
        freeReplyObject(reply);
    }
}

/* The server's CPU for each member of the crowd: until all are blocked, and after that. */
typedef struct Costs {
    Series wait, served;
} Costs;

static void playRound(const Options *options, const Side *side, Costs *costs) {
    unsigned size = crowdSize(options);
    Crowd *crowd;
    Server *server = start(options, side, &crowd);
    /* Once before the measurement, for what is allocated the first time. */
    waitAll(server, crowd, side, size);
    serve(server, side, size);
    hearAll(crowd, size);
    uint64_t before = probeCpuNs(server);
    waitAll(server, crowd, side, size);
    uint64_t blocked = probeCpuNs(server);
    serve(server, side, size);
    hearAll(crowd, size);
    uint64_t served = probeCpuNs(server);
    seriesAdd(&costs->wait, (double)(blocked - before) / size);
    seriesAdd(&costs->served, (double)(served - blocked) / size);
    crowdClose(crowd);
    serverStop(server);
}

/* ---- The effect on other clients ------------------------------------------------------------ */

static uint64_t timePing(const Server *server) {
    uint64_t asked = nowNs();
    say(server, "PING");
    return nowNs() - asked;
}

/* The replies to the crowd stay in its sockets, so that this process only sends PINGs. */
static void measureOthers(const Options *options, Series *slowest, Series *took) {
    Crowd *crowd;
    unsigned size = crowdSize(options);
    Server *server = start(options, &latch_side, &crowd);
    waitAll(server, crowd, &latch_side, size);
    uint64_t began = nowNs(), worst = 0;
    serve(server, &latch_side, size);
    do {
        for (int i = 0; i < PINGS_A_LOOK; i++) {
            uint64_t ping = timePing(server);
            worst = ping > worst ? ping : worst;
        }
    } while (probeCounter(server, "lock_latch_waiters") > 0);
    seriesAdd(took, (double)(nowNs() - began));
    seriesAdd(slowest, (double)worst);
    crowdClose(crowd);
    serverStop(server);
}

static void printOthers(const Options *options) {
    Series slowest = {0}, took = {0};
    for (unsigned round = 0; round < options->rounds; round++) {
        measureOthers(options, &slowest, &took);
    }
    Row row = {.label = "the slowest PING meanwhile", .unit = UNIT_NS};
    row.ours = seriesMedian(&slowest);
    row.target_kind = TARGET_OURS;
    row.target = 2e6;
    tableRow(&row);
    row =
        (Row){.label = "until the last is notified", .unit = UNIT_NS, .ours = seriesMedian(&took)};
    tableRow(&row);
    seriesFree(&slowest);
    seriesFree(&took);
}

void latchMeasure(const Options *options) {
    Costs ours, theirs;
    memset(&ours, 0, sizeof(ours));
    memset(&theirs, 0, sizeof(theirs));
    tableHead("latch", "10,000 clients that wait for a latch, which is opened");
    for (unsigned round = 0; round < options->rounds; round++) {
        playRound(options, &latch_side, &ours);
        playRound(options, &list_side, &theirs);
    }
    Row row = {.label = "CPU each: notified that it is open / BLPOP served", .unit = UNIT_NS};
    row.target_kind = TARGET_RATIO;
    row.target = 1.2;
    tableSeries(row, &ours.served, &theirs.served);
    row = (Row){.label = "CPU each: beginning to wait / the same", .unit = UNIT_NS};
    tableSeries(row, &ours.wait, &theirs.wait);
    printOthers(options);
    seriesFree(&ours.wait);
    seriesFree(&ours.served);
    seriesFree(&theirs.wait);
    seriesFree(&theirs.served);
}
