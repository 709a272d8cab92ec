/* The delayed queue: pushing against ZADD, delivering against RPUSH, how late an element is
 * delivered while a million others are pending, a hundred thousand elements that are due at once,
 * and the memory of a pending element. */

#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>

#include "base/table.h"
#include "load/comparison.h"
#include "load/others.h"
#include "load/requests.h"
#include "load/template.h"
#include "machine/probe.h"
#include "measure/measure.h"

enum {
    PENDING = 1000000,
    QUICK_PENDING = 50000,
    OTHERS_MS = 3000,
    ELEMENTS = 1000,
    FIRST_MS = 300, /* from then on one element is due each ms */
    BURST = 100000,
    QUICK_BURST = 20000,
    KEPT = 100000,
    QUICK_KEPT = 20000,
    AT_ONCE = 1000, /* requests sent before their replies are read */
};

/* ---- Pushing, and what a delivery adds ------------------------------------------------------ */

static const Step push[] = {{"DELAY.PUSH later {n} 3600000 {owner}", NULL}, STEPS_END};
static const Step add[] = {{"ZADD later 1900000000000 {n}", NULL}, STEPS_END};
static const Step append[] = {{"RPUSH now {owner}", NULL}, STEPS_END};

/* BEFORE elements are pending before: a short queue, which the server encodes as lists, is not
 * worth measuring. */
enum { BEFORE = 2000, NO_END = 10000000 };

static const Step push_before[] = {{"DELAY.PUSH later before-{n} 3600000 {owner}", NULL},
                                   STEPS_END};
static const Step add_before[] = {{"ZADD later 1900000000000 before-{n}", NULL}, STEPS_END};

static const Requests pushes = {
    .prepare = push_before, .prepare_times = BEFORE, .steps = push, .keys = NO_END};
static const Requests adds = {
    .prepare = add_before, .prepare_times = BEFORE, .steps = add, .keys = NO_END};
static const Requests appends = {.steps = append, .keys = NO_END};

static long long ask(const Server *server, const char *text, unsigned number) {
    templateQueue(server->control, text, number, number);
    redisReply *reply = serverReply(server->control);
    if (reply->type == REDIS_REPLY_ERROR) {
        die("%s: %s", text, reply->str);
    }
    long long integer = reply->type == REDIS_REPLY_INTEGER ? reply->integer : 0;
    freeReplyObject(reply);
    return integer;
}

/* Sends the request for each number below `count`. */
static void askMany(const Server *server, const char *text, unsigned count) {
    for (unsigned done = 0; done < count;) {
        unsigned sent = count - done < AT_ONCE ? count - done : AT_ONCE;
        for (unsigned i = 0; i < sent; i++) {
            templateQueue(server->control, text, done + i, done + i);
        }
        for (unsigned i = 0; i < sent; i++) {
            redisReply *reply = serverReply(server->control);
            if (reply->type == REDIS_REPLY_ERROR) {
                die("%s: %s", text, reply->str);
            }
            freeReplyObject(reply);
        }
        done += sent;
    }
}

/* A load: pushes elements that are due at once, and waits until they are delivered. */
typedef struct Deliveries {
    const Server *server;
} Deliveries;

static void *openDeliveries(const Server *server, const void *what, const Conditions *conditions) {
    (void)what;
    (void)conditions;
    Deliveries *deliveries = allocate(sizeof(*deliveries));
    deliveries->server = server;
    askMany(server, "DELAY.PUSH now before-{n} 3600000 {owner}", BEFORE);
    return deliveries;
}

static void runDeliveries(void *session, unsigned times) {
    const Server *server = ((Deliveries *)session)->server;
    askMany(server, "DELAY.PUSH now {n} 0 {owner}", times);
    while (ask(server, "LLEN now", 0) < (long long)times) {
        sleepNs(1000000);
    }
    ask(server, "DEL now", 0);
}

static void closeDeliveries(void *session) {
    free(session);
}

static const LoadKind deliveriesKind = {openDeliveries, runDeliveries, closeDeliveries};

static const Load push_load = {"DELAY.PUSH", {.module = true}, &requestsKind, &pushes};
static const Load add_load = {"ZADD", {.module = false}, &requestsKind, &adds};
static const Load append_load = {"RPUSH", {.module = false}, &requestsKind, &appends};
static const Load deliver_load = {"deliver", {.module = true}, &deliveriesKind, NULL};

static void countInstructions(const Options *options) {
    static const Comparison pushing = {
        .loads = {&push_load, &add_load},
        .pairings = {{"instructions: DELAY.PUSH / ZADD", 0, 1, 2.2}},
        .times = 2000,
    };
    static const Comparison delivering = {
        .loads = {&deliver_load, &append_load},
        .pairings = {{"instructions: DELAY.PUSH and delivery / RPUSH, pipelined", 0, 1, 0}},
        .conditions = {.depth = 64},
        .times = 2000,
    };
    static const Comparison pushing_pipelined = {
        .loads = {&push_load, &append_load},
        .pairings = {{"instructions: DELAY.PUSH / RPUSH, pipelined", 0, 1, 0}},
        .conditions = {.depth = 64},
        .times = 2000,
    };
    compareInstructions(&pushing, options);
    compareInstructions(&delivering, options);
    compareInstructions(&pushing_pipelined, options);
    tableNote("a delivery is the second row minus the third: at most 3");
}

/* ---- Lateness ------------------------------------------------------------------------------- */

/* Pushes the elements, and records when each is due, in unix ms. */
static void pushElements(const Server *server, long long *due_ms) {
    char text[64];
    for (unsigned i = 0; i < ELEMENTS; i++) {
        snprintf(text, sizeof(text), "DELAY.PUSH soon {n} %u {n}", FIRST_MS + i);
        templateQueue(server->control, text, i, i);
        redisAppendCommand(server->control, "ZSCORE delay:due:{soon} %u", i);
    }
    for (unsigned i = 0; i < ELEMENTS; i++) {
        freeReplyObject(serverReply(server->control));
        redisReply *score = serverReply(server->control);
        if (score->type != REDIS_REPLY_STRING) {
            die("an element was delivered before its score was read");
        }
        due_ms[i] = strtoll(score->str, NULL, 10);
        freeReplyObject(score);
    }
}

static void takeElements(const Server *server, const long long *due_ms, Series *late) {
    redisContext *consumer = serverConnect(server);
    for (unsigned i = 0; i < ELEMENTS; i++) {
        redisReply *reply = redisCommand(consumer, "BLPOP soon 20");
        double now_us = (double)wallUs();
        if (reply == NULL || reply->type != REDIS_REPLY_ARRAY) {
            die("an element was not delivered");
        }
        unsigned long number = strtoul(reply->element[1]->str, NULL, 10);
        if (number >= ELEMENTS) {
            die("an element that was not pushed was delivered");
        }
        seriesAdd(late, 1000 * (now_us - 1000.0 * (double)due_ms[number]));
        freeReplyObject(reply);
    }
    redisFree(consumer);
}

static void printLate(Series *late) {
    Row row = {.unit = UNIT_NS, .target_kind = TARGET_OURS};
    row.label = "late while others are pending: median";
    row.ours = seriesMedian(late);
    row.target = 1.5e6;
    tableRow(&row);
    row.label = "late while others are pending: p99";
    row.ours = seriesAt(late, 0.99);
    row.target = 5e6;
    tableRow(&row);
}

static void measureLateness(const Options *options) {
    static long long due_ms[ELEMENTS];
    const ServerOptions wanted = {.module = true};
    Series late = {0};
    Server *server = serverStart(options, &wanted);
    askMany(server, "DELAY.PUSH later {n} 3600000 {owner}",
            options->quick ? QUICK_PENDING : PENDING);
    for (unsigned round = 0; round < options->rounds; round++) {
        othersSet(server, OTHERS_MS);
        pushElements(server, due_ms);
        takeElements(server, due_ms, &late);
    }
    serverStop(server);
    printLate(&late);
    seriesFree(&late);
}

/* ---- Many at once --------------------------------------------------------------------------- */

/* Writes elements directly into the keys, and then makes all of them due with one command. */
static void makeBurst(const Server *server, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        redisAppendCommand(server->control, "ZADD delay:due:{burst} 4102444800000 %u", i);
        redisAppendCommand(server->control, "HSET delay:value:{burst} %u %036u", i, i);
        freeReplyObject(serverReply(server->control));
        freeReplyObject(serverReply(server->control));
    }
    freeReplyObject(redisCommand(server->control,
                                 "ZUNIONSTORE delay:due:{burst} 1 delay:due:{burst} "
                                 "WEIGHTS 0.1"));
}

static void measureBurst(const Options *options) {
    const ServerOptions wanted = {.module = true};
    const unsigned count = options->quick ? QUICK_BURST : BURST;
    Series slowest = {0}, took = {0};
    for (unsigned round = 0; round < options->rounds; round++) {
        Server *server = serverStart(options, &wanted);
        /* From then on the module notices direct changes to the keys. */
        ask(server, "DELAY.PUSH later {n} 3600000 x", 0);
        makeBurst(server, count);
        uint64_t start = nowNs(), worst = 0, asked = start;
        while (ask(server, "LLEN burst", 0) < (long long)count) {
            uint64_t now = nowNs();
            worst = now - asked > worst ? now - asked : worst;
            asked = now;
            if (now - start > 60000000000) {
                die("the elements that were due at once were not delivered");
            }
        }
        seriesAdd(&took, (double)(nowNs() - start));
        seriesAdd(&slowest, (double)worst);
        serverStop(server);
    }
    Row row = {.unit = UNIT_NS, .target_kind = TARGET_OURS};
    row.label = options->quick ? "20,000 due at once, until the last"
                               : "100,000 due at once, until the last";
    row.ours = seriesMedian(&took);
    row.target = 2e9;
    tableRow(&row);
    row.label = "the slowest request meanwhile";
    row.ours = seriesMedian(&slowest);
    row.target = 2e6;
    tableRow(&row);
    seriesFree(&took);
    seriesFree(&slowest);
}

/* ---- Memory --------------------------------------------------------------------------------- */

static double bytesEach(const Options *options, const ServerOptions *wanted, const Step *steps) {
    const unsigned count = options->quick ? QUICK_KEPT : KEPT;
    Server *server = serverStart(options, wanted);
    uint64_t before = probeMemory(server);
    requestsPrepare(server, steps, count);
    uint64_t after = probeMemory(server);
    serverStop(server);
    return ((double)after - (double)before) / count;
}

static void measureMemory(const Options *options) {
    static const Step bare[] = {
        {"ZADD due 1900000000000 {n}", NULL}, {"HSET value {n} {owner}", NULL}, STEPS_END};
    const ServerOptions with = {.module = true}, without = {.module = false};
    Row row = {.label = "memory each: pending / ZADD and HSET", .unit = UNIT_BYTES};
    Series ours = {0}, theirs = {0};
    for (unsigned round = 0; round < options->rounds; round++) {
        seriesAdd(&ours, bytesEach(options, &with, push));
        seriesAdd(&theirs, bytesEach(options, &without, bare));
    }
    tableSeries(row, &ours, &theirs);
    seriesFree(&ours);
    seriesFree(&theirs);
}

void delayMeasure(const Options *options) {
    tableHead("delay", "the delayed queue");
    countInstructions(options);
    measureLateness(options);
    measureBurst(options);
    measureMemory(options);
}
