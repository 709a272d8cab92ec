/* What readers cost: acquiring and releasing one read hold against SET and DEL, and each step on a
 * lock with 10,000 readers against a lock with ten. */

#define _POSIX_C_SOURCE 200809L

#include <stdio.h>

#include "base/table.h"
#include "load/comparison.h"
#include "load/crowd.h"
#include "load/readers.h"
#include "machine/probe.h"
#include "measure/measure.h"

static const double pair_target = 2.5;
static const double growth_target = 2.0;

/* ---- A pair --------------------------------------------------------------------------------- */

static const Requests read_steps = {.steps = (const Step[]){
                                        {"LOCK.RWREAD {key} {owner} PX 30000", "1"},
                                        {"LOCK.RELEASE {key} {owner}", "0"},
                                        STEPS_END,
                                    }};

static const Requests set_del_steps = {.steps = (const Step[]){
                                           {"SET {key} {owner} NX PX 30000", "OK"},
                                           {"DEL {key}", "1"},
                                           STEPS_END,
                                       }};

static const Load read_pair = {"RWREAD", {.module = true}, &requestsKind, &read_steps};
static const Load set_del = {"SET + DEL", {0}, &requestsKind, &set_del_steps};

static Comparison pairComparison(const char *label, unsigned depth, unsigned times) {
    Comparison comparison = {
        .loads = {&read_pair, &set_del},
        .pairings = {{label, 0, 1, pair_target}},
        .conditions = {.depth = depth},
        .times = times,
    };
    return comparison;
}

static void comparePairs(const Options *options) {
    Comparison comparison = pairComparison("instructions, one at a time: read / SET+DEL", 1, 8000);
    compareInstructions(&comparison, options);
    comparison = pairComparison("instructions, pipelined: read / SET+DEL", 64, 8000);
    compareInstructions(&comparison, options);
    comparison = pairComparison("CPU, one at a time: read / SET+DEL", 1, 1000);
    compareCpu(&comparison, options);
    comparison = pairComparison("CPU, pipelined: read / SET+DEL", 64, 6000);
    compareCpu(&comparison, options);
}

/* ---- Each step, in instructions ------------------------------------------------------------- */

enum {
    COUNTED = 1000, /* together with the warm-up fewer than READERS_LOCKS: each owner once */
    SLICES = 8,
    QUICK_SLICES = 2,
};

static const char *const phase_names[PHASES] = {"acquire", "renew", "release"};

static void countPhase(const Options *options, Phase phase) {
    char label[64];
    Readers readers[SHAPES];
    Load loads[SHAPES];
    Comparison comparison = {.times = COUNTED};
    for (Shape shape = SHAPE_MANY; shape < SHAPES; shape++) {
        readers[shape] = (Readers){shape, phase};
        loads[shape] = (Load){"readers", {.module = true}, &readersKind, &readers[shape]};
        comparison.loads[shape] = &loads[shape];
    }
    snprintf(label, sizeof(label), "instructions, %s: 10000 readers / 10", phase_names[phase]);
    comparison.pairings[0] = (Pairing){label, SHAPE_MANY, SHAPE_FEW, growth_target};
    compareInstructions(&comparison, options);
}

/* ---- Each step, in CPU ---------------------------------------------------------------------- */

typedef struct Contender {
    Server *server;
    void *session;
    Series slices[PHASES]; /* of this round */
    Series rounds[PHASES];
} Contender;

static void playSlice(Contender *contender) {
    for (Phase phase = PHASE_ACQUIRE; phase < PHASES; phase++) {
        uint64_t before = probeCpuNs(contender->server);
        readersRunAll(contender->session, phase);
        uint64_t used = probeCpuNs(contender->server) - before;
        seriesAdd(&contender->slices[phase], (double)used / READERS_LOCKS);
    }
}

static void enter(Contender *contender, const Options *options, Shape shape) {
    const Readers readers = {shape, PHASE_ACQUIRE};
    const ServerOptions wanted = {.module = true};
    contender->server = serverStart(options, &wanted);
    contender->session = readersKind.open(contender->server, &readers, NULL);
    for (Phase phase = PHASE_ACQUIRE; phase < PHASES; phase++) {
        readersRunAll(contender->session, phase);
    }
}

static void leave(Contender *contender) {
    readersKind.close(contender->session);
    serverStop(contender->server);
    for (Phase phase = PHASE_ACQUIRE; phase < PHASES; phase++) {
        seriesAdd(&contender->rounds[phase], seriesMiddle(&contender->slices[phase]));
        seriesFree(&contender->slices[phase]);
    }
}

static void playRound(const Options *options, Contender *contenders) {
    unsigned slices = options->quick ? QUICK_SLICES : SLICES;
    for (Shape i = SHAPE_MANY; i < SHAPES; i++) {
        enter(&contenders[i], options, i);
    }
    for (unsigned slice = 0; slice < slices; slice++) {
        for (Shape i = SHAPE_MANY; i < SHAPES; i++) {
            playSlice(&contenders[slice % 2 == 0 ? i : SHAPES - 1 - i]);
        }
    }
    for (Shape i = SHAPE_MANY; i < SHAPES; i++) {
        leave(&contenders[i]);
    }
}

static void timePhases(const Options *options) {
    Contender contenders[SHAPES] = {0};
    for (unsigned round = 0; round < options->rounds; round++) {
        playRound(options, contenders);
    }
    for (Phase phase = PHASE_ACQUIRE; phase < PHASES; phase++) {
        char label[64];
        Row row = {.label = label, .unit = UNIT_NS};
        row.target_kind = TARGET_RATIO;
        row.target = growth_target;
        snprintf(label, sizeof(label), "CPU, %s: 10000 readers / 10", phase_names[phase]);
        tableSeries(row, &contenders[SHAPE_MANY].rounds[phase],
                    &contenders[SHAPE_FEW].rounds[phase]);
        seriesFree(&contenders[SHAPE_MANY].rounds[phase]);
        seriesFree(&contenders[SHAPE_FEW].rounds[phase]);
    }
}

/* ---- Lease ends ----------------------------------------------------------------------------- */

/* The leases of ENDS more readers expire one after another, on one lock or on a lock for each. Each
 * of these locks has a waiting writer: without a waiter the end of a lease would not be noticed.
 * What a server does in the same time without any such end is subtracted. Most of the CPU is spent
 * in waking up for each end. */
enum {
    ENDS = 1000,
    WRITERS_FEW = ENDS,
    LEASE_MS = 4000, /* until the first end: by then all is prepared, and the idle time has ended */
    APART_MS = 1,
    MARGIN_MS = 50, /* before the first end and after the last */
    WINDOW_MS = ENDS * APART_MS + 2 * MARGIN_MS,
};

static const uint64_t ms = 1000000;

typedef struct Ends {
    Server *server;
    Crowd *writers;
    uint64_t first_ns; /* when the first lease expires */
} Ends;

static const Step many_leavers[] = {{"LOCK.RWREAD lock n{owner}" READERS_HOUR, "1"}, STEPS_END};
static const Step few_leavers[] = {{"LOCK.RWREAD {key} n{owner}" READERS_HOUR, "1"}, STEPS_END};

static void beginToWrite(Ends *ends, bool many) {
    unsigned count = many ? 1 : WRITERS_FEW;
    ends->writers = crowdOpen(ends->server, count);
    for (unsigned i = 0; i < count; i++) {
        const char *text =
            many ? "LOCK.RWWRITE lock w{owner} BLOCK 0" : "LOCK.RWWRITE {key} w{owner} BLOCK 0";
        crowdSay(ends->writers, i, text, i);
    }
    crowdSettle(ends->writers);
}

/* Gives the additional readers leases that expire one after another. */
static void shorten(Ends *ends, bool many) {
    redisContext *control = ends->server->control;
    for (unsigned i = 0; i < ENDS; i++) {
        char text[80];
        snprintf(text, sizeof(text), "LOCK.RENEW %s n{owner} PX %u", many ? "lock" : "{key}",
                 LEASE_MS + i * APART_MS);
        templateQueue(control, text, i, i);
    }
    ends->first_ns = nowNs() + LEASE_MS * ms;
    for (unsigned i = 0; i < ENDS; i++) {
        redisReply *reply = serverReply(control);
        if (reply->integer != 1) {
            die("a reader had nothing to renew");
        }
        freeReplyObject(reply);
    }
}

static void endsBegin(Ends *ends, const Options *options, bool many) {
    const ServerOptions wanted = {.module = true};
    ends->server = serverStart(options, &wanted);
    requestsPrepare(ends->server, readersSteps[many ? SHAPE_MANY : SHAPE_FEW],
                    many ? READERS_MANY : ENDS);
    requestsPrepare(ends->server, many ? many_leavers : few_leavers, ENDS);
    beginToWrite(ends, many);
    shorten(ends, many);
}

/* The CPU that the server uses in a window in which all these leases can expire. */
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
        die("this machine is too slow for LEASE_MS in rw.c");
    }
    sleepNs(begin_ns - now_ns);
    double used = useMeanwhile(&ends);
    unsigned seen = (unsigned)probeCounter(ends.server, "lock_lease_ends");
    if (seen != ENDS) {
        die("%u leases should have expired, %u have", (unsigned)ENDS, seen);
    }
    crowdClose(ends.writers);
    serverStop(ends.server);
    return (used - idle) / ENDS;
}

static void compareLeaseEnds(const Options *options) {
    const Row row = {.label = "CPU, lease end: 10000 readers / 10",
                     .unit = UNIT_NS,
                     .target_kind = TARGET_RATIO,
                     .target = growth_target};
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

void rwMeasure(const Options *options) {
    tableHead("rw", "readers of a read-write lock");
    comparePairs(options);
    for (Phase phase = PHASE_ACQUIRE; phase < PHASES; phase++) {
        countPhase(options, phase);
    }
    timePhases(options);
    compareLeaseEnds(options);
}
