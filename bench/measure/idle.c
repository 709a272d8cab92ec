/* What the module costs other commands: common commands on a server with the module loaded and
 * idle, against a server without it. The pipelined half is the stricter one, because there nearly
 * all the cost is the command's own. */

#include <stdio.h>

#include "base/table.h"
#include "load/comparison.h"
#include "load/requests.h"
#include "measure/measure.h"

/* The keys exist, so that each command does its usual work. */
#define COMMAND(name, prepared, measured)                                                    \
    static const Requests name##_steps = {                                                   \
        .prepare = (const Step[]){{prepared, NULL}, STEPS_END},                              \
        .prepare_times = REQUESTS_KEYS,                                                      \
        .steps = (const Step[]){{measured, NULL}, STEPS_END},                                \
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
    const char *name;
} Command;

#define ROW(name, NAME) \
    { &name##_with, &name##_without, NAME }

static const Command commands[] = {ROW(set, "SET"), ROW(get, "GET"), ROW(hset, "HSET"),
                                   ROW(expire, "EXPIRE")};

enum { COMMANDS = sizeof(commands) / sizeof(*commands) };

typedef struct Way {
    const char *label;
    void (*compare)(const Comparison *comparison, const Options *options);
    unsigned depth;
    unsigned times;
    double target;
} Way;

/* The target is for CPU time. The instructions, which exclude the kernel's share, show what the
 * module adds. */
static const Way ways[] = {
    {"instructions", compareInstructions, 1, 10000, 0},
    {"CPU, one at a time", compareCpu, 1, 4000, 1.03},
    {"CPU, pipelined", compareCpu, 64, 25000, 1.03},
};

enum { WAYS = sizeof(ways) / sizeof(*ways) };

static void compareOne(const Options *options, const Command *command, const Way *way) {
    char label[64];
    snprintf(label, sizeof(label), "%s: %s", way->label, command->name);
    const Comparison comparison = {
        .loads = {command->with, command->without},
        .pairings = {{label, 0, 1, way->target}},
        .conditions = {.depth = way->depth},
        .times = way->times,
    };
    way->compare(&comparison, options);
}

void idleMeasure(const Options *options) {
    tableHead("idle", "server cost of other commands, module loaded / not loaded");
    for (unsigned way = 0; way < WAYS; way++) {
        for (unsigned i = 0; i < COMMANDS; i++) {
            compareOne(options, &commands[i], &ways[way]);
        }
    }
}
