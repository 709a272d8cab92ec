/* See contended.h. One map for each database number, in an array that exists while anybody waits.
 */
#include "waits/contended.h"

#include <string.h>

#include "core/mem.h"
#include "server/alarm.h"
#include "server/server.h"

/* Past the end of a lease by the resolution of the clock: the key has expired for sure. */
#define AFTER_END_MS 1

#define SLOT_LOOK_MS 1000

static struct {
    struct map *by_db;
    int db_count;
    size_t lock_count;
    struct list due;
    bool has_slot_timer;
    RedisModuleTimerID slot_timer;
} table;

static struct lock *fromEntry(struct mapEntry *entry) {
    return entry ? LIST_ELEMENT(entry, struct lock, by_name) : NULL;
}

struct lock *contendedFind(int db, RedisModuleString *name) {
    if (db >= table.db_count) {
        return NULL;
    }
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(name, &length);
    return fromEntry(mapFind(&table.by_db[db], bytes, length));
}

static void makeRoomFor(int db) {
    if (db < table.db_count) {
        return;
    }
    struct map *larger = memAlloc(((size_t)db + 1) * sizeof(struct map));
    if (table.db_count > 0) {
        memcpy(larger, table.by_db, (size_t)table.db_count * sizeof(struct map));
    }
    memFree(table.by_db);
    table.by_db = larger;
    table.db_count = db + 1;
}

struct lock *contendedFindOrMake(int db, RedisModuleString *name) {
    struct lock *lock = contendedFind(db, name);
    if (lock) {
        return lock;
    }
    makeRoomFor(db);
    lock = memAlloc(sizeof(*lock));
    lock->db = db;
    /* A copy: the caller's may be a slice of a client's query buffer. */
    lock->name = RedisModule_CreateStringFromString(NULL, name);
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(lock->name, &length);
    mapAdd(&table.by_db[db], &lock->by_name, bytes, length);
    table.lock_count++;
    return lock;
}

static void stopTimer(RedisModuleCtx *ctx, struct lock *lock) {
    if (lock->has_timer) {
        RedisModule_StopTimer(ctx, lock->timer, NULL);
        lock->has_timer = false;
    }
}

/* Nobody waits any more: no memory, and no timer that would keep the module from being unloaded. */
static void forgetTable(RedisModuleCtx *ctx) {
    memFree(table.by_db);
    table.by_db = NULL;
    table.db_count = 0;
    if (table.has_slot_timer) {
        RedisModule_StopTimer(ctx, table.slot_timer, NULL);
        table.has_slot_timer = false;
    }
}

bool contendedIsWritten(const struct lock *lock) {
    return listIsEmpty(&lock->fair.unwritten) && !(lock->notes & CONTENDED_OTHER_PLACES);
}

void contendedDropIfIdle(RedisModuleCtx *ctx, struct lock *lock) {
    if (lock->in_use || waitqueueFirst(&lock->queue) || !contendedIsWritten(lock)) {
        return;
    }
    contendedClearDue(lock);
    stopTimer(ctx, lock);
    mapRemove(&table.by_db[lock->db], &lock->by_name);
    fairqueueForgetNames(&lock->fair.names);
    RedisModule_FreeString(NULL, lock->name);
    memFree(lock);
    if (--table.lock_count == 0) {
        forgetTable(ctx);
    }
}

void contendedUse(struct lock *lock) {
    lock->in_use = true;
}

void contendedEndUse(RedisModuleCtx *ctx, struct lock *lock) {
    lock->in_use = false;
    contendedDropIfIdle(ctx, lock);
}

struct lock *contendedOfPosition(struct position *position) {
    return LIST_ELEMENT(position->queue, struct lock, queue);
}

size_t contendedCount(void) {
    return table.lock_count;
}

static void addToDue(struct lock *lock) {
    if (!lock->due) {
        lock->due = true;
        listAddLast(&table.due, &lock->in_due);
    }
}

void contendedMarkDue(RedisModuleCtx *ctx, struct lock *lock) {
    addToDue(lock);
    if (!lock->in_use) {
        alarmSet(ctx, 0);
    }
}

void contendedNote(RedisModuleCtx *ctx, struct lock *lock, unsigned notes) {
    lock->notes |= notes;
    lock->asked_before = INT64_MIN;
    contendedMarkDue(ctx, lock);
}

bool contendedTakeNote(struct lock *lock, enum contendedNote note) {
    bool noted = lock->notes & note;
    lock->notes &= ~(unsigned)note;
    return noted;
}

/* The same thing happens to many locks. */
struct event {
    RedisModuleCtx *ctx;
    unsigned notes;
};

static void noteEvent(struct mapEntry *entry, void *data) {
    const struct event *event = data;
    contendedNote(event->ctx, fromEntry(entry), event->notes);
}

void contendedNoteAll(RedisModuleCtx *ctx, int db, unsigned notes) {
    struct event event = {ctx, notes};
    for (int i = 0; i < table.db_count; i++) {
        if (db == CONTENDED_EVERY_DB || db == i) {
            mapEach(&table.by_db[i], noteEvent, &event);
        }
    }
}

struct swap {
    RedisModuleCtx *ctx;
    int other_db;
};

static void noteOtherPositions(RedisModuleCtx *ctx, struct lock *lock) {
    lock->fair.loaded = true; /* what the swap has brought is no earlier life's */
    contendedNote(ctx, lock, CONTENDED_OTHER_PLACES);
}

/* The lock, and the one of the same name where its keys are now. The latter may be made here: in
 * the other map, not in the one that is being walked. */
static void noteSwapped(struct mapEntry *entry, void *data) {
    const struct swap *swap = data;
    struct lock *lock = fromEntry(entry);
    contendedNote(swap->ctx, lock, CONTENDED_EDITED); /* a holder who waits here may have come */
    if (lock->fair.loaded) {
        noteOtherPositions(swap->ctx, lock);
        noteOtherPositions(swap->ctx, contendedFindOrMake(swap->other_db, lock->name));
    }
}

void contendedSwapped(RedisModuleCtx *ctx, int first_db, int second_db) {
    if (first_db >= table.db_count && second_db >= table.db_count) {
        return; /* nobody waits there */
    }
    /* Now, because the maps may not move while one is walked. */
    makeRoomFor(first_db);
    makeRoomFor(second_db);
    struct swap swap = {ctx, second_db}, back = {ctx, first_db};
    mapEach(&table.by_db[first_db], noteSwapped, &swap);
    mapEach(&table.by_db[second_db], noteSwapped, &back);
}

/* DEBUG RELOAD flushes and loads: its flush has taken nobody's position away. Yet what it loads may be
 * of another time than the waiters, or of after a flush by somebody else. */
static void noteLoaded(struct mapEntry *entry, void *ctx) {
    struct lock *lock = fromEntry(entry);
    contendedTakeNote(lock, CONTENDED_FLUSHED);
    contendedNote(ctx, lock, CONTENDED_EDITED);
    if (lock->fair.loaded) {
        contendedNote(ctx, lock, CONTENDED_OTHER_PLACES);
    }
}

void contendedLoaded(RedisModuleCtx *ctx) {
    for (int i = 0; i < table.db_count; i++) {
        mapEach(&table.by_db[i], noteLoaded, ctx);
    }
}

struct lock *contendedFirstDue(void) {
    struct link *first = table.due.first;
    return first ? LIST_ELEMENT(first, struct lock, in_due) : NULL;
}

void contendedClearDue(struct lock *lock) {
    if (lock->due) {
        lock->due = false;
        listRemove(&table.due, &lock->in_due);
    }
}

static void timeToLook(RedisModuleCtx *ctx, void *data) {
    struct lock *lock = data;
    lock->has_timer = false;
    addToDue(lock);
    alarmRing(ctx);
}

void contendedWatch(RedisModuleCtx *ctx, struct lock *lock, int64_t at_ms, int64_t now_ms) {
    if (at_ms == INT64_MAX || (lock->has_timer && lock->timer_at_ms <= at_ms)) {
        return;
    }
    stopTimer(ctx, lock);
    int64_t delay_ms = serverTimerDelay(at_ms, now_ms);
    lock->timer = RedisModule_CreateTimer(ctx, delay_ms + AFTER_END_MS, timeToLook, lock);
    lock->has_timer = true;
    lock->timer_at_ms = now_ms + delay_ms;
}

static void lookAtSlots(RedisModuleCtx *ctx, void *data) {
    (void)data;
    table.has_slot_timer = false;
    contendedNoteAll(ctx, CONTENDED_EVERY_DB, CONTENDED_LOOK);
    contendedWatchSlots(ctx);
}

void contendedWatchSlots(RedisModuleCtx *ctx) {
    if (serverIsCluster() && !table.has_slot_timer) {
        table.slot_timer = RedisModule_CreateTimer(ctx, SLOT_LOOK_MS, lookAtSlots, NULL);
        table.has_slot_timer = true;
    }
}
