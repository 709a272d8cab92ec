/* (i) Several keys: LOCK.MACQUIRE of eight against eight LOCK.ACQUIREs sent at once, each with what
 * gives the locks back. */

#include "contest.h"
#include "requests.h"
#include "table.h"

#define END \
    { NULL, NULL }

#define EIGHT "8 {key}a {key}b {key}c {key}d {key}e {key}f {key}g {key}h {owner}"
#define EACH(step) \
    step("a"), step("b"), step("c"), step("d"), step("e"), step("f"), step("g"), step("h")
#define ACQUIRE(letter) \
    { "LOCK.ACQUIRE {key}" letter " {owner} PX 30000", "1" }
#define RELEASE(letter) \
    { "LOCK.RELEASE {key}" letter " {owner}", "0" }

static const Requests together = {
    .steps = (const Step[]){{"LOCK.MACQUIRE " EIGHT " PX 30000", "8"},
                            {"LOCK.MRELEASE " EIGHT, "8"},
                            END},
    .depth = 1,
};
static const Requests singly = {
    .steps = (const Step[]){EACH(ACQUIRE), EACH(RELEASE), END},
    .depth = 8,
};

static const Load macquire = {"MACQUIRE", {.module = true}, &requestsKind, &together};
static const Load acquires = {"8 ACQUIRE", {.module = true}, &requestsKind, &singly};

void severalMeasure(const Options *options) {
    static const Contest counted = {
        .loads = {&macquire, &acquires},
        .pairings = {{"instructions: MACQUIRE of 8 / 8 ACQUIREs at once", 0, 1, 0}},
        .times = 2000,
    };
    static const Contest timed = {
        .loads = {&macquire, &acquires},
        .pairings = {{"CPU: MACQUIRE of 8 / 8 ACQUIREs at once", 0, 1, 0.8}},
        .times = 1500,
    };
    tableHead("several", "eight locks taken and given back, together or one by one");
    contestInstructions(&counted, options);
    contestCpu(&timed, options);
}
