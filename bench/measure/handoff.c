/* The hand-off from one holder to the next: what it costs the server and how long it takes, with 1
 * to 10,000 waiting.
 *
 * A server with 10,000 connections that are used in rotation finds no data of the next connection
 * in the CPU's caches, whatever the command. The same ring made of RPUSH and BLPOP shows by how
 * much that alone raises the cost. Two more rows exclude it: the instructions, and the same number
 * of connections on both sides, which on one side all wait for one lock, and on the other side one
 * or two for each of 3,333. */

#include <stdio.h>

#include "base/table.h"
#include "load/comparison.h"
#include "load/handoff.h"
#include "machine/affinity.h"
#include "measure/measure.h"

enum {
    SIZES = 4,
    LATENCY_TIMES = 400,
    QUICK_LATENCY_TIMES = 50,
    SLICE_TIMES = 2500,
    MIN_FILES = 12000, /* all of `locks` at once */
    COUNTED_TIMES = 4000,
    COUNTED_SIZE = 2, /* of `locks`: see countGrowth */
};

#define GROWTH_TARGET 1.3

#define LOCK(waiters, rings)                                                               \
    {                                                                                      \
        NULL, "LOCK.ACQUIRE {key} {owner} PX 30000 BLOCK 0", "LOCK.RELEASE {key} {owner}", \
            waiters, rings                                                                 \
    }
#define LIST(waiters, rings) \
    { "RPUSH {key} token", "BLPOP {key} 0", "RPUSH {key} token", waiters, rings }

/* The one with the fewest waiters is the first; the others are compared with it. */
static const Handoff locks[SIZES] = {LOCK(1, 1), LOCK(100, 1), LOCK(1000, 1), LOCK(10000, 1)};
static const Handoff lists[SIZES] = {LIST(1, 1), LIST(100, 1), LIST(1000, 1), LIST(10000, 1)};
static const Handoff one_each = LOCK(1, 3333);

static Load loadOf(const Handoff *handoff, bool module) {
    Load load = {
        .name = module ? "LOCK" : "BLPOP",
        .server = {.module = module, .clients = handoffClients(handoff) + 100},
        .kind = &handoffKind,
        .what = handoff,
    };
    return load;
}

/* ---- Cost ----------------------------------------------------------------------------------- */

static void compareKinds(const Options *options) {
    const Load lock = loadOf(&locks[0], true);
    const Load list = loadOf(&lists[0], false);
    Comparison comparison = {.loads = {&lock, &list}, .times = COUNTED_TIMES};
    comparison.pairings[0] = (Pairing){"instructions, 1 waiting: LOCK / BLPOP", 0, 1, 0};
    compareInstructions(&comparison, options);
    comparison.times = SLICE_TIMES;
    comparison.pairings[0] = (Pairing){"CPU, 1 waiting: LOCK / BLPOP", 0, 1, 0};
    compareCpu(&comparison, options);
}

/* With one thousand waiters, not ten thousand: under callgrind there are few hand-offs in a second,
 * and what the server does once a second for each of 10,000 connections would outweigh them. */
static void countGrowth(const Options *options) {
    const Load many = loadOf(&locks[COUNTED_SIZE], true);
    const Load one = loadOf(&locks[0], true);
    const Comparison comparison = {
        .loads = {&many, &one},
        .pairings = {{"instructions, LOCK: 1000 waiting / 1", 0, 1, GROWTH_TARGET}},
        .times = COUNTED_TIMES,
    };
    compareInstructions(&comparison, options);
}

static void compareAsManyClients(const Options *options) {
    const Load many = loadOf(&locks[SIZES - 1], true);
    const Load one = loadOf(&one_each, true);
    const Comparison comparison = {
        .loads = {&many, &one},
        .conditions = {.alone = true},
        .pairings = {{"CPU, 10000 clients: on one lock / on 3333", 0, 1, GROWTH_TARGET}},
        .times = SLICE_TIMES,
    };
    compareCpu(&comparison, options);
}

/* Each crowd against the smallest one, in one interleaved run. */
typedef struct Growth {
    const char *name;
    const Handoff *handoffs; /* SIZES of them */
    bool module;
    bool apart;
    double target; /* of the largest; 0 = none */
} Growth;

static void compareSizes(const Options *options, const Growth *growth) {
    Load loads[SIZES];
    char labels[SIZES][64];
    Comparison comparison = {.conditions = {.apart = growth->apart}, .times = SLICE_TIMES};
    for (unsigned i = 0; i < SIZES; i++) {
        loads[i] = loadOf(&growth->handoffs[i], growth->module);
        comparison.loads[i] = &loads[i];
        snprintf(labels[i], sizeof(labels[i]), "%s: %u waiting / 1", growth->name,
                 growth->handoffs[i].waiters);
    }
    for (unsigned i = 1; i < SIZES; i++) {
        comparison.pairings[i - 1] =
            (Pairing){labels[i], i, 0, i == SIZES - 1 ? growth->target : 0};
    }
    compareCpu(&comparison, options);
}

static void compareGrowth(const Options *options) {
    static const Growth apart = {"CPU, server on its own CPU, LOCK", locks, true, true,
                                 GROWTH_TARGET};
    static const Growth lock = {"CPU, LOCK", locks, true, false, GROWTH_TARGET};
    static const Growth list = {"CPU, BLPOP", lists, false, false, 0};
    compareAsManyClients(options);
    if (affinityHasAnother()) {
        compareSizes(options, &apart);
    }
    compareSizes(options, &lock);
    compareSizes(options, &list);
}

/* ---- Latency -------------------------------------------------------------------------------- */

typedef struct Ring {
    Server *server;
    void *session;
    Series grants; /* ns, of all rounds together: a tail needs many values */
    Series pings;
} Ring;

static void ringOpen(Ring *ring, const Options *options, const Handoff *handoff) {
    const Load load = loadOf(handoff, true);
    const Conditions conditions = {0};
    *ring = (Ring){.server = serverStart(options, &load.server)};
    ring->session = handoffKind.open(ring->server, handoff, &conditions);
}

static void ringClose(Ring *ring) {
    handoffKind.close(ring->session);
    serverStop(ring->server);
    seriesFree(&ring->grants);
    seriesFree(&ring->pings);
}

static void ringPrint(Ring *ring, unsigned waiters) {
    char label[64];
    Row row = {.label = label, .unit = UNIT_NS};
    snprintf(label, sizeof(label), "release to grant, %u waiting: median / PING", waiters);
    row.ours = seriesMedian(&ring->grants);
    row.theirs = seriesMedian(&ring->pings);
    tableRow(&row);
    snprintf(label, sizeof(label), "release to grant, %u waiting: p99 / PING's", waiters);
    row.ours = seriesAt(&ring->grants, 0.99);
    row.theirs = seriesAt(&ring->pings, 0.99);
    row.target_kind = TARGET_OURS;
    row.target = 1e6;
    tableRow(&row);
}

static void compareLatency(const Options *options) {
    Ring rings[SIZES];
    unsigned times = options->quick ? QUICK_LATENCY_TIMES : LATENCY_TIMES;
    for (unsigned i = 0; i < SIZES; i++) {
        ringOpen(&rings[i], options, &locks[i]);
    }
    for (unsigned round = 0; round < options->rounds; round++) {
        for (unsigned i = 0; i < SIZES; i++) {
            handoffLatency(rings[i].session, times, &rings[i].grants, &rings[i].pings);
        }
    }
    for (unsigned i = 0; i < SIZES; i++) {
        ringPrint(&rings[i], locks[i].waiters);
        ringClose(&rings[i]);
    }
}

void handoffMeasure(const Options *options) {
    tableHead("handoff", "a release and the grant that it makes, many waiting on one lock");
    if (options->files < MIN_FILES) {
        tableNote("needs %d open files, has %u: see ulimit -n", MIN_FILES, options->files);
        return;
    }
    compareKinds(options);
    countGrowth(options);
    compareGrowth(options);
    compareLatency(options);
}
