/* The ruler against itself: the same load on both sides must give 1. How far from 1 it lands is
 * how much of any other figure on this machine, today, is noise. */

#include "contest.h"
#include "requests.h"
#include "table.h"

static const Requests set_del = {.steps = (const Step[]){
                                     {"SET {key} {owner} NX PX 30000", "OK"},
                                     {"DEL {key}", "1"},
                                     {NULL, NULL},
                                 }};

static const Load load = {.name = "SET + DEL", .kind = &requestsKind, .what = &set_del};

static const Contest cpu = {
    .loads = {&load, &load},
    .pairings = {{"CPU, one at a time: SET+DEL / SET+DEL", 0, 1, 0}},
    .times = 1000,
};

static const Contest cpu_pipelined = {
    .loads = {&load, &load},
    .pairings = {{"CPU, pipelined: SET+DEL / SET+DEL", 0, 1, 0}},
    .conditions = {.depth = 64},
    .times = 8000,
};

static const Contest instructions = {
    .loads = {&load, &load},
    .pairings = {{"instructions: SET+DEL / SET+DEL", 0, 1, 0}},
    .times = 8000,
};

void selfMeasure(const Options *options) {
    tableHead("self", "the same on both sides: the noise of all that follows");
    contestCpu(&cpu, options);
    contestCpu(&cpu_pipelined, options);
    contestInstructions(&instructions, options);
}
