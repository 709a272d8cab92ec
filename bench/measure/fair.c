/* What the order of LOCK.FAIR costs, which is stored in keys: a hand-off against one by
 * LOCK.ACQUIRE, and against itself with more waiters; and leaving the queue from its middle. */

#define _POSIX_C_SOURCE 200809L

#include <stdio.h>

#include "base/table.h"
#include "load/comparison.h"
#include "load/crowd.h"
#include "load/handoff.h"
#include "machine/probe.h"
#include "measure/measure.h"

enum {
    SLICE_TIMES = 2500,
    COUNTED_TIMES = 4000,
    MIN_FILES = 12000, /* a crowd of 10,000 and some */
};

#define FAIR_TARGET 1.6
#define GROWTH_TARGET 1.4

/* ---- Hand-offs ------------------------------------------------------------------------------ */

#define RING(command, waiters, rings)                                                           \
    {                                                                                           \
        NULL, command " {key} {owner} PX 30000 BLOCK 0", "LOCK.RELEASE {key} {owner}", waiters, \
            rings                                                                               \
    }
#define FAIR(waiters, rings) RING("LOCK.FAIR", waiters, rings)
#define PLAIN(waiters, rings) RING("LOCK.ACQUIRE", waiters, rings)

enum { FAIR_1, PLAIN_1, FAIR_10, PLAIN_10, FAIR_100, PLAIN_100, FAIR_10000, PLAIN_10000, RINGS };

static const Handoff rings[RINGS] = {
    [FAIR_1] = FAIR(1, 1),         [PLAIN_1] = PLAIN(1, 1),         [FAIR_10] = FAIR(10, 1),
    [PLAIN_10] = PLAIN(10, 1),     [FAIR_100] = FAIR(100, 1),       [PLAIN_100] = PLAIN(100, 1),
    [FAIR_10000] = FAIR(10000, 1), [PLAIN_10000] = PLAIN(10000, 1),
};

/* The same number of clients as in the largest ring, twelve on each lock. */
static const Handoff tens = FAIR(10, 833);

static Load loadOf(const Handoff *handoff) {
    Load load = {
        .name = "ring",
        .server = {.module = true, .clients = handoffClients(handoff) + 100},
        .kind = &handoffKind,
        .what = handoff,
    };
    return load;
}

/* Each pair is one comparison; `alone`: two crowds of 10,000 are too many connections at once. */
typedef struct Pair {
    const char *counted;
    const char *timed;
    unsigned ours;
    unsigned theirs;
    double target;
    bool alone;
} Pair;

static const Pair pairs[] = {
    {"instructions, 1 waiting: FAIR / ACQUIRE", "CPU, 1 waiting: FAIR / ACQUIRE", FAIR_1, PLAIN_1,
     FAIR_TARGET, false},
    {"instructions, 10 waiting: FAIR / ACQUIRE", "CPU, 10 waiting: FAIR / ACQUIRE", FAIR_10,
     PLAIN_10, FAIR_TARGET, false},
    {"instructions, 100 waiting: FAIR / ACQUIRE", "CPU, 100 waiting: FAIR / ACQUIRE", FAIR_100,
     PLAIN_100, FAIR_TARGET, false},
    {"instructions, 10000 waiting: FAIR / ACQUIRE", "CPU, 10000 waiting: FAIR / ACQUIRE",
     FAIR_10000, PLAIN_10000, FAIR_TARGET, true},
    {"instructions, FAIR: 10000 waiting / 10", "CPU, FAIR: 10000 waiting / 10", FAIR_10000, FAIR_10,
     GROWTH_TARGET, false},
    {NULL, "for comparison, CPU, ACQUIRE: 10000 waiting / 10", PLAIN_10000, PLAIN_10, 0, false},
};

enum { PAIRS = sizeof(pairs) / sizeof(*pairs) };

static void countAll(const Options *options) {
    Load loads[RINGS];
    Comparison comparison = {.times = COUNTED_TIMES};
    for (unsigned i = 0; i < RINGS; i++) {
        loads[i] = loadOf(&rings[i]);
        comparison.loads[i] = &loads[i];
    }
    for (unsigned i = 0; i < PAIRS && pairs[i].counted != NULL; i++) {
        comparison.pairings[i] =
            (Pairing){pairs[i].counted, pairs[i].ours, pairs[i].theirs, pairs[i].target};
    }
    compareInstructions(&comparison, options);
}

static void timePair(const Options *options, const Pair *pair) {
    const Load ours = loadOf(&rings[pair->ours]);
    const Load theirs = loadOf(&rings[pair->theirs]);
    const Comparison comparison = {
        .loads = {&ours, &theirs},
        .conditions = {.alone = pair->alone},
        .pairings = {{pair->timed, 0, 1, pair->target}},
        .times = SLICE_TIMES,
    };
    compareCpu(&comparison, options);
}

/* Without the cost of misses in the CPU's caches: see measure/handoff.c. */
static void compareAsManyClients(const Options *options) {
    const Load many = loadOf(&rings[FAIR_10000]);
    const Load few = loadOf(&tens);
    const Comparison comparison = {
        .loads = {&many, &few},
        .conditions = {.alone = true},
        .pairings = {{"CPU, FAIR, 10000 clients: on one lock / on 833", 0, 1, GROWTH_TARGET}},
        .times = SLICE_TIMES,
    };
    compareCpu(&comparison, options);
}

/* ---- Leaving the queue ---------------------------------------------------------------------- */

/* The queue: the clients that will leave it are in its middle, and LEFT clients remain after
 * them. */
enum {
    LEFT = 10000,
    WARMED = 200, /* cancelled first, and not measured */
    SINGLY = 500,
    BATCHED = 500,
    TIMED = 400,                 /* of each kind */
    FIRST_WARMED = 1 + LEFT / 2, /* the first of the crowd is the holder */
    FIRST_SINGLY = FIRST_WARMED + WARMED,
    FIRST_BATCHED = FIRST_SINGLY + SINGLY,
    FIRST_APART = FIRST_BATCHED + BATCHED,
    FIRST_CLOSE = FIRST_APART + TIMED,
    AFTER_CLOSE = FIRST_CLOSE + TIMED,
    CROWD = 1 + LEFT + (AFTER_CLOSE - FIRST_WARMED),
    DEPTH = 50,
};

/* When the waits with a timeout end: long enough after the queue has formed, first one in each
 * millisecond, later ten in each millisecond. */
enum {
    APART_MS = 6000,
    CLOSE_MS = 8000,
    CLOSE_EACH_MS = 10,
    MARGIN_MS = 20,
};

static const double leave_target = 10e3;

typedef struct Queue {
    Server *server;
    Crowd *crowd;
    const char *command;
    uint64_t timed_ns; /* when the first client with a timeout began to wait */
} Queue;

/* What it costs when one client leaves, in ns of server CPU. */
typedef struct Costs {
    Series singly;
    Series batched;
    Series apart;
    Series close;
} Costs;

static unsigned blockMs(unsigned member) {
    if (member >= FIRST_APART && member < FIRST_CLOSE) {
        return APART_MS + member - FIRST_APART;
    }
    if (member >= FIRST_CLOSE && member < AFTER_CLOSE) {
        return CLOSE_MS + (member - FIRST_CLOSE) / CLOSE_EACH_MS;
    }
    return 0;
}

static void request(const Queue *queue, unsigned member) {
    char text[96];
    snprintf(text, sizeof(text), "%s lock {owner} PX 3600000 BLOCK %u", queue->command,
             blockMs(member));
    crowdSay(queue->crowd, member, text, member);
}

static void awaitReplies(const Queue *queue, unsigned count, int type) {
    for (unsigned i = 0; i < count; i++) {
        redisReply *reply = NULL;
        crowdNext(queue->crowd, &reply);
        if (reply->type != type) {
            die("a reply of type %d, not %d", reply->type, type);
        }
        freeReplyObject(reply);
    }
}

/* What a connection allocates for its first reply is allocated before the measurement. */
static void greet(const Queue *queue) {
    for (unsigned member = 0; member < CROWD; member++) {
        crowdSay(queue->crowd, member, "PING", member);
    }
    awaitReplies(queue, CROWD, REDIS_REPLY_STATUS);
}

/* Waits until all but the holder wait. On a busy machine this many packets at once may overflow the
 * kernel's queue and be sent again a fifth of a second later, so a reply to a PING on another
 * connection would not show that the server has read all requests. */
static void awaitQueue(const Queue *queue) {
    while (probeCounter(queue->server, "blocked_clients") < CROWD - 1) {
        sleepNs(1000000);
    }
}

static void queueForm(Queue *queue, const Options *options, const char *command) {
    const ServerOptions wanted = {.module = true, .clients = CROWD + 100};
    *queue = (Queue){.server = serverStart(options, &wanted), .command = command};
    queue->crowd = crowdOpen(queue->server, CROWD);
    greet(queue);
    request(queue, 0);
    awaitReplies(queue, 1, REDIS_REPLY_INTEGER);
    for (unsigned member = 1; member < CROWD; member++) {
        if (member == FIRST_APART) {
            crowdSettle(queue->crowd);
            queue->timed_ns = nowNs();
        }
        request(queue, member);
    }
    awaitQueue(queue);
}

static void queueEnd(Queue *queue) {
    crowdClose(queue->crowd);
    serverStop(queue->server);
}

static void readOne(redisContext *connection) {
    redisReply *reply = serverReply(connection);
    if (reply->type != REDIS_REPLY_INTEGER || reply->integer != 1) {
        die("LOCK.CANCEL found no waiter");
    }
    freeReplyObject(reply);
}

static double costOfCancels(const Queue *queue, unsigned first, unsigned count, unsigned depth) {
    redisContext *connection = queue->server->control;
    uint64_t before = probeCpuNs(queue->server);
    for (unsigned done = 0; done < count; done += depth) {
        for (unsigned i = 0; i < depth; i++) {
            templateQueue(connection, "LOCK.CANCEL lock {owner}", 0, first + done + i);
        }
        for (unsigned i = 0; i < depth; i++) {
            readOne(connection);
        }
    }
    double used = (double)(probeCpuNs(queue->server) - before);
    awaitReplies(queue, count, REDIS_REPLY_NIL);
    return used / count;
}

/* A server with this many connections is never quite idle: that cost is subtracted. */
static double costOfTimeOuts(const Queue *queue, unsigned first_ms, unsigned lasting_ms) {
    uint64_t begin_ns = queue->timed_ns + (uint64_t)(first_ms - MARGIN_MS) * 1000000;
    uint64_t window_ns = (uint64_t)(lasting_ms + 2 * MARGIN_MS) * 1000000;
    if (nowNs() + window_ns > begin_ns) {
        die("this machine is too slow for the timeouts in measure/fair.c");
    }
    uint64_t start = probeCpuNs(queue->server);
    sleepNs(window_ns);
    double idle = (double)(probeCpuNs(queue->server) - start);
    sleepNs(begin_ns - nowNs());
    start = probeCpuNs(queue->server);
    sleepNs(window_ns);
    double used = (double)(probeCpuNs(queue->server) - start);
    awaitReplies(queue, TIMED, REDIS_REPLY_NIL);
    return (used - idle) / TIMED;
}

static void leaveQueue(const Options *options, const char *command, Costs *costs) {
    Queue queue;
    queueForm(&queue, options, command);
    costOfCancels(&queue, FIRST_WARMED, WARMED, DEPTH);
    seriesAdd(&costs->singly, costOfCancels(&queue, FIRST_SINGLY, SINGLY, 1));
    seriesAdd(&costs->batched, costOfCancels(&queue, FIRST_BATCHED, BATCHED, DEPTH));
    seriesAdd(&costs->apart, costOfTimeOuts(&queue, APART_MS, TIMED));
    seriesAdd(&costs->close, costOfTimeOuts(&queue, CLOSE_MS, TIMED / CLOSE_EACH_MS));
    queueEnd(&queue);
}

static void printCost(const char *label, Series *fair, Series *plain, double target) {
    const Row row = {.label = label,
                     .unit = UNIT_NS,
                     .target_kind = target > 0 ? TARGET_OURS : TARGET_NONE,
                     .target = target};
    tableSeries(row, fair, plain);
    seriesFree(fair);
    seriesFree(plain);
}

static void compareLeaving(const Options *options) {
    Costs fair = {0};
    Costs plain = {0};
    for (unsigned round = 0; round < options->rounds; round++) {
        leaveQueue(options, "LOCK.FAIR", &fair);
        leaveQueue(options, "LOCK.ACQUIRE", &plain);
    }
    printCost("CPU, CANCEL, 10000 waiting: FAIR / ACQUIRE", &fair.singly, &plain.singly,
              leave_target);
    printCost("CPU, the same, pipelined", &fair.batched, &plain.batched, leave_target);
    /* No target: for each timer of a module the server wakes up early, and more than once. */
    printCost("CPU, timeout, one each ms: FAIR / ACQUIRE", &fair.apart, &plain.apart, 0);
    printCost("CPU, timeout, ten each ms: FAIR / ACQUIRE", &fair.close, &plain.close, leave_target);
}

void fairMeasure(const Options *options) {
    tableHead("fair", "a hand-off in a fair queue, and leaving the queue");
    if (options->files < MIN_FILES) {
        tableNote("needs %d open files, has %u: see ulimit -n", MIN_FILES, options->files);
        return;
    }
    countAll(options);
    for (unsigned i = 0; i < PAIRS; i++) {
        timePair(options, &pairs[i]);
    }
    compareAsManyClients(options);
    compareLeaving(options);
}
