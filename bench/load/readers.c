/* Each phase is a load of requests on a connection of its own, so that it can be measured alone. */

#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>

#include "load/readers.h"

enum { DEPTH = 64 };

static const Step on_one[] = {{"LOCK.RWREAD lock r{owner}" READERS_HOUR, "1"}, STEPS_END};
static const Step on_each[] = {
    {"LOCK.RWREAD {key} 0{owner}" READERS_HOUR, "1"},
    {"LOCK.RWREAD {key} 1{owner}" READERS_HOUR, "1"},
    {"LOCK.RWREAD {key} 2{owner}" READERS_HOUR, "1"},
    {"LOCK.RWREAD {key} 3{owner}" READERS_HOUR, "1"},
    {"LOCK.RWREAD {key} 4{owner}" READERS_HOUR, "1"},
    {"LOCK.RWREAD {key} 5{owner}" READERS_HOUR, "1"},
    {"LOCK.RWREAD {key} 6{owner}" READERS_HOUR, "1"},
    {"LOCK.RWREAD {key} 7{owner}" READERS_HOUR, "1"},
    {"LOCK.RWREAD {key} 8{owner}" READERS_HOUR, "1"},
    {"LOCK.RWREAD {key} 9{owner}" READERS_HOUR, "1"},
    STEPS_END,
};

const Step *const readersSteps[SHAPES] = {[SHAPE_MANY] = on_one, [SHAPE_FEW] = on_each};

#define PHASES_ON(key)                                                                   \
    {                                                                                    \
        [PHASE_ACQUIRE] = {{"LOCK.RWREAD " key " n{owner} PX 1800000", "1"}, STEPS_END}, \
        [PHASE_RENEW] = {{"LOCK.RENEW " key " n{owner} PX 1900000", "1"}, STEPS_END},    \
        [PHASE_RELEASE] = {{"LOCK.RELEASE " key " n{owner}", "0"}, STEPS_END},           \
    }

static const Step phase_steps[SHAPES][PHASES][2] = {
    [SHAPE_MANY] = PHASES_ON("lock"),
    [SHAPE_FEW] = PHASES_ON("{key}"),
};

typedef struct Session {
    void *phases[PHASES];
    Phase phase; /* the load's */
} Session;

void readersRunAll(void *state, Phase phase) {
    const Session *session = state;
    requestsKind.run(session->phases[phase], READERS_LOCKS);
}

static void *readersOpen(const Server *server, const void *what, const Conditions *conditions) {
    const Readers *readers = what;
    const Conditions pipelined = {.depth = DEPTH};
    Session *session = allocate(sizeof(*session));
    (void)conditions;
    session->phase = readers->phase;
    for (Phase phase = PHASE_ACQUIRE; phase < PHASES; phase++) {
        const Requests requests = {
            .prepare = phase == PHASE_ACQUIRE ? readersSteps[readers->shape] : NULL,
            .prepare_times = readers->shape == SHAPE_MANY ? READERS_MANY : READERS_LOCKS,
            .steps = phase_steps[readers->shape][phase],
            .keys = READERS_LOCKS,
        };
        session->phases[phase] = requestsKind.open(server, &requests, &pipelined);
    }
    for (Phase before = PHASE_ACQUIRE; before < readers->phase; before++) {
        readersRunAll(session, before);
    }
    return session;
}

static void readersRun(void *state, unsigned times) {
    const Session *session = state;
    requestsKind.run(session->phases[session->phase], times);
}

static void readersClose(void *state) {
    Session *session = state;
    for (Phase phase = PHASE_ACQUIRE; phase < PHASES; phase++) {
        requestsKind.close(session->phases[phase]);
    }
    free(session);
}

const LoadKind readersKind = {readersOpen, readersRun, readersClose};
