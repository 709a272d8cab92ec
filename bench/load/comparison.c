/* Rounds, slices and rows. */

#include "load/comparison.h"
#include "base/table.h"
#include "machine/callgrind.h"
#include "machine/probe.h"

enum {
    SLICES = 8,
    WARM_UP = 300, /* under callgrind */
    QUICK_SLICES = 4,
    QUICK_DIVISOR = 5,
};

typedef struct Contender {
    Server *server;
    void *session;
    Series slices; /* of this round: CPU ns per time */
    Series rounds;
} Contender;

static unsigned countLoads(const Comparison *comparison) {
    unsigned count = 0;
    while (count < COMPARISON_LOADS && comparison->loads[count] != NULL) {
        count++;
    }
    return count;
}

static unsigned slicesOf(const Options *options) {
    return options->quick ? QUICK_SLICES : SLICES;
}

static unsigned timesOf(const Comparison *comparison, const Options *options) {
    return options->quick ? comparison->times / QUICK_DIVISOR : comparison->times;
}

static ServerOptions serverOptions(const Load *load, const Conditions *conditions) {
    ServerOptions wanted = load->server;
    wanted.aof = wanted.aof || conditions->aof;
    wanted.apart = wanted.apart || conditions->apart;
    return wanted;
}

/* ---- CPU ------------------------------------------------------------------------------------ */

typedef struct Play {
    const Comparison *comparison;
    const Options *options;
    unsigned times; /* of the load in a slice */
    Contender contenders[COMPARISON_LOADS];
} Play;

static void enter(Play *play, unsigned i) {
    const Load *load = play->comparison->loads[i];
    const Conditions *conditions = &play->comparison->conditions;
    Contender *contender = &play->contenders[i];
    ServerOptions wanted = serverOptions(load, conditions);
    contender->server = serverStart(play->options, &wanted);
    contender->session = load->kind->open(contender->server, load->what, conditions);
    load->kind->run(contender->session, play->times);
}

static void leave(Play *play, unsigned i) {
    Contender *contender = &play->contenders[i];
    play->comparison->loads[i]->kind->close(contender->session);
    serverStop(contender->server);
    seriesAdd(&contender->rounds, seriesMiddle(&contender->slices));
    seriesFree(&contender->slices);
}

static void playSlice(Play *play, unsigned i) {
    Contender *contender = &play->contenders[i];
    uint64_t before = probeCpuNs(contender->server);
    play->comparison->loads[i]->kind->run(contender->session, play->times);
    uint64_t used = probeCpuNs(contender->server) - before;
    seriesAdd(&contender->slices, (double)used / play->times);
}

/* All servers run at the same time; the loads alternate. */
static void playTogether(Play *play, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        enter(play, i);
    }
    for (unsigned slice = 0; slice < slicesOf(play->options); slice++) {
        for (unsigned turn = 0; turn < count; turn++) {
            playSlice(play, slice % 2 == 0 ? turn : count - 1 - turn);
        }
    }
    for (unsigned i = 0; i < count; i++) {
        leave(play, i);
    }
}

static void playAlone(Play *play, unsigned i) {
    enter(play, i);
    for (unsigned slice = 0; slice < slicesOf(play->options); slice++) {
        playSlice(play, i);
    }
    leave(play, i);
}

static void playRound(Play *play, unsigned round) {
    unsigned count = countLoads(play->comparison);
    if (!play->comparison->conditions.alone) {
        playTogether(play, count);
        return;
    }
    for (unsigned turn = 0; turn < count; turn++) {
        playAlone(play, round % 2 == 0 ? turn : count - 1 - turn);
    }
}

static Row rowOf(const Pairing *pairing, Unit unit) {
    Row row = {.label = pairing->label, .unit = unit};
    if (pairing->target > 0) {
        row.target_kind = TARGET_RATIO;
        row.target = pairing->target;
    }
    return row;
}

void compareCpu(const Comparison *comparison, const Options *options) {
    Play play = {comparison, options, timesOf(comparison, options), {{0}}};
    for (unsigned round = 0; round < options->rounds; round++) {
        playRound(&play, round);
    }
    for (unsigned i = 0; i < COMPARISON_PAIRINGS && comparison->pairings[i].label != NULL; i++) {
        const Pairing *pairing = &comparison->pairings[i];
        /* Printing sorts a series, and a later row needs the rounds in their order. */
        Series ours = seriesCopy(&play.contenders[pairing->ours].rounds);
        Series theirs = seriesCopy(&play.contenders[pairing->theirs].rounds);
        tableSeries(rowOf(pairing, UNIT_NS), &ours, &theirs);
        seriesFree(&ours);
        seriesFree(&theirs);
    }
    for (unsigned i = 0; i < countLoads(comparison); i++) {
        seriesFree(&play.contenders[i].rounds);
    }
}

/* ---- Instructions --------------------------------------------------------------------------- */

/* The server does the work, and is then idle for as long as the work took. The difference is the
 * work without what the server does periodically. Returns the instructions for one time of the
 * load. */
static double countLoad(const Comparison *comparison, const Options *options, const Load *load) {
    unsigned times = timesOf(comparison, options);
    ServerOptions wanted = serverOptions(load, &comparison->conditions);
    wanted.callgrind = true;
    Server *server = serverStart(options, &wanted);
    void *session = load->kind->open(server, load->what, &comparison->conditions);
    load->kind->run(session, WARM_UP);
    callgrindStart(server);
    uint64_t start = nowNs();
    load->kind->run(session, times);
    uint64_t elapsed_ns = nowNs() - start;
    double with = (double)callgrindCounted(server);
    sleepNs(elapsed_ns);
    double without = (double)callgrindCounted(server);
    load->kind->close(session);
    serverStop(server);
    return (with - without) / times;
}

void compareInstructions(const Comparison *comparison, const Options *options) {
    double cost[COMPARISON_LOADS];
    if (!options->callgrind) {
        tableNote("valgrind is not installed: instructions not counted");
        return;
    }
    unsigned count = countLoads(comparison);
    for (unsigned i = 0; i < count; i++) {
        cost[i] = countLoad(comparison, options, comparison->loads[i]);
    }
    for (unsigned i = 0; i < COMPARISON_PAIRINGS && comparison->pairings[i].label != NULL; i++) {
        Row row = rowOf(&comparison->pairings[i], UNIT_INSTRUCTIONS);
        row.ours = cost[comparison->pairings[i].ours];
        row.theirs = cost[comparison->pairings[i].theirs];
        tableRow(&row);
    }
}
