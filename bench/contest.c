/* Rounds, slices and rows. */

#include "contest.h"
#include "callgrind.h"
#include "probe.h"
#include "table.h"

enum {
    SLICES = 8,
    QUICK_SLICES = 4,
    QUICK_DIVISOR = 5,
};

typedef struct Contender {
    Server *server;
    void *session;
    Series slices; /* of this round: CPU ns for each time */
    Series rounds;
} Contender;

static unsigned countLoads(const Contest *contest) {
    unsigned count = 0;
    while (count < CONTEST_LOADS && contest->loads[count] != NULL) {
        count++;
    }
    return count;
}

static unsigned slicesOf(const Options *options) {
    return options->quick ? QUICK_SLICES : SLICES;
}

static unsigned timesOf(const Contest *contest, const Options *options) {
    return options->quick ? contest->times / QUICK_DIVISOR : contest->times;
}

static ServerOptions serverOptions(const Load *load, const Conditions *conditions) {
    ServerOptions wanted = load->server;
    wanted.aof = wanted.aof || conditions->aof;
    wanted.apart = wanted.apart || conditions->apart;
    return wanted;
}

/* ---- CPU ------------------------------------------------------------------------------------ */

static void enter(Contender *contender, const Load *load, const Contest *contest,
                  const Options *options, unsigned warm_up) {
    ServerOptions wanted = serverOptions(load, &contest->conditions);
    contender->server = serverStart(options, &wanted);
    contender->session = load->kind->open(contender->server, load->what, &contest->conditions);
    load->kind->run(contender->session, warm_up);
}

static void leave(Contender *contender, const Load *load) {
    load->kind->close(contender->session);
    serverStop(contender->server);
    seriesAdd(&contender->rounds, seriesMiddle(&contender->slices));
    seriesFree(&contender->slices);
}

static void playSlice(Contender *contender, const Load *load, unsigned times) {
    uint64_t before = probeCpuNs(contender->server);
    load->kind->run(contender->session, times);
    uint64_t used = probeCpuNs(contender->server) - before;
    seriesAdd(&contender->slices, (double)used / times);
}

/* All at once: they take turns. */
static void playTogether(const Contest *contest, const Options *options, Contender *contenders,
                         unsigned count, unsigned times) {
    for (unsigned i = 0; i < count; i++) {
        enter(&contenders[i], contest->loads[i], contest, options, times);
    }
    for (unsigned slice = 0; slice < slicesOf(options); slice++) {
        for (unsigned turn = 0; turn < count; turn++) {
            unsigned i = slice % 2 == 0 ? turn : count - 1 - turn;
            playSlice(&contenders[i], contest->loads[i], times);
        }
    }
    for (unsigned i = 0; i < count; i++) {
        leave(&contenders[i], contest->loads[i]);
    }
}

static void playAlone(const Contest *contest, const Options *options, Contender *contender,
                      unsigned i, unsigned times) {
    enter(contender, contest->loads[i], contest, options, times);
    for (unsigned slice = 0; slice < slicesOf(options); slice++) {
        playSlice(contender, contest->loads[i], times);
    }
    leave(contender, contest->loads[i]);
}

static void playRound(const Contest *contest, const Options *options, Contender *contenders,
                      unsigned round) {
    unsigned count = countLoads(contest);
    unsigned times = timesOf(contest, options);
    if (!contest->conditions.alone) {
        playTogether(contest, options, contenders, count, times);
        return;
    }
    for (unsigned turn = 0; turn < count; turn++) {
        unsigned i = round % 2 == 0 ? turn : count - 1 - turn;
        playAlone(contest, options, &contenders[i], i, times);
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

void contestCpu(const Contest *contest, const Options *options) {
    Contender contenders[CONTEST_LOADS] = {0};
    unsigned count = countLoads(contest);
    for (unsigned round = 0; round < options->rounds; round++) {
        playRound(contest, options, contenders, round);
    }
    for (unsigned i = 0; i < CONTEST_PAIRINGS && contest->pairings[i].label != NULL; i++) {
        const Pairing *pairing = &contest->pairings[i];
        /* Printing sorts, and a later row still needs the rounds in their order. */
        Series ours = seriesCopy(&contenders[pairing->ours].rounds);
        Series theirs = seriesCopy(&contenders[pairing->theirs].rounds);
        tableSeries(rowOf(pairing, UNIT_NS), &ours, &theirs);
        seriesFree(&ours);
        seriesFree(&theirs);
    }
    for (unsigned i = 0; i < count; i++) {
        seriesFree(&contenders[i].rounds);
    }
}

/* ---- Instructions --------------------------------------------------------------------------- */

void contestInstructions(const Contest *contest, const Options *options) {
    double cost[CONTEST_LOADS];
    if (!options->callgrind) {
        tableNote("no valgrind here: instructions not counted");
        return;
    }
    unsigned count = countLoads(contest);
    unsigned times = timesOf(contest, options);
    for (unsigned i = 0; i < count; i++) {
        ServerOptions wanted = serverOptions(contest->loads[i], &contest->conditions);
        cost[i] = callgrindCount(options, contest->loads[i], &wanted, &contest->conditions, times);
    }
    for (unsigned i = 0; i < CONTEST_PAIRINGS && contest->pairings[i].label != NULL; i++) {
        Row row = rowOf(&contest->pairings[i], UNIT_INSTRUCTIONS);
        row.ours = cost[contest->pairings[i].ours];
        row.theirs = cost[contest->pairings[i].theirs];
        tableRow(&row);
    }
}
