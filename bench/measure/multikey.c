/* Multi-key locks: LOCK.MACQUIRE of eight keys and its release, against eight LOCK.ACQUIREs sent at
 * once and their releases; of three keys with MODES, against the same three without; and against a
 * LOCK.RWREAD or LOCK.RWWRITE of each, sent at once, and their releases. */

#include "base/table.h"
#include "load/comparison.h"
#include "load/requests.h"
#include "measure/measure.h"

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
                            STEPS_END},
    .depth = 1,
};
static const Requests singly = {
    .steps = (const Step[]){EACH(ACQUIRE), EACH(RELEASE), STEPS_END},
    .depth = 8,
};

#define THREE "3 {key}a {key}b {key}c {owner}"
#define MODES " MODES READ READ WRITE"
static const Requests with_modes = {
    .steps = (const Step[]){{"LOCK.MACQUIRE " THREE MODES " PX 30000", "3"},
                            {"LOCK.MRELEASE " THREE MODES, "3"},
                            STEPS_END},
    .depth = 1,
};
static const Requests without_modes = {
    .steps = (const Step[]){{"LOCK.MACQUIRE " THREE " PX 30000", "3"},
                            {"LOCK.MRELEASE " THREE, "3"},
                            STEPS_END},
    .depth = 1,
};

#define IN_MODE(command, letter) \
    { "LOCK." command " {key}" letter " {owner} PX 30000", "1" }
static const Requests modes_singly = {
    .steps = (const Step[]){IN_MODE("RWREAD", "a"), IN_MODE("RWREAD", "b"), IN_MODE("RWWRITE", "c"),
                            RELEASE("a"), RELEASE("b"), RELEASE("c"), STEPS_END},
    .depth = 3,
};

static const Load macquire = {"MACQUIRE", {.module = true}, &requestsKind, &together};
static const Load acquires = {"8 ACQUIRE", {.module = true}, &requestsKind, &singly};
static const Load modes = {"3 MODES", {.module = true}, &requestsKind, &with_modes};
static const Load plain = {"3 plain", {.module = true}, &requestsKind, &without_modes};
static const Load readwrite = {"3 RW", {.module = true}, &requestsKind, &modes_singly};

void multikeyMeasure(const Options *options) {
    static const Comparison counted = {
        .loads = {&macquire, &acquires},
        .pairings = {{"instructions: MACQUIRE of 8 / 8 ACQUIREs at once", 0, 1, 0}},
        .times = 2000,
    };
    static const Comparison timed = {
        .loads = {&macquire, &acquires},
        .pairings = {{"CPU: MACQUIRE of 8 / 8 ACQUIREs at once", 0, 1, 0.8}},
        .times = 1500,
    };
    static const Comparison modes_counted = {
        .loads = {&modes, &plain, &readwrite},
        .pairings = {{"instructions: 3 keys with MODES / without", 0, 1, 1.3},
                     {"instructions: 3 keys with MODES / RWREAD, RWREAD, RWWRITE", 0, 2, 0}},
        .times = 2000,
    };
    tableHead("multikey", "eight keys acquired and released, by one request or by eight");
    compareInstructions(&counted, options);
    compareCpu(&timed, options);
    compareInstructions(&modes_counted, options);
}
