/* The keys that somebody waits for: what has been noted of each, and the due list that the drain
 * works off. An entry exists only while somebody waits: no waiters, no memory.
 */
#ifndef LOCK_WAITEDKEY_H
#define LOCK_WAITEDKEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/hashmap.h"
#include "core/list.h"
#include "redismodule.h"
#include "server/timer.h"

/* Every database, where a function takes a number. */
#define WAITEDKEY_EVERY_DB (-1)

/* What has happened to a key since the last look at it, one bit each. Causes add up: a note stays
 * until it is worked off, whatever else happens; only a load makes a flush void. */
enum waitedkeyNote {
    WAITEDKEY_EDITED = 1 << 0,   /* what is in the key may be otherwise */
    WAITEDKEY_EXPIRED = 1 << 1,  /* the server has told that the key expired */
    WAITEDKEY_FLUSHED = 1 << 2,  /* it has been flushed */
    WAITEDKEY_KINDS_OWN = 1 << 3 /* from here on the bits are the kind's */
};

/* No note: nothing is known to have happened, it is only time to look. */
#define WAITEDKEY_LOOK 0U

struct waitedkey {
    struct mapEntry by_name;
    struct link in_due;
    struct waitedkeyTable *table;
    RedisModuleString *name;
    int db;
    bool in_use; /* see waitedkeyUse */
    bool due;
    unsigned notes; /* of enum waitedkeyNote */
    struct timer timer;
    int64_t progress; /* how far the notes have been worked off; INT64_MIN with each new one */
};

/* What the entries of a table are. */
struct waitedkeyKind {
    size_t size; /* of an entry, which begins with its struct waitedkey */
    /* Whether nobody waits any more, and nothing else is to be done. */
    bool (*isIdle)(const struct waitedkey *key);
    /* Frees what the entry owns, but not the entry. */
    void (*onDrop)(struct waitedkey *key);
};

/* What is done with an entry that is due. */
struct waitedkeyWork {
    /* Looks whether somebody's wait is over; may drop the entry. It is not due any more, or has the
     * rest to be done still. */
    void (*look)(RedisModuleCtx *ctx, struct waitedkey *key, int64_t now_ms);
    /* The key is another node's: sends on who waits, as many as the time slice has time for; the
     * last one drops the entry. */
    void (*redirect)(RedisModuleCtx *ctx, struct waitedkey *key);
    /* We are a replica, and nobody waits with a client: forgets the rest, and that it was due. */
    void (*forget)(RedisModuleCtx *ctx, struct waitedkey *key);
    bool reads_only; /* to look writes nothing: also done while the server would refuse a write */
};

/* All zero but for `kind` is an empty table, which owns no memory. */
struct waitedkeyTable {
    const struct waitedkeyKind *kind;
    const struct waitedkeyWork *work; /* set at load */
    struct map *by_db;                /* one for each database number up to the highest used */
    int db_count;
    size_t count;
    struct link in_live; /* of the tables that have entries */
};

/* The entry of the key in database `db`, or NULL. One comparison when nobody waits anywhere. */
struct waitedkey *waitedkeyFind(const struct waitedkeyTable *table, int db,
                                RedisModuleString *name);

/* Likewise, but made, all zero, when there is none; then the caller makes somebody wait there. */
struct waitedkey *waitedkeyFindOrMake(struct waitedkeyTable *table, int db,
                                      RedisModuleString *name);

/* Forgets the entry, its notes and its timer, if it is idle. To be called whenever somebody has
 * gone; the pointer may be dead afterwards. */
void waitedkeyDropIfIdle(RedisModuleCtx *ctx, struct waitedkey *key);

/* While an entry is in use waitedkeyDropIfIdle leaves it alone, so that whoever walks over those
 * who wait may end their waits; and whoever uses it looks at what becomes due, so no alarm is set
 * for that. Not nested: the first end ends it. */
void waitedkeyUse(struct waitedkey *key);

/* Ends the use, and drops the entry if it has become idle. */
void waitedkeyEndUse(RedisModuleCtx *ctx, struct waitedkey *key);

/* The drain is to look at the entry: sets the alarm, unless it is in use. Allowed in every
 * callback.
 */
void waitedkeyMarkDue(RedisModuleCtx *ctx, struct waitedkey *key);

/* Likewise, and notes what has happened: `notes`, of enum waitedkeyNote. What the drain is working
 * off already it begins anew. */
void waitedkeyNote(RedisModuleCtx *ctx, struct waitedkey *key, unsigned notes);

/* Likewise for the entries of this key in all tables. */
void waitedkeyNoteKey(RedisModuleCtx *ctx, int db, RedisModuleString *name, unsigned notes);

/* Likewise for every entry of this database, or of WAITEDKEY_EVERY_DB. */
void waitedkeyNoteAll(RedisModuleCtx *ctx, int db, unsigned notes);

/* Whether this is noted. It is not any more: the caller works it off. */
bool waitedkeyTakeNote(struct waitedkey *key, unsigned note);

/* It is not due any more: the caller looks at it. */
void waitedkeyClearDue(struct waitedkey *key);

/* Makes sure that the entry becomes due just after `at_ms` (unix time; INT64_MAX = never). The
 * timer is kept when it fires earlier than that: the look that follows sets it again. */
void waitedkeyWatch(RedisModuleCtx *ctx, struct waitedkey *key, int64_t at_ms, int64_t now_ms);

/* The same after a short while: a key that is to be written to is in use by the server, and nothing
 * announces the end of that. Notes WAITEDKEY_EDITED, so that whoever looks then looks at all. */
void waitedkeyWatchInUse(RedisModuleCtx *ctx, struct waitedkey *key, int64_t now_ms);

/* After which time (unix) it is due by its timer; INT64_MAX = never. */
int64_t waitedkeyWatchedAt(const struct waitedkey *key);

/* In a cluster, makes all entries due once a second as long as there are any: Redis 7.0 gives slots
 * away without any event for their keys. Does nothing elsewhere. */
void waitedkeyWatchSlots(RedisModuleCtx *ctx);

/* Makes the table ready for walks over this database, in which entries of others are made. */
void waitedkeyMakeRoomFor(struct waitedkeyTable *table, int db);

/* Calls `visit` for each entry of this database. It may drop the one that it is given, and make
 * others in other databases. */
void waitedkeyEach(const struct waitedkeyTable *table, int db,
                   void (*visit)(struct waitedkey *key, void *context), void *context);

/* The drain's job: looks at what is due, as much as the time slice has time for. */
void waitedkeyWorkDue(RedisModuleCtx *ctx, int64_t now_ms);
void waitedkeyForgetDue(RedisModuleCtx *ctx);

/* Whether a look that may write is due. */
bool waitedkeyAreDue(void);

#endif
