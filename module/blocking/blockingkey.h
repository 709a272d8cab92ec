/* The keys that clients wait for. For each key, flags record what has happened to it. Keys that are
 * to be checked are in the due list, which the drain processes. A key has an entry only while a
 * client waits for it, so without waiters no memory is used. */
#ifndef LOCK_BLOCKINGKEY_H
#define LOCK_BLOCKINGKEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/features.h"
#include "core/hashmap.h"
#include "core/list.h"
#include "redismodule.h"
#include "server/timer.h"

/* Stands for every database, where a function takes the number of a database. */
#define BLOCKINGKEY_EVERY_DB (-1)

/* What has happened to a key since the last check of the key, as flags. A flag remains set until
 * the work for it is done, even if other flags are set meanwhile. The only exception is that a load
 * clears BLOCKINGKEY_FLUSHED. */
enum blockingkeyNote {
    BLOCKINGKEY_EDITED = 1 << 0,   /* the key's content may have changed */
    BLOCKINGKEY_EXPIRED = 1 << 1,  /* the server has reported that the key expired */
    BLOCKINGKEY_FLUSHED = 1 << 2,  /* the key has been flushed */
    BLOCKINGKEY_KINDS_OWN = 1 << 3 /* the first flag that a kind may define */
};

/* Stands for no flag. It is time to check the key, although nothing is known to have happened. */
#define BLOCKINGKEY_LOOK 0U

struct blockingkey {
    struct mapEntry by_name; /* in the map of its database */
    struct link in_due;
    struct blockingkeyTable *table; /* what the clients wait for */
    RedisModuleString *name;
    int db;
    bool in_use;    /* see blockingkeyUse */
    bool due;       /* in a due list: of the kinds whose check writes, or whose check only reads */
    unsigned notes; /* of enum blockingkeyNote */
    struct timer timer; /* when it becomes due next */
    /* How much of the work for the flags is done, in the kind's own unit; a new flag sets
     * INT64_MIN. */
    int64_t progress;
};

/* The kind of a table's entries. */
struct blockingkeyKind {
    enum feature feature; /* that an entry counts for */
    size_t size;          /* of an entry, which begins with its struct blockingkey */
    /* Whether no client waits, and nothing else is to be done. */
    bool (*isIdle)(const struct blockingkey *key);
    /* Frees what the entry owns, but not the entry. */
    void (*onDrop)(struct blockingkey *key);
};

/* What is done with a due entry. */
struct blockingkeyWork {
    /* Checks whether waits can end. May drop the entry. After that the entry is no longer due,
     * unless some of the work is left. */
    void (*look)(RedisModuleCtx *ctx, struct blockingkey *key, int64_t now_ms);
    /* Redirects the clients that wait, because another node serves the key now. Redirects as many
     * of them as the time slice allows. When the last one has been redirected, the entry is
     * dropped. */
    void (*redirect)(RedisModuleCtx *ctx, struct blockingkey *key);
    /* Removes what is left of the entry, which is no longer due after that. Called on a replica,
     * where no client waits. */
    void (*forget)(RedisModuleCtx *ctx, struct blockingkey *key);
    bool reads_only; /* `look` writes nothing, so it also runs while the server refuses writes */
};

/* A table that is all zero except `kind` is empty and owns no memory. */
struct blockingkeyTable {
    const struct blockingkeyKind *kind;
    const struct blockingkeyWork *work; /* set at load */
    struct map *by_db;                  /* one for each database number up to the highest used */
    int db_count;
    size_t count;
    struct link in_live; /* in the list of the tables that have entries */
};

/* The entry of the key in database `db`, or NULL. Costs one comparison if no client waits. */
struct blockingkey *blockingkeyFind(const struct blockingkeyTable *table, int db,
                                    RedisModuleString *name);

/* As blockingkeyFind, but creates the entry, all zero, if there is none. If so, the caller must add
 * a wait. */
struct blockingkey *blockingkeyFindOrMake(struct blockingkeyTable *table, int db,
                                          RedisModuleString *name);

/* Removes the entry, its flags and its timer, if it is idle. To be called whenever a wait has
 * ended. The entry may be freed. */
void blockingkeyDropIfIdle(RedisModuleCtx *ctx, struct blockingkey *key);

/* Begins to use an entry. While an entry is in use, blockingkeyDropIfIdle does not remove it, so
 * that code that iterates over its waits may end them. No alarm is set for an entry in use, because
 * the user of the entry checks it anyway. Uses are not nested: the first blockingkeyEndUse ends the
 * use. */
static inline void blockingkeyUse(struct blockingkey *key) {
    key->in_use = true;
}

/* Ends the use, and drops the entry if it has become idle. */
void blockingkeyEndUse(RedisModuleCtx *ctx, struct blockingkey *key);

/* Makes the entry due, so that the drain checks it. Sets the alarm, unless the entry is in use.
 * Allowed in every callback. */
void blockingkeyMarkDue(RedisModuleCtx *ctx, struct blockingkey *key);

/* As blockingkeyMarkDue, and sets `notes`, which are flags of enum blockingkeyNote. If the drain
 * has already done part of the work for the entry, it begins that work again. */
void blockingkeyNote(RedisModuleCtx *ctx, struct blockingkey *key, unsigned notes);

/* As blockingkeyNote, for the entries of this key in all tables. */
void blockingkeyNoteKey(RedisModuleCtx *ctx, int db, RedisModuleString *name, unsigned notes);

/* As blockingkeyNote, for every entry of this database, or of all with BLOCKINGKEY_EVERY_DB. */
void blockingkeyNoteAll(RedisModuleCtx *ctx, int db, unsigned notes);

/* Clears the flag. Returns whether it was set. If so, the caller must do the work for it. */
static inline bool blockingkeyTakeNote(struct blockingkey *key, unsigned note) {
    bool noted = key->notes & note;
    key->notes &= ~note;
    return noted;
}

/* Makes the entry no longer due, because the caller checks it. */
void blockingkeyClearDue(struct blockingkey *key);

/* Makes sure that the entry becomes due just after `at_ms`, unix time; INT64_MAX means never. If
 * the timer of the entry is set for an earlier time, the timer is not changed, because the check
 * that follows sets it again. */
void blockingkeyWatch(RedisModuleCtx *ctx, struct blockingkey *key, int64_t at_ms, int64_t now_ms);

/* Makes sure that the entry becomes due after a short while. For a key that must be written and is
 * in use by the server (see keynamesIsInUse), because there is no event for the end of the use.
 * Sets BLOCKINGKEY_EDITED, so that everything is checked then. */
void blockingkeyWatchInUse(RedisModuleCtx *ctx, struct blockingkey *key, int64_t now_ms);

/* The resolution of the clock: this long after the end of its time a key has certainly expired. */
#define BLOCKINGKEY_AFTER_END_MS 1

/* The unix time in ms after which the timer of the entry makes it due; INT64_MAX if never. */
static inline int64_t blockingkeyWatchedAt(const struct blockingkey *key) {
    return key->timer.is_set ? key->timer.place.at - BLOCKINGKEY_AFTER_END_MS : INT64_MAX;
}

/* In a cluster, makes all entries due once a second as long as there are any, because Redis 7.0
 * moves slots to other nodes without an event for their keys. Without a cluster, does nothing. */
void blockingkeyWatchSlots(RedisModuleCtx *ctx);

/* Makes room for the map of this database. To be called before an iteration (blockingkeyEach) over
 * another database that creates entries in this one, because the array of maps must not be
 * reallocated during the iteration. */
void blockingkeyMakeRoomFor(struct blockingkeyTable *table, int db);

/* Calls `visit` for each entry of this database, or of all with BLOCKINGKEY_EVERY_DB. `visit` may
 * drop the entry that is passed to it, and create entries in other databases. */
void blockingkeyEach(const struct blockingkeyTable *table, int db,
                     void (*visit)(struct blockingkey *key, void *context), void *context);

/* The job of the drain. blockingkeyWorkDue checks the due entries, as many as the time slice
 * allows. blockingkeyForgetDue is for a replica, and removes what is left of them. */
void blockingkeyWorkDue(RedisModuleCtx *ctx, int64_t now_ms);
void blockingkeyForgetDue(RedisModuleCtx *ctx);

/* Whether any entry is due whose check may write. */
bool blockingkeyAreDue(void);

#endif
