/* What the search for cycles costs a request that begins to wait, by the length of the chain of
 * waits that is searched, against the same with lock.deadlock-detection off; and what it costs to
 * refuse a request that would close a cycle. */

#include <stdio.h>

#include "base/table.h"
#include "load/chain.h"
#include "load/comparison.h"
#include "machine/probe.h"
#include "measure/measure.h"

enum {
    COUNTED_TIMES = 3000,
    SLICE_TIMES = 2500,
    LONG_CHAIN = 10000,
    MIN_FILES = LONG_CHAIN + 2000,
    CLOSINGS = 40,
};

/* For a request behind one holder that waits for nothing. */
#define TARGET 1.1

enum { SHORT, TEN, HUNDRED, LENGTHS };

static const Chain searched[LENGTHS] = {{1, true}, {10, true}, {100, true}};
static const Chain unsearched[LENGTHS] = {{1, false}, {10, false}, {100, false}};

static const struct {
    const char *counted, *timed;
    double target;
} labels[LENGTHS] = {
    {"instructions, 1 holder: detection on / off", "CPU, 1 holder: detection on / off", TARGET},
    {"instructions, chain of 10: on / off", "CPU, chain of 10: on / off", 0},
    {"instructions, chain of 100: on / off", "CPU, chain of 100: on / off", 0},
};

static Load loadOf(const Chain *chain) {
    Load load = {
        .name = "chain",
        .server = {.module = true, .clients = chain->length + 200},
        .kind = &chainKind,
        .what = chain,
    };
    return load;
}

static void compareOne(const Options *options, unsigned i) {
    const Load ours = loadOf(&searched[i]);
    const Load theirs = loadOf(&unsearched[i]);
    Comparison comparison = {
        .loads = {&ours, &theirs},
        .pairings = {{labels[i].counted, 0, 1, 0}},
        .times = COUNTED_TIMES,
    };
    compareInstructions(&comparison, options);
    comparison.pairings[0] = (Pairing){labels[i].timed, 0, 1, labels[i].target};
    comparison.times = SLICE_TIMES;
    compareCpu(&comparison, options);
}

static void refuseLong(const Options *options) {
    static const Chain chain = {LONG_CHAIN, true};
    const Load load = loadOf(&chain);
    const Conditions conditions = {0};
    Server *server = serverStart(options, &load.server);
    void *session = load.kind->open(server, load.what, &conditions);
    chainClose(session, 1);
    Series each = {0};
    for (unsigned i = 0; i < CLOSINGS; i++) {
        uint64_t before = probeCpuNs(server);
        chainClose(session, 1);
        seriesAdd(&each, (double)(probeCpuNs(server) - before));
    }
    Row row = {.label = "CPU: refusing a request that closes a cycle of 10000", .unit = UNIT_NS};
    tableSeries(row, &each, NULL);
    seriesFree(&each);
    load.kind->close(session);
    serverStop(server);
}

void deadlockMeasure(const Options *options) {
    tableHead("deadlock",
              "an ACQUIRE that begins to wait, and its CANCEL, by length of the search");
    for (unsigned i = 0; i < LENGTHS; i++) {
        compareOne(options, i);
    }
    if (options->files < MIN_FILES) {
        tableNote("skipped: the chain of 10000, which needs %d open connections", MIN_FILES);
        return;
    }
    refuseLong(options);
}
