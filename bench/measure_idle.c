/* (d) What everybody else pays: common commands on a server with the module loaded and idle,
 * against a server without it. Pipelined is the stricter half, since there a command's own work is
 * nearly all there is. */

#include "contest.h"
#include "requests.h"
#include "table.h"

#define END \
    { NULL, NULL }

/* The keys exist, so that each command does what it does in daily life. */
#define COMMAND(name, prepared, measured)                                                    \
    static const Requests name##_steps = {                                                   \
        .prepare = (const Step[]){{prepared, NULL}, END},                                    \
        .prepare_times = REQUESTS_KEYS,                                                      \
        .steps = (const Step[]){{measured, NULL}, END},                                      \
    };                                                                                       \
    static const Load name##_with = {#name, {.module = true}, &requestsKind, &name##_steps}; \
    static const Load name##_without = {#name, {.module = false}, &requestsKind, &name##_steps}

COMMAND(set, "SET {key} {owner}", "SET {key} {owner}");
COMMAND(get, "SET {key} {owner}", "GET {key}");
COMMAND(hset, "HSET {key} field {n}", "HSET {key} field {owner}");
COMMAND(expire, "SET {key} {owner}", "EXPIRE {key} 1000");

typedef struct Command {
    const Load *with;
    const Load *without;
    const char *instructions;
    const char *one_at_a_time;
    const char *pipelined;
} Command;

#define ROW(name, NAME)                                                                    \
    {                                                                                      \
        &name##_with, &name##_without, "instructions: " NAME, "CPU, one at a time: " NAME, \
            "CPU, pipelined: " NAME                                                        \
    }

static const Command commands[] = {ROW(set, "SET"), ROW(get, "GET"), ROW(hset, "HSET"),
                                   ROW(expire, "EXPIRE")};

enum { COMMANDS = sizeof(commands) / sizeof(*commands) };

/* Of CPU time. The instructions, which leave out the kernel's share, say what the module adds. */
static const double cpu_target = 1.03;

static Contest contestOf(const Command *command, const char *label, unsigned depth, unsigned times,
                         double target) {
    Contest contest = {
        .loads = {command->with, command->without},
        .pairings = {{label, 0, 1, target}},
        .conditions = {.depth = depth},
        .times = times,
    };
    return contest;
}

void idleMeasure(const Options *options) {
    tableHead("idle", "server cost of other commands, module loaded / not loaded");
    for (unsigned i = 0; i < COMMANDS; i++) {
        Contest contest = contestOf(&commands[i], commands[i].instructions, 1, 10000, 0);
        contestInstructions(&contest, options);
    }
    for (unsigned i = 0; i < COMMANDS; i++) {
        Contest contest = contestOf(&commands[i], commands[i].one_at_a_time, 1, 4000, cpu_target);
        contestCpu(&contest, options);
    }
    for (unsigned i = 0; i < COMMANDS; i++) {
        Contest contest = contestOf(&commands[i], commands[i].pipelined, 64, 25000, cpu_target);
        contestCpu(&contest, options);
    }
}
