/* The tables of keys that clients wait for, their flags and timers, and the due lists.
 *
 *   blockingkeyFind, blockingkeyFindOrMake    return the entry of a key in a table
 *   blockingkeyNote, blockingkeyMarkDue       make the drain check an entry soon
 *   blockingkeyWatch                          makes the drain check an entry at a certain time
 *   blockingkeyUse, blockingkeyEndUse         begin and end an iteration over an entry's waits
 *   blockingkeyDropIfIdle                     removes an entry after its last wait has ended
 *   blockingkeyNoteKey, blockingkeyNoteAll    record events of the server, for events.c
 *   blockingkeyWorkDue, blockingkeyForgetDue  do the job of the drain
 *
 * Each kind has a table of its own (contended.c, latches.c, watches.c), whose entries begin with a
 * struct blockingkey. A table has one map for each database number. To add a kind, define the entry
 * and its struct blockingkeyKind, and set the struct blockingkeyWork of the table at load. After
 * that the entries receive every event, timer and move of a slot.
 *
 * Contracts are in blockingkey.h.
 */
#include "blocking/blockingkey.h"

#include <string.h>

#include "blocking/drain.h"
#include "blocking/redirect.h"
#include "common/failpoint.h"
#include "core/mem.h"
#include "server/server.h"
#include "server/timeslice.h"

#define SLOT_LOOK_MS 1000

#define IN_USE_RETRY_MS 20

static struct {
    struct list tables; /* those that have entries */
    struct list due[2]; /* due entries, by whether their check only reads */
    struct timer slot_timer;
} live;

static struct blockingkeyTable *blockingkeyOfLink(struct link *link) {
    return LIST_ELEMENT_OR_NULL(link, struct blockingkeyTable, in_live);
}

/* ---- the tables ---- */

struct blockingkey *blockingkeyFind(const struct blockingkeyTable *table, int db,
                                    RedisModuleString *name) {
    if (db >= table->db_count) {
        return NULL;
    }
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(name, &length);
    struct mapEntry *entry = mapFind(&table->by_db[db], bytes, length);
    return LIST_ELEMENT_OR_NULL(entry, struct blockingkey, by_name);
}

void blockingkeyMakeRoomFor(struct blockingkeyTable *table, int db) {
    if (db < table->db_count) {
        return;
    }
    struct map *larger = memAlloc(((size_t)db + 1) * sizeof(struct map));
    if (table->db_count > 0) {
        memcpy(larger, table->by_db, (size_t)table->db_count * sizeof(struct map));
    }
    memFree(table->by_db);
    table->by_db = larger;
    table->db_count = db + 1;
}

struct blockingkey *blockingkeyFindOrMake(struct blockingkeyTable *table, int db,
                                          RedisModuleString *name) {
    struct blockingkey *key = blockingkeyFind(table, db, name);
    if (key) {
        return key;
    }
    blockingkeyMakeRoomFor(table, db);
    key = memAlloc(table->kind->size);
    key->table = table;
    key->db = db;
    /* A copy: the caller's string may point into a client's query buffer. */
    key->name = RedisModule_CreateStringFromString(NULL, name);
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(key->name, &length);
    mapAdd(&table->by_db[db], &key->by_name, bytes, length);
    featuresBegin(table->kind->feature);
    if (table->count++ == 0) {
        listAddLast(&live.tables, &table->in_live);
    }
    return key;
}

/* Nobody waits in this table any more: frees its memory, and stops the timer, which would keep the
 * module from being unloaded, after the last table. */
static void forgetTable(RedisModuleCtx *ctx, struct blockingkeyTable *table) {
    memFree(table->by_db);
    table->by_db = NULL;
    table->db_count = 0;
    listRemove(&live.tables, &table->in_live);
    if (listIsEmpty(&live.tables)) {
        timerStop(ctx, &live.slot_timer);
    }
}

void blockingkeyDropIfIdle(RedisModuleCtx *ctx, struct blockingkey *key) {
    struct blockingkeyTable *table = key->table;
    if (key->in_use || !table->kind->isIdle(key)) {
        return;
    }
    if (key->due) {
        blockingkeyClearDue(key);
    }
    timerStop(ctx, &key->timer);
    mapRemove(&table->by_db[key->db], &key->by_name);
    table->kind->onDrop(key);
    RedisModule_FreeString(NULL, key->name);
    memFree(key);
    featuresEnd(table->kind->feature);
    if (--table->count == 0) {
        forgetTable(ctx, table);
    }
}

void blockingkeyEndUse(RedisModuleCtx *ctx, struct blockingkey *key) {
    key->in_use = false;
    blockingkeyDropIfIdle(ctx, key);
}

/* ---- flags ---- */

static struct list *dueListOf(const struct blockingkey *key) {
    return &live.due[key->table->work->reads_only];
}

static void addToDue(struct blockingkey *key) {
    if (!key->due) {
        key->due = true;
        listAddLast(dueListOf(key), &key->in_due);
    }
}

static struct blockingkey *firstDue(bool reads_only) {
    struct link *first = live.due[reads_only].first;
    return LIST_ELEMENT_OR_NULL(first, struct blockingkey, in_due);
}

static void setAlarmUnlessUsed(RedisModuleCtx *ctx, const struct blockingkey *key) {
    if (!key->in_use) {
        drainSetAlarm(ctx, DRAIN_KEYS, 0);
    }
}

void blockingkeyMarkDue(RedisModuleCtx *ctx, struct blockingkey *key) {
    addToDue(key);
    setAlarmUnlessUsed(ctx, key);
}

void blockingkeyClearDue(struct blockingkey *key) {
    if (key->due) {
        key->due = false;
        listRemove(dueListOf(key), &key->in_due);
    }
}

static void addNotes(struct blockingkey *key, unsigned notes) {
    key->notes |= notes;
    key->progress = INT64_MIN;
    addToDue(key);
}

void blockingkeyNote(RedisModuleCtx *ctx, struct blockingkey *key, unsigned notes) {
    addNotes(key, notes);
    setAlarmUnlessUsed(ctx, key);
}

void blockingkeyNoteKey(RedisModuleCtx *ctx, int db, RedisModuleString *name, unsigned notes) {
    struct blockingkeyTable *table = blockingkeyOfLink(live.tables.first);
    for (; table; table = blockingkeyOfLink(table->in_live.next)) {
        struct blockingkey *key = blockingkeyFind(table, db, name);
        if (key) {
            blockingkeyNote(ctx, key, notes);
        }
    }
}

struct visitor {
    void (*visit)(struct blockingkey *key, void *context);
    void *context;
};

static void visitEntry(struct mapEntry *entry, void *data) {
    const struct visitor *visitor = data;
    visitor->visit(LIST_ELEMENT(entry, struct blockingkey, by_name), visitor->context);
}

void blockingkeyEach(const struct blockingkeyTable *table, int db,
                     void (*visit)(struct blockingkey *key, void *context), void *context) {
    struct visitor visitor = {visit, context};
    for (int i = 0; i < table->db_count; i++) {
        if (db == BLOCKINGKEY_EVERY_DB || db == i) {
            mapEach(&table->by_db[i], visitEntry, &visitor);
        }
    }
}

static void noteEvent(struct blockingkey *key, void *notes) {
    addNotes(key, *(unsigned *)notes);
}

/* Sets one alarm for all, because setting it costs more than the flags of a key. */
void blockingkeyNoteAll(RedisModuleCtx *ctx, int db, unsigned notes) {
    struct blockingkeyTable *table = blockingkeyOfLink(live.tables.first);
    for (; table; table = blockingkeyOfLink(table->in_live.next)) {
        blockingkeyEach(table, db, noteEvent, &notes);
    }
    if (firstDue(false) || firstDue(true)) {
        drainSetAlarm(ctx, DRAIN_KEYS, 0);
    }
}

/* ---- timers ---- */

static void timeToLook(RedisModuleCtx *ctx, struct timer *timer) {
    struct blockingkey *key = TIMER_OWNER(timer, struct blockingkey, timer);
    addToDue(key);
    drainRunSoon(ctx, DRAIN_KEYS);
}

void blockingkeyWatch(RedisModuleCtx *ctx, struct blockingkey *key, int64_t at_ms, int64_t now_ms) {
    if (at_ms == INT64_MAX || blockingkeyWatchedAt(key) <= at_ms) {
        return;
    }
    int64_t end_ms = at_ms > now_ms ? at_ms : now_ms;
    timerSetWall(ctx, &key->timer, end_ms + BLOCKINGKEY_AFTER_END_MS, timeToLook);
}

void blockingkeyWatchInUse(RedisModuleCtx *ctx, struct blockingkey *key, int64_t now_ms) {
    key->notes |= BLOCKINGKEY_EDITED;
    key->progress = INT64_MIN;
    blockingkeyWatch(ctx, key, now_ms + IN_USE_RETRY_MS, now_ms);
}

static void blockingkeyLookAtSlots(RedisModuleCtx *ctx, struct timer *timer) {
    (void)timer;
    blockingkeyNoteAll(ctx, BLOCKINGKEY_EVERY_DB, BLOCKINGKEY_LOOK);
    blockingkeyWatchSlots(ctx);
}

void blockingkeyWatchSlots(RedisModuleCtx *ctx) {
    if (serverIsCluster() && !live.slot_timer.is_set) {
        timerSet(ctx, &live.slot_timer, timerAfter(SLOT_LOOK_MS), blockingkeyLookAtSlots);
    }
}

/* ---- the drain's job ---- */

bool blockingkeyAreDue(void) {
    return firstDue(false);
}

/* Returns whether the key could be checked; if not, it is still due. */
static bool blockingkeyLook(RedisModuleCtx *ctx, struct blockingkey *key, int64_t now_ms) {
    const struct blockingkeyWork *work = key->table->work;
    RedisModule_SelectDb(ctx, key->db);
    (void)failpoint(FAILPOINT_DRAIN_LOCK);
    switch (serverMayWriteKey(ctx, key->name)) {
    case SERVER_ACCEPTS:
        work->look(ctx, key, now_ms);
        return true;
    case SERVER_NOT_OURS:
        work->redirect(ctx, key);
        return true;
    case SERVER_REFUSES:
        if (work->reads_only) {
            work->look(ctx, key, now_ms);
        }
        return work->reads_only;
    }
    return false;
}

/* The two lists are first in alternate runs, so that neither uses up the time of the other.
 * Equivalent: checks that only read would also go on with the retry, some ms later. */
void blockingkeyWorkDue(RedisModuleCtx *ctx, int64_t now_ms) {
    static bool readers_first;
    readers_first = !readers_first;
    bool refused = false;
    for (int i = 0; i < 2; i++) {
        bool reads_only = readers_first == (i == 0), is_refused = false;
        struct blockingkey *key;
        while (!is_refused && (key = firstDue(reads_only)) && !timesliceHasEnded()) {
            is_refused = !blockingkeyLook(ctx, key, now_ms);
        }
        refused = refused || is_refused; /* all other keys of this list would be, too */
    }
    redirectForget();
    drainClearAlarm(DRAIN_KEYS); /* what has become due and was checked has set it */
    if (firstDue(true) || (firstDue(false) && !refused)) {
        drainSetAlarm(ctx, DRAIN_KEYS, 0);
    } else if (refused) {
        drainRetry(ctx, DRAIN_KEYS);
    }
}

void blockingkeyForgetDue(RedisModuleCtx *ctx) {
    struct blockingkey *key;
    while (((key = firstDue(false)) || (key = firstDue(true))) && !timesliceHasEnded()) {
        key->table->work->forget(ctx, key);
    }
    if (key) {
        drainSetAlarm(ctx, DRAIN_KEYS, 0);
    }
}
