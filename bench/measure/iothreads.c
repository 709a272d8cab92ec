/* What the server's I/O threads (`io-threads`) change for the module's commands: the time that a
 * load takes with them and without, and the CPU of all threads of the server. A load is measured on
 * two servers that differ only in this setting, in alternating slices.
 *
 * The servers may use all CPUs, because the threads are of no use on one CPU. So these figures are
 * less steady than those of the other measurements. */

#include "base/table.h"
#include "load/bursts.h"
#include "load/handoff.h"
#include "machine/probe.h"
#include "measure/measure.h"

enum {
    THREADS = 3,
    SLICES = 10,
    QUICK_SLICES = 2,
    SIDES = 2, /* with threads, without */
    CLIENTS = 1200,
};

static const Bursts pairs = {
    .clients = 50,
    .depth = 16,
    .requests = {"LOCK.ACQUIRE {key} {owner} PX 30000", "LOCK.RELEASE {key} {owner}"},
};
static const Bursts plain = {
    .clients = 50,
    .depth = 16,
    .requests = {"SET {key} {owner} NX PX 30000", "DEL {key}"},
};
#define HANDOFF(waiters)                                                                   \
    {                                                                                      \
        NULL, "LOCK.ACQUIRE {key} {owner} PX 30000 BLOCK 0", "LOCK.RELEASE {key} {owner}", \
            waiters, 1                                                                     \
    }
static const Handoff list = {"RPUSH {key} token", "BLPOP {key} 0", "RPUSH {key} token", 1, 1};
static const Handoff few = HANDOFF(1);
static const Handoff many = HANDOFF(1000);

typedef struct Subject {
    const char *time_label;
    const char *cpu_label;
    const LoadKind *kind;
    const void *what;
    unsigned times; /* in a slice */
} Subject;

static const Subject subjects[] = {
    {"time, 50 clients' SET + DEL: threads / none", "CPU", &burstsKind, &plain, 20},
    {"time, 50 clients' LOCK pairs: threads / none", "CPU", &burstsKind, &pairs, 20},
    {"time, a BLPOP's hand-off, 1 waiting: threads / none", "CPU", &handoffKind, &list, 2000},
    {"time, a hand-off, 1 waiting: threads / none", "CPU", &handoffKind, &few, 2000},
    {"time, a hand-off, 1,000 waiting: threads / none", "CPU", &handoffKind, &many, 2000},
};

typedef struct Side {
    Server *server;
    void *session;
    Series times, cpu; /* ns for one time of the load, of each slice */
} Side;

static void sideOpen(Side *side, const Options *options, const Subject *subject, unsigned threads) {
    const ServerOptions wanted = {
        .module = true, .anywhere = true, .io_threads = threads, .clients = CLIENTS};
    const Conditions conditions = {0};
    *side = (Side){.server = serverStart(options, &wanted)};
    side->session = subject->kind->open(side->server, subject->what, &conditions);
    subject->kind->run(side->session, subject->times);
}

static void sidePlay(Side *side, const Subject *subject) {
    uint64_t cpu = probeCpuNs(side->server), start = nowNs();
    subject->kind->run(side->session, subject->times);
    seriesAdd(&side->times, (double)(nowNs() - start) / subject->times);
    seriesAdd(&side->cpu, (double)(probeCpuNs(side->server) - cpu) / subject->times);
}

static void sideClose(Side *side, const Subject *subject) {
    subject->kind->close(side->session);
    serverStop(side->server);
}

static void playRound(const Options *options, const Subject *subject, Series times[SIDES],
                      Series cpu[SIDES]) {
    Side sides[SIDES];
    unsigned slices = options->quick ? QUICK_SLICES : SLICES;
    sideOpen(&sides[0], options, subject, THREADS);
    sideOpen(&sides[1], options, subject, 0);
    for (unsigned i = 0; i < slices * SIDES; i++) {
        sidePlay(&sides[i % SIDES], subject);
    }
    for (unsigned i = 0; i < SIDES; i++) {
        seriesAdd(&times[i], seriesMiddle(&sides[i].times));
        seriesAdd(&cpu[i], seriesMiddle(&sides[i].cpu));
        sideClose(&sides[i], subject);
        seriesFree(&sides[i].times);
        seriesFree(&sides[i].cpu);
    }
}

static void measure(const Options *options, const Subject *subject) {
    Series times[SIDES] = {{0}}, cpu[SIDES] = {{0}};
    for (unsigned round = 0; round < options->rounds; round++) {
        playRound(options, subject, times, cpu);
    }
    tableSeries((Row){.label = subject->time_label, .unit = UNIT_NS}, &times[0], &times[1]);
    tableSeries((Row){.label = subject->cpu_label, .unit = UNIT_NS}, &cpu[0], &cpu[1]);
    for (unsigned i = 0; i < SIDES; i++) {
        seriesFree(&times[i]);
        seriesFree(&cpu[i]);
    }
}

void iothreadsMeasure(const Options *options) {
    tableHead("iothreads", "the same load with 3 I/O threads and without, on all CPUs");
    for (unsigned i = 0; i < sizeof(subjects) / sizeof(*subjects); i++) {
        measure(options, &subjects[i]);
    }
}
