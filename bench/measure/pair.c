/* An uncontended acquire and release, against the minimum that Redis needs for a lock (SET NX,
 * DEL), and against the same logic in the scripts of client libraries. Those two run on a server
 * without the module. */

#include "base/table.h"
#include "load/comparison.h"
#include "load/requests.h"
#include "measure/measure.h"

static const Requests lock_steps = {.steps = (const Step[]){
                                        {"LOCK.ACQUIRE {key} {owner} PX 30000", "1"},
                                        {"LOCK.RELEASE {key} {owner}", "0"},
                                        STEPS_END,
                                    }};

static const Requests set_del_steps = {.steps = (const Step[]){
                                           {"SET {key} {owner} NX PX 30000", "OK"},
                                           {"DEL {key}", "1"},
                                           STEPS_END,
                                       }};

static const Requests lua_steps = {
    .steps = (const Step[]){
        {"EVALSHA {sha:acquire} 1 {key} 30000 {owner}", "nil"},
        {"EVALSHA {sha:release} 2 {key} free:{key} 30000 {owner}", "0"},
        STEPS_END,
    }};

static const Load lock = {"LOCK", {.module = true}, &requestsKind, &lock_steps};
static const Load set_del = {"SET + DEL", {0}, &requestsKind, &set_del_steps};
static const Load lua = {"Lua", {0}, &requestsKind, &lua_steps};

/* Two ways to send the same work. With one request at a time, every reply needs an iteration of the
 * event loop, some 1,600 instructions that are the same for all commands. Pipelined, nearly all
 * instructions are the commands' own. */
#define LOADS .loads = {&lock, &set_del, &lua}
enum { LOCK, SET_DEL, LUA };

/* The targets are in instructions. CPU time has none, because other processes change it. */
static const Comparison instructions = {
    LOADS,
    .pairings = {{"instructions, one at a time: LOCK / SET+DEL", LOCK, SET_DEL, 1.6},
                 {"instructions, one at a time: LOCK / Lua", LOCK, LUA, 0.3}},
    .times = 8000,
};

static const Comparison instructions_pipelined = {
    LOADS,
    .pairings = {{"instructions, pipelined: LOCK / SET+DEL", LOCK, SET_DEL, 1.6},
                 {"instructions, pipelined: LOCK / Lua", LOCK, LUA, 0.3}},
    .conditions = {.depth = 64},
    .times = 8000,
};

static const Comparison instructions_aof = {
    LOADS,
    .pairings = {{"instructions, AOF, one at a time: LOCK / SET+DEL", LOCK, SET_DEL, 2.1},
                 {"instructions, AOF, one at a time: LOCK / Lua", LOCK, LUA, 0}},
    .conditions = {.aof = true},
    .times = 8000,
};

static const Comparison instructions_aof_pipelined = {
    LOADS,
    .pairings = {{"instructions, AOF, pipelined: LOCK / SET+DEL", LOCK, SET_DEL, 2.1},
                 {"instructions, AOF, pipelined: LOCK / Lua", LOCK, LUA, 0}},
    .conditions = {.aof = true, .depth = 64},
    .times = 8000,
};

static const Comparison cpu = {
    LOADS,
    .pairings = {{"CPU, one at a time: LOCK / SET+DEL", LOCK, SET_DEL, 0},
                 {"CPU, one at a time: LOCK / Lua", LOCK, LUA, 0}},
    .times = 1000,
};

static const Comparison cpu_pipelined = {
    LOADS,
    .pairings = {{"CPU, pipelined: LOCK / SET+DEL", LOCK, SET_DEL, 0},
                 {"CPU, pipelined: LOCK / Lua", LOCK, LUA, 0}},
    .conditions = {.depth = 64},
    .times = 6000,
};

static const Comparison cpu_aof = {
    LOADS,
    .pairings = {{"CPU, AOF, one at a time: LOCK / SET+DEL", LOCK, SET_DEL, 0},
                 {"CPU, AOF, one at a time: LOCK / Lua", LOCK, LUA, 0}},
    .conditions = {.aof = true},
    .times = 1000,
};

static const Comparison cpu_aof_pipelined = {
    LOADS,
    .pairings = {{"CPU, AOF, pipelined: LOCK / SET+DEL", LOCK, SET_DEL, 0},
                 {"CPU, AOF, pipelined: LOCK / Lua", LOCK, LUA, 0}},
    .conditions = {.aof = true, .depth = 64},
    .times = 6000,
};

void pairMeasure(const Options *options) {
    tableHead("pair", "server cost of an uncontended acquire + release");
    compareInstructions(&instructions, options);
    compareInstructions(&instructions_pipelined, options);
    compareInstructions(&instructions_aof, options);
    compareInstructions(&instructions_aof_pipelined, options);
    compareCpu(&cpu, options);
    compareCpu(&cpu_pipelined, options);
    compareCpu(&cpu_aof, options);
    compareCpu(&cpu_aof_pipelined, options);
}
