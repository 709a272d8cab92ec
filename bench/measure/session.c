/* Holds that are bound to a connection: how soon after the death of the holder a waiter is granted
 * the lock, and what it costs the server to renew a hundred thousand of them. */

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/table.h"
#include "load/crowd.h"
#include "load/requests.h"
#include "machine/callgrind.h"
#include "machine/probe.h"
#include "measure/measure.h"

/* ---- A holder that crashes ------------------------------------------------------------------ */

enum {
    CRASHES = 20, /* in a round */
    GRACE_MS = 50,
};

static const uint64_t ms = 1000000;

static void order(const Server *server, const char *text) {
    redisReply *reply = redisCommand(server->control, text);
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
        die("%s: %s", text, reply == NULL ? server->control->errstr : reply->str);
    }
    freeReplyObject(reply);
}

/* A process that holds the lock and does nothing else. */
static pid_t startHolder(const Server *server) {
    redisContext *connection = serverConnect(server);
    redisReply *reply = redisCommand(connection, "LOCK.ACQUIRE lock holder SESSION");
    if (reply == NULL || reply->type != REDIS_REPLY_INTEGER) {
        die("the lock was not free");
    }
    freeReplyObject(reply);
    pid_t holder = fork();
    if (holder == -1) {
        die("fork: %s", strerror(errno));
    }
    if (holder == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) {
            pause();
        }
    }
    redisFree(connection); /* the holder process keeps it open */
    return holder;
}

/* From the kill to the grant; this includes what the kernel does to end a process. */
static double crashToGrantNs(const Server *server, Crowd *waiter) {
    redisReply *reply = NULL;
    pid_t holder = startHolder(server);
    crowdSay(waiter, 0, "LOCK.ACQUIRE lock waiter BLOCK 0", 0);
    crowdSettle(waiter);
    uint64_t start = nowNs();
    kill(holder, SIGKILL);
    crowdNext(waiter, &reply);
    double elapsed_ns = (double)(nowNs() - start);
    freeReplyObject(reply);
    waitpid(holder, NULL, 0);
    crowdSay(waiter, 0, "LOCK.RELEASE lock waiter", 0);
    crowdNext(waiter, &reply);
    freeReplyObject(reply);
    return elapsed_ns;
}

/* How late this process itself is woken after the same time: while the CPUs are busy with other
 * work, a server cannot be faster. */
static double sleepLateNs(void) {
    uint64_t end = nowNs() + GRACE_MS * ms;
    sleepNs(GRACE_MS * ms);
    return (double)(nowNs() - end);
}

/* `target_ns` is for the slowest; 0 = none. */
static void printLate(const char *what, Series *late, double target_ns) {
    char label[80];
    Row row = {.label = label, .unit = UNIT_NS};
    snprintf(label, sizeof(label), "%s: median", what);
    row.ours = seriesMedian(late);
    tableRow(&row);
    snprintf(label, sizeof(label), "%s: slowest of %zu", what, late->count);
    row.ours = seriesAt(late, 1);
    row.target_kind = target_ns > 0 ? TARGET_OURS : TARGET_NONE;
    row.target = target_ns;
    tableRow(&row);
    seriesFree(late);
}

static void measureCrashes(const Options *options) {
    const ServerOptions wanted = {.module = true};
    Series grants = {0};
    Series sleeps = {0};
    char text[64];
    Server *server = serverStart(options, &wanted);
    Crowd *waiter = crowdOpen(server, 1);
    snprintf(text, sizeof(text), "CONFIG SET lock.session-grace %u", (unsigned)GRACE_MS);
    order(server, text);
    for (unsigned i = 0; i < options->rounds * CRASHES; i++) {
        seriesAdd(&grants, crashToGrantNs(server, waiter) - (double)(GRACE_MS * ms));
        seriesAdd(&sleeps, sleepLateNs());
    }
    crowdClose(waiter);
    serverStop(server);
    printLate("crash to grant, less the grace", &grants, 5e6);
    printLate("for comparison, a sleeping process", &sleeps, 0);
}

/* ---- Renewing ------------------------------------------------------------------------------- */

enum { PATIENCE_MS = 20000 };

/* The time in which each hold is renewed once, a third of lock.default-lease. Meanwhile a client
 * sends a PING now and then. */
typedef struct Window {
    unsigned holds;
    unsigned length_ms;
    uint64_t pause_ns; /* between two PINGs */
    bool count;        /* count instructions, do not measure time */
} Window;

static const Window whole = {100000, 10000, 2000000, false};
static const Window quick = {10000, 1000, 2000000, false};
static const Window counted = {2000, 2000, 1000000000, true};

/* What a server has used, one value for each window. */
typedef struct Used {
    Series share; /* of a CPU */
    Series cpu_ns;
    Series instructions;
    Series changes; /* of keys: a renewal makes one, nothing else does */
    Series pings;   /* in ns, of all windows */
} Used;

static const Step bound[] = {{"LOCK.ACQUIRE {key} {owner} SESSION", "1"}, STEPS_END};
static const Step leased[] = {{"LOCK.ACQUIRE {key} {owner} PX 3600000", "1"}, STEPS_END};

static void pingFor(const Server *server, const Window *window, Series *pings) {
    uint64_t end = nowNs() + window->length_ms * ms;
    while (nowNs() < end) {
        uint64_t start = nowNs();
        order(server, "PING");
        seriesAdd(pings, (double)(nowNs() - start));
        sleepNs(window->pause_ns);
    }
}

static double changes(const Server *server) {
    return (double)probeCounter(server, "rdb_changes_since_last_save");
}

/* Returns half-way between the first round of renewals and the second, so that no renewal is near
 * the beginning or the end of the window. */
static void waitBetweenRounds(const Server *server, const Window *window) {
    uint64_t give_up = nowNs() + (window->length_ms + PATIENCE_MS) * ms;
    double before = changes(server);
    while (changes(server) - before < window->holds) {
        if (nowNs() > give_up) {
            die("not all holds are renewed");
        }
        sleepNs(10 * ms);
    }
    sleepNs(window->length_ms / 2 * ms);
}

static void watch(Server *server, const Window *window, Used *used) {
    if (window->count) {
        callgrindStart(server);
    }
    double changed = changes(server);
    uint64_t start = nowNs();
    uint64_t cpu_ns = probeCpuNs(server);
    pingFor(server, window, &used->pings);
    double used_ns = (double)(probeCpuNs(server) - cpu_ns);
    seriesAdd(&used->cpu_ns, used_ns);
    seriesAdd(&used->share, used_ns / (double)(nowNs() - start));
    seriesAdd(&used->changes, changes(server) - changed);
    if (window->count) {
        seriesAdd(&used->instructions, (double)callgrindCounted(server));
    }
}

/* On a server of its own; the connection stays open until the end. */
static void watchHolds(const Options *options, const Window *window, const Step *take, Used *used) {
    const ServerOptions wanted = {.module = true, .callgrind = window->count};
    const Conditions conditions = {.depth = 100};
    const Requests requests = {.steps = take, .keys = window->holds};
    char text[64];
    Server *server = serverStart(options, &wanted);
    snprintf(text, sizeof(text), "CONFIG SET lock.default-lease %u", 3 * window->length_ms);
    order(server, text);
    void *session = requestsKind.open(server, &requests, &conditions);
    requestsKind.run(session, window->holds);
    if (take == bound) {
        waitBetweenRounds(server, window);
    }
    watch(server, window, used);
    if (probeCounter(server, "lock_sessions") != (take == bound ? window->holds : 0)) {
        die("holds have been lost meanwhile");
    }
    requestsKind.close(session);
    serverStop(server);
}

/* For each round, how much more ours has used than the other server. */
static Series less(const Series *ours, const Series *theirs) {
    Series rest = {0};
    for (size_t i = 0; i < ours->count; i++) {
        seriesAdd(&rest, ours->values[i] - theirs->values[i]);
    }
    return rest;
}

/* A row of that difference, divided by `by` unless `by` is NULL. */
static void printLess(Row row, const Series *ours, const Series *theirs, const Series *by) {
    Series rest = less(ours, theirs);
    Series quotient = by ? seriesRatio(&rest, by) : seriesCopy(&rest);
    tableSeries(row, &quotient, NULL);
    seriesFree(&rest);
    seriesFree(&quotient);
}

static void printPings(Used *ours, Used *theirs) {
    Row row = {.label = "PING meanwhile: slowest, bound / leased", .unit = UNIT_NS};
    row.ours = seriesAt(&ours->pings, 1);
    row.theirs = seriesAt(&theirs->pings, 1);
    tableRow(&row);
    row.label = "PING meanwhile: p99.9, bound / leased";
    row.ours = seriesAt(&ours->pings, 0.999);
    row.theirs = seriesAt(&theirs->pings, 0.999);
    tableRow(&row);
}

static void printTime(const Window *window, Used *ours, Used *theirs) {
    char label[80];
    Row row = {.label = label, .unit = UNIT_SHARE};
    snprintf(label, sizeof(label), "share of a CPU: %u holds, bound / leased", window->holds);
    row.ours = seriesMedian(&ours->share);
    row.theirs = seriesMedian(&theirs->share);
    tableRow(&row);
    snprintf(label, sizeof(label), "share of a CPU: %u renewals in %u s", window->holds,
             window->length_ms / 1000);
    row = (Row){.label = label, .unit = UNIT_SHARE, .target_kind = TARGET_OURS, .target = 0.02};
    printLess(row, &ours->share, &theirs->share, NULL);
    printLess((Row){.label = "CPU: a renewal", .unit = UNIT_NS}, &ours->cpu_ns, &theirs->cpu_ns,
              &ours->changes);
    printPings(ours, theirs);
}

static void usedFree(Used *used) {
    seriesFree(&used->share);
    seriesFree(&used->cpu_ns);
    seriesFree(&used->instructions);
    seriesFree(&used->changes);
    seriesFree(&used->pings);
}

static void measureRenewals(const Options *options, const Window *window, unsigned rounds) {
    Used ours = {0};
    Used theirs = {0};
    for (unsigned round = 0; round < rounds; round++) {
        watchHolds(options, window, bound, &ours);
        watchHolds(options, window, leased, &theirs);
    }
    if (window->count) {
        printLess((Row){.label = "instructions: a renewal", .unit = UNIT_INSTRUCTIONS},
                  &ours.instructions, &theirs.instructions, &ours.changes);
    } else {
        printTime(window, &ours, &theirs);
    }
    usedFree(&ours);
    usedFree(&theirs);
}

void sessionMeasure(const Options *options) {
    tableHead("session", "holds that are bound to a connection");
    measureCrashes(options);
    measureRenewals(options, options->quick ? &quick : &whole, options->rounds);
    if (options->callgrind) {
        measureRenewals(options, &counted, 1);
    }
}
