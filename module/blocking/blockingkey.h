/* The keys that clients wait for: what has happened to each, as flags, and the due list that the
 * drain works through. An entry exists only while a client waits: without waiters there is no
 * memory. */
#ifndef LOCK_BLOCKINGKEY_H
#define LOCK_BLOCKINGKEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hashmap.h"
#include "core/list.h"
#include "redismodule.h"
#include "server/timer.h"

/* Every database, where a function takes a number. */
#define BLOCKINGKEY_EVERY_DB (-1)

/* What has happened to a key since it was checked last, as flags. They add up: a flag stays until
 * its work is done, whatever else happens; only a load clears a flush. */
enum blockingkeyNote {
    BLOCKINGKEY_EDITED = 1 << 0,   /* the key's content may have changed */
    BLOCKINGKEY_EXPIRED = 1 << 1,  /* the server has reported that the key expired */
    BLOCKINGKEY_FLUSHED = 1 << 2,  /* the key has been flushed */
    BLOCKINGKEY_KINDS_OWN = 1 << 3 /* from here on the flags are the kind's */
};

/* No flag: nothing is known to have happened, but it is time to check. */
#define BLOCKINGKEY_LOOK 0U

struct blockingkey {
    struct mapEntry by_name;
    struct link in_due;
    struct blockingkeyTable *table;
    RedisModuleString *name;
    int db;
    bool in_use; /* see blockingkeyUse */
    bool due;
    unsigned notes; /* of enum blockingkeyNote */
    struct timer timer;
    int64_t progress; /* how far the work of the flags has come; a new flag sets INT64_MIN */
};

/* The kind of a table's entries. */
struct blockingkeyKind {
    size_t size; /* of an entry, which begins with its struct blockingkey */
    /* Whether nobody waits, and nothing else is to be done. */
    bool (*isIdle)(const struct blockingkey *key);
    /* Frees what the entry owns, but not the entry. */
    void (*onDrop)(struct blockingkey *key);
};

/* What is done with a due entry. */
struct blockingkeyWork {
    /* Checks whether waits can end; may drop the entry. After that it is no longer due, unless some
     * of the work is left. */
    void (*look)(RedisModuleCtx *ctx, struct blockingkey *key, int64_t now_ms);
    /* The key is another node's: redirects the clients that wait, as many as the time slice allows;
     * the last one drops the entry. */
    void (*redirect)(RedisModuleCtx *ctx, struct blockingkey *key);
    /* The server is a replica, and no client waits: removes what is left, and clears that it is
     * due. */
    void (*forget)(RedisModuleCtx *ctx, struct blockingkey *key);
    bool reads_only; /* `look` writes nothing: it also runs while the server would refuse a write */
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

/* The entry of the key in database `db`, or NULL. One comparison when nobody waits. */
struct blockingkey *blockingkeyFind(const struct blockingkeyTable *table, int db,
                                    RedisModuleString *name);

/* The same, but creates the entry, all zero, if there is none; then the caller must add a wait. */
struct blockingkey *blockingkeyFindOrMake(struct blockingkeyTable *table, int db,
                                          RedisModuleString *name);

/* Removes the entry, its flags and its timer, if it is idle. To be called whenever a wait has
 * ended; the entry may be freed. */
void blockingkeyDropIfIdle(RedisModuleCtx *ctx, struct blockingkey *key);

/* While an entry is in use, blockingkeyDropIfIdle keeps it, so that code that iterates over its
 * waits may end them; and because the user of the entry checks what becomes due, no alarm is set
 * for it. Not nested: the first blockingkeyEndUse ends the use. */
void blockingkeyUse(struct blockingkey *key);

/* Ends the use, and drops the entry if it has become idle. */
void blockingkeyEndUse(RedisModuleCtx *ctx, struct blockingkey *key);

/* The drain is to check the entry: sets the alarm, unless the entry is in use. Allowed in every
 * callback. */
void blockingkeyMarkDue(RedisModuleCtx *ctx, struct blockingkey *key);

/* The same, and sets `notes`, flags of enum blockingkeyNote. The drain begins again with work of
 * the entry that it has begun. */
void blockingkeyNote(RedisModuleCtx *ctx, struct blockingkey *key, unsigned notes);

/* The same for the entries of this key in all tables. */
void blockingkeyNoteKey(RedisModuleCtx *ctx, int db, RedisModuleString *name, unsigned notes);

/* The same for every entry of this database, or with BLOCKINGKEY_EVERY_DB of all. */
void blockingkeyNoteAll(RedisModuleCtx *ctx, int db, unsigned notes);

/* Clears the flag. Returns whether it was set: then the caller does its work. */
bool blockingkeyTakeNote(struct blockingkey *key, unsigned note);

/* The entry is no longer due: the caller checks it. */
void blockingkeyClearDue(struct blockingkey *key);

/* Makes sure that the entry becomes due just after `at_ms` (unix time; INT64_MAX: never). If its
 * timer is set for an earlier time, it is kept: the check that follows sets it again. */
void blockingkeyWatch(RedisModuleCtx *ctx, struct blockingkey *key, int64_t at_ms, int64_t now_ms);

/* The same after a short while: a key that must be written is in use by the server, and there is no
 * event for the end of that. Sets BLOCKINGKEY_EDITED, so that everything is checked then. */
void blockingkeyWatchInUse(RedisModuleCtx *ctx, struct blockingkey *key, int64_t now_ms);

/* The unix time in ms after which its timer makes it due; INT64_MAX: never. */
int64_t blockingkeyWatchedAt(const struct blockingkey *key);

/* In a cluster, makes all entries due once a second as long as there are any: Redis 7.0 gives slots
 * away without an event for their keys. Otherwise does nothing. */
void blockingkeyWatchSlots(RedisModuleCtx *ctx);

/* Makes room for the map of this database, so that an iteration over another one (blockingkeyEach)
 * may create entries in it: the array of maps must not be reallocated meanwhile. */
void blockingkeyMakeRoomFor(struct blockingkeyTable *table, int db);

/* Calls `visit` for each entry of this database, or of all with BLOCKINGKEY_EVERY_DB. `visit` may
 * drop the entry that it is given, and create others in other databases. */
void blockingkeyEach(const struct blockingkeyTable *table, int db,
                     void (*visit)(struct blockingkey *key, void *context), void *context);

/* The drain's job: checks the due entries, as many as the time slice allows; on a replica, removes
 * what is left of them. */
void blockingkeyWorkDue(RedisModuleCtx *ctx, int64_t now_ms);
void blockingkeyForgetDue(RedisModuleCtx *ctx);

/* Whether any entry is due whose check may write. */
bool blockingkeyAreDue(void);

#endif
