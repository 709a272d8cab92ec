/* See untold.h. */
#include "waits/untold.h"

#include "server/alarm.h"
#include "core/mem.h"

static struct {
    struct map by_owner;
    struct list lost;
} state;

struct untold *untoldNew(RedisModuleString *owner, size_t name_count) {
    struct untold *untold = memAlloc(sizeof(*untold) + name_count * sizeof(untold->names[0]));
    untold->owner = owner;
    RedisModule_RetainString(NULL, owner);
    untold->name_count = name_count;
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(owner, &length);
    mapAdd(&state.by_owner, &untold->by_owner, bytes, length);
    return untold;
}

void untoldFree(struct untold *untold) {
    if (untold->is_lost) {
        listRemove(&state.lost, &untold->in_lost);
    }
    mapRemove(&state.by_owner, &untold->by_owner);
    for (size_t i = 0; i < untold->name_count; i++) {
        if (untold->names[i]) {
            RedisModule_FreeString(NULL, untold->names[i]);
        }
    }
    RedisModule_FreeString(NULL, untold->owner);
    memFree(untold);
}

void untoldEnd(RedisModuleCtx *ctx, bool delivered, void *data) {
    struct untold *untold = data;
    if (delivered) {
        untoldFree(untold);
    } else {
        untold->is_lost = true;
        listAddLast(&state.lost, &untold->in_lost);
        alarmSet(ctx, 0);
    }
}

size_t untoldCount(void) {
    return state.by_owner.used;
}

struct untold *untoldFirstLost(void) {
    return state.lost.first ? LIST_ELEMENT(state.lost.first, struct untold, in_lost) : NULL;
}

RedisModuleString *untoldTakeName(struct untold *untold, size_t index) {
    RedisModuleString *name = untold->names[index];
    untold->names[index] = NULL;
    return name;
}

static void forgetName(struct untold *untold, RedisModuleString *name) {
    for (size_t i = 0; i < untold->name_count; i++) {
        if (untold->names[i] && RedisModule_StringCompare(untold->names[i], name) == 0) {
            RedisModule_FreeString(NULL, untoldTakeName(untold, i));
        }
    }
}

void untoldForget(int db, RedisModuleString *name, RedisModuleString *owner) {
    if (state.by_owner.used == 0) {
        return;
    }
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(owner, &length);
    for (struct mapEntry *entry = mapFind(&state.by_owner, bytes, length); entry;
         entry = mapFindNext(entry)) {
        struct untold *untold = LIST_ELEMENT(entry, struct untold, by_owner);
        if (untold->db == db) {
            forgetName(untold, name);
        }
    }
}

struct swap {
    int first_db, second_db;
};

static void goAlong(struct mapEntry *entry, void *data) {
    const struct swap *swap = data;
    struct untold *untold = LIST_ELEMENT(entry, struct untold, by_owner);
    if (untold->db == swap->first_db) {
        untold->db = swap->second_db;
    } else if (untold->db == swap->second_db) {
        untold->db = swap->first_db;
    }
}

void untoldSwapped(int first_db, int second_db) {
    struct swap swap = {first_db, second_db};
    mapEach(&state.by_owner, goAlong, &swap);
}
