/* The benchmark measures itself: the same load on both sides must give 1. How far the ratio is from
 * 1 shows how much of any other figure of this run is noise. */

#include "base/table.h"
#include "load/comparison.h"
#include "load/requests.h"
#include "measure/measure.h"

static const Requests set_del = {.steps = (const Step[]){
                                     {"SET {key} {owner} NX PX 30000", "OK"},
                                     {"DEL {key}", "1"},
                                     STEPS_END,
                                 }};

static const Load load = {.name = "SET + DEL", .kind = &requestsKind, .what = &set_del};

static const Comparison cpu = {
    .loads = {&load, &load},
    .pairings = {{"CPU, one at a time: SET+DEL / SET+DEL", 0, 1, 0}},
    .times = 1000,
};

static const Comparison cpu_pipelined = {
    .loads = {&load, &load},
    .pairings = {{"CPU, pipelined: SET+DEL / SET+DEL", 0, 1, 0}},
    .conditions = {.depth = 64},
    .times = 8000,
};

static const Comparison instructions = {
    .loads = {&load, &load},
    .pairings = {{"instructions: SET+DEL / SET+DEL", 0, 1, 0}},
    .times = 8000,
};

void selfMeasure(const Options *options) {
    tableHead("self", "the same on both sides: the noise of all other figures");
    compareCpu(&cpu, options);
    compareCpu(&cpu_pipelined, options);
    compareInstructions(&instructions, options);
}
