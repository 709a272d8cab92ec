/* (g) What readers cost: taking and giving back one read hold against SET and DEL, and each step on
 * a lock that 10,000 read against one that ten read. */

#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>

#include "contest.h"
#include "leaseends.h"
#include "probe.h"
#include "readers.h"
#include "table.h"

#define END \
    { NULL, NULL }

static const double pair_target = 2.5;
static const double growth_target = 2.0;

/* ---- A pair --------------------------------------------------------------------------------- */

static const Requests read_steps = {.steps = (const Step[]){
                                        {"LOCK.RWREAD {key} {owner} PX 30000", "1"},
                                        {"LOCK.RELEASE {key} {owner}", "0"},
                                        END,
                                    }};

static const Requests set_del_steps = {.steps = (const Step[]){
                                           {"SET {key} {owner} NX PX 30000", "OK"},
                                           {"DEL {key}", "1"},
                                           END,
                                       }};

static const Load read_pair = {"RWREAD", {.module = true}, &requestsKind, &read_steps};
static const Load set_del = {"SET + DEL", {0}, &requestsKind, &set_del_steps};

static Contest pairContest(const char *label, unsigned depth, unsigned times) {
    Contest contest = {
        .loads = {&read_pair, &set_del},
        .pairings = {{label, 0, 1, pair_target}},
        .conditions = {.depth = depth},
        .times = times,
    };
    return contest;
}

static void comparePairs(const Options *options) {
    Contest contest = pairContest("instructions, one at a time: read / SET+DEL", 1, 8000);
    contestInstructions(&contest, options);
    contest = pairContest("instructions, pipelined: read / SET+DEL", 64, 8000);
    contestInstructions(&contest, options);
    contest = pairContest("CPU, one at a time: read / SET+DEL", 1, 1000);
    contestCpu(&contest, options);
    contest = pairContest("CPU, pipelined: read / SET+DEL", 64, 6000);
    contestCpu(&contest, options);
}

/* ---- Many readers --------------------------------------------------------------------------- */

/* On one lock that 10,000 read, or on each of LOCKS locks that ten read, one more owner takes a
 * read hold, renews it and gives it back. Both servers so have as many holds in memory. */
enum {
    LOCKS = 1500,
    COUNTED = 1000, /* with callgrind's warm-up fewer than LOCKS: each is done once */
    SLICES = 8,
    QUICK_SLICES = 2,
    DEPTH = 64,
};

typedef enum Phase { ACQUIRE, RENEW, RELEASE, PHASES } Phase;

static const char *const phase_names[PHASES] = {"acquire", "renew", "release"};

#define PHASES_ON(key)                                                       \
    {                                                                        \
        [ACQUIRE] = {{"LOCK.RWREAD " key " n{owner} PX 1800000", "1"}, END}, \
        [RENEW] = {{"LOCK.RENEW " key " n{owner} PX 1900000", "1"}, END},    \
        [RELEASE] = {{"LOCK.RELEASE " key " n{owner}", "0"}, END},           \
    }

static const Step many_phases[PHASES][2] = PHASES_ON("lock");
static const Step few_phases[PHASES][2] = PHASES_ON("{key}");

/* A lock that many read, or locks that few read. */
typedef struct Shape {
    const Step *prepare;
    unsigned prepare_times;
    const Step (*phases)[2];
} Shape;

enum { MANY, FEW, SHAPES };

static const Shape shapes[SHAPES] = {
    [MANY] = {readersOnOne, READERS_MANY, many_phases},
    [FEW] = {readersOnEach, LOCKS, few_phases},
};

/* ---- Each step, in instructions ------------------------------------------------------------- */

/* The phases as sessions of requests, on connections of their own. */
typedef struct Session {
    void *phases[PHASES];
    Phase phase; /* whose turn it is, if it is a load's */
} Session;

typedef struct Counted {
    const Shape *shape;
    Phase phase;
} Counted;

static void runAll(Session *session, Phase phase) {
    requestsKind.run(session->phases[phase], LOCKS);
}

static Session *sessionOpen(const Server *server, const Shape *shape) {
    const Conditions conditions = {.depth = DEPTH};
    Session *session = allocate(sizeof(*session));
    for (Phase phase = ACQUIRE; phase < PHASES; phase++) {
        const Requests requests = {
            .prepare = phase == ACQUIRE ? shape->prepare : NULL,
            .prepare_times = shape->prepare_times,
            .steps = shape->phases[phase],
            .keys = LOCKS,
        };
        session->phases[phase] = requestsKind.open(server, &requests, &conditions);
    }
    return session;
}

static void sessionClose(void *state) {
    Session *session = state;
    for (Phase phase = ACQUIRE; phase < PHASES; phase++) {
        requestsKind.close(session->phases[phase]);
    }
    free(session);
}

/* Ready for the phase that is to be counted: those before it are done. */
static void *countedOpen(const Server *server, const void *what, const Conditions *conditions) {
    const Counted *counted = what;
    (void)conditions;
    Session *session = sessionOpen(server, counted->shape);
    session->phase = counted->phase;
    for (Phase before = ACQUIRE; before < counted->phase; before++) {
        runAll(session, before);
    }
    return session;
}

static void countedRun(void *state, unsigned times) {
    Session *session = state;
    requestsKind.run(session->phases[session->phase], times);
}

static const LoadKind countedKind = {countedOpen, countedRun, sessionClose};

static void countPhase(const Options *options, Phase phase) {
    char label[64];
    Counted counted[SHAPES];
    Load loads[SHAPES];
    Contest contest = {.times = COUNTED};
    for (unsigned i = 0; i < SHAPES; i++) {
        counted[i] = (Counted){&shapes[i], phase};
        loads[i] = (Load){"readers", {.module = true}, &countedKind, &counted[i]};
        contest.loads[i] = &loads[i];
    }
    snprintf(label, sizeof(label), "instructions, %s: 10000 readers / 10", phase_names[phase]);
    contest.pairings[0] = (Pairing){label, MANY, FEW, growth_target};
    contestInstructions(&contest, options);
}

/* ---- Each step, in CPU ---------------------------------------------------------------------- */

typedef struct Contender {
    Server *server;
    Session *session;
    Series slices[PHASES]; /* of this round */
    Series rounds[PHASES];
} Contender;

static void playSlice(Contender *contender) {
    for (Phase phase = ACQUIRE; phase < PHASES; phase++) {
        uint64_t before = probeCpuNs(contender->server);
        runAll(contender->session, phase);
        uint64_t used = probeCpuNs(contender->server) - before;
        seriesAdd(&contender->slices[phase], (double)used / LOCKS);
    }
}

static void enter(Contender *contender, const Options *options, const Shape *shape) {
    const ServerOptions wanted = {.module = true};
    contender->server = serverStart(options, &wanted);
    contender->session = sessionOpen(contender->server, shape);
    for (Phase phase = ACQUIRE; phase < PHASES; phase++) {
        runAll(contender->session, phase);
    }
}

static void leave(Contender *contender) {
    sessionClose(contender->session);
    serverStop(contender->server);
    for (Phase phase = ACQUIRE; phase < PHASES; phase++) {
        seriesAdd(&contender->rounds[phase], seriesMiddle(&contender->slices[phase]));
        seriesFree(&contender->slices[phase]);
    }
}

static void playRound(const Options *options, Contender *contenders) {
    unsigned slices = options->quick ? QUICK_SLICES : SLICES;
    for (unsigned i = 0; i < SHAPES; i++) {
        enter(&contenders[i], options, &shapes[i]);
    }
    for (unsigned slice = 0; slice < slices; slice++) {
        for (unsigned i = 0; i < SHAPES; i++) {
            playSlice(&contenders[slice % 2 == 0 ? i : SHAPES - 1 - i]);
        }
    }
    for (unsigned i = 0; i < SHAPES; i++) {
        leave(&contenders[i]);
    }
}

static void timePhases(const Options *options) {
    Contender contenders[SHAPES] = {0};
    for (unsigned round = 0; round < options->rounds; round++) {
        playRound(options, contenders);
    }
    for (Phase phase = ACQUIRE; phase < PHASES; phase++) {
        char label[64];
        Row row = {.label = label, .unit = UNIT_NS};
        row.target_kind = TARGET_RATIO;
        row.target = growth_target;
        snprintf(label, sizeof(label), "CPU, %s: 10000 readers / 10", phase_names[phase]);
        tableSeries(row, &contenders[MANY].rounds[phase], &contenders[FEW].rounds[phase]);
        seriesFree(&contenders[MANY].rounds[phase]);
        seriesFree(&contenders[FEW].rounds[phase]);
    }
}

void rwMeasure(const Options *options) {
    tableHead("rw", "readers of a read-write lock");
    comparePairs(options);
    for (Phase phase = ACQUIRE; phase < PHASES; phase++) {
        countPhase(options, phase);
    }
    timePhases(options);
    leaseendsCompare(options, growth_target);
}
