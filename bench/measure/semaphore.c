/* What permits cost: acquiring and releasing one, with zero, one, a hundred and ten thousand other
 * owners, against SET and DEL. */

#include "base/table.h"
#include "load/comparison.h"
#include "load/requests.h"
#include "measure/measure.h"

#define TARGET 2.5

/* Without other owners each request uses the next of several keys, as for SET + DEL; with other
 * owners all use one key. */
#define OTHER "LOCK.SEMAPHORE lock other-{n} 20000 PX 600000"
#define PAIR(key)                                               \
    (const Step[]) {                                            \
        {"LOCK.SEMAPHORE " key " {owner} 20000 PX 30000", "1"}, \
            {"LOCK.RELEASE " key " {owner}", "0"}, STEPS_END,   \
    }
#define PAIR_BESIDE(others)                                                            \
    {                                                                                  \
        .prepare = (const Step[]){{OTHER, "1"}, STEPS_END}, .prepare_times = (others), \
        .steps = PAIR("lock"),                                                         \
    }

static const Requests alone_steps = {.steps = PAIR("{key}")};
static const Requests one_steps = PAIR_BESIDE(1);
static const Requests hundred_steps = PAIR_BESIDE(100);
static const Requests many_steps = PAIR_BESIDE(10000);

static const Requests set_del_steps = {.steps = (const Step[]){
                                           {"SET {key} {owner} NX PX 30000", "OK"},
                                           {"DEL {key}", "1"},
                                           STEPS_END,
                                       }};

static const Load alone = {"alone", {.module = true}, &requestsKind, &alone_steps};
static const Load one = {"1 other", {.module = true}, &requestsKind, &one_steps};
static const Load hundred = {"100 others", {.module = true}, &requestsKind, &hundred_steps};
static const Load many = {"10,000 others", {.module = true}, &requestsKind, &many_steps};
static const Load set_del = {"SET + DEL", {0}, &requestsKind, &set_del_steps};

#define LOADS .loads = {&alone, &one, &hundred, &many, &set_del}
enum { ALONE, ONE, HUNDRED, MANY, SET_DEL };

static const Comparison instructions = {
    LOADS,
    .pairings = {{"instructions, one at a time: alone / SET+DEL", ALONE, SET_DEL, TARGET},
                 {"instructions, one at a time: 1 holder / SET+DEL", ONE, SET_DEL, TARGET},
                 {"instructions, one at a time: 100 / SET+DEL", HUNDRED, SET_DEL, TARGET},
                 {"instructions, one at a time: 10000 / SET+DEL", MANY, SET_DEL, TARGET}},
    .times = 8000,
};

static const Comparison instructions_pipelined = {
    LOADS,
    .pairings = {{"instructions, pipelined: alone / SET+DEL", ALONE, SET_DEL, TARGET},
                 {"instructions, pipelined: 1 holder / SET+DEL", ONE, SET_DEL, TARGET},
                 {"instructions, pipelined: 100 / SET+DEL", HUNDRED, SET_DEL, TARGET},
                 {"instructions, pipelined: 10000 / SET+DEL", MANY, SET_DEL, TARGET}},
    .conditions = {.depth = 64},
    .times = 8000,
};

static const Comparison cpu = {
    LOADS,
    .pairings = {{"CPU, pipelined: alone / SET+DEL", ALONE, SET_DEL, 0},
                 {"CPU, pipelined: 1 holder / SET+DEL", ONE, SET_DEL, 0},
                 {"CPU, pipelined: 100 / SET+DEL", HUNDRED, SET_DEL, 0},
                 {"CPU, pipelined: 10000 / SET+DEL", MANY, SET_DEL, 0}},
    .conditions = {.depth = 64},
    .times = 6000,
};

void semaphoreMeasure(const Options *options) {
    tableHead("semaphore", "acquiring and releasing a permit, by number of other owners");
    compareInstructions(&instructions, options);
    compareInstructions(&instructions_pipelined, options);
    compareCpu(&cpu, options);
}
