/* See inflight.h. */
#include "waits/inflight.h"

#include "blocking/drain.h"
#include "core/mem.h"

static struct {
    struct map by_owner;
    struct list lost;
} state;

struct inflight *inflightNew(RedisModuleString *owner, size_t name_count) {
    struct inflight *inflight =
        memAlloc(sizeof(*inflight) + name_count * sizeof(inflight->names[0]));
    inflight->owner = owner;
    RedisModule_RetainString(NULL, owner);
    inflight->name_count = name_count;
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(owner, &length);
    mapAdd(&state.by_owner, &inflight->by_owner, bytes, length);
    return inflight;
}

void inflightFree(struct inflight *inflight) {
    if (inflight->is_lost) {
        listRemove(&state.lost, &inflight->in_lost);
    }
    mapRemove(&state.by_owner, &inflight->by_owner);
    for (size_t i = 0; i < inflight->name_count; i++) {
        if (inflight->names[i]) {
            RedisModule_FreeString(NULL, inflight->names[i]);
        }
    }
    RedisModule_FreeString(NULL, inflight->owner);
    memFree(inflight);
}

void inflightEnd(RedisModuleCtx *ctx, bool delivered, void *data) {
    struct inflight *inflight = data;
    if (delivered) {
        inflightFree(inflight);
    } else {
        inflight->is_lost = true;
        listAddLast(&state.lost, &inflight->in_lost);
        drainSetAlarm(ctx, 0);
    }
}

size_t inflightCount(void) {
    return state.by_owner.used;
}

struct inflight *inflightFirstLost(void) {
    return state.lost.first ? LIST_ELEMENT(state.lost.first, struct inflight, in_lost) : NULL;
}

RedisModuleString *inflightTakeName(struct inflight *inflight, size_t index) {
    RedisModuleString *name = inflight->names[index];
    inflight->names[index] = NULL;
    return name;
}

static void forgetName(struct inflight *inflight, RedisModuleString *name) {
    for (size_t i = 0; i < inflight->name_count; i++) {
        if (inflight->names[i] && RedisModule_StringCompare(inflight->names[i], name) == 0) {
            RedisModule_FreeString(NULL, inflightTakeName(inflight, i));
        }
    }
}

void inflightForget(int db, RedisModuleString *name, RedisModuleString *owner) {
    if (state.by_owner.used == 0) {
        return;
    }
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(owner, &length);
    for (struct mapEntry *entry = mapFind(&state.by_owner, bytes, length); entry;
         entry = mapFindNext(entry)) {
        struct inflight *inflight = LIST_ELEMENT(entry, struct inflight, by_owner);
        if (inflight->db == db) {
            forgetName(inflight, name);
        }
    }
}

struct swap {
    int first_db, second_db;
};

static void goAlong(struct mapEntry *entry, void *data) {
    const struct swap *swap = data;
    struct inflight *inflight = LIST_ELEMENT(entry, struct inflight, by_owner);
    if (inflight->db == swap->first_db) {
        inflight->db = swap->second_db;
    } else if (inflight->db == swap->second_db) {
        inflight->db = swap->first_db;
    }
}

void inflightSwapped(int first_db, int second_db) {
    struct swap swap = {first_db, second_db};
    mapEach(&state.by_owner, goAlong, &swap);
}
