/* Stores the records of unconfirmed grants, and finds them. unconfirmed.h explains what they are
 * used for, and why their number and length are limited. */
#ifndef LOCK_UNCONFIRMEDRECORDS_H
#define LOCK_UNCONFIRMEDRECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/list.h"
#include "keys/holds.h"
#include "redismodule.h"

#define UNCONFIRMED_MOST 256
#define UNCONFIRMED_LONGEST 4096 /* the name and the owner together */

/* A grant whose reply was sent to this connection. */
struct unconfirmedGrant {
    struct holdId id;
    unsigned long long client_id;
    int64_t granted_ms; /* unix time */
    bool is_first;      /* the owner's earlier grants on this lock have ended */
};

enum unconfirmedFound {
    UNCONFIRMED_SILENT,
    UNCONFIRMED_CONFIRMED, /* the connection has sent another command */
    UNCONFIRMED_ENDED,     /* the hold has ended, or the connection has closed */
    UNCONFIRMED_PASSED_BY  /* the state cannot be determined now */
};

struct unconfirmedText {
    const char *bytes;
    size_t length;
};

/* What identifies a hold. */
struct unconfirmedHold {
    struct unconfirmedText name, owner;
    unsigned bucket, name_bucket;
    int db;
};

struct unconfirmedRecord {
    struct link in_order; /* in the list of all records, the oldest grant first */
    struct link of_name;  /* in the bucket of the name */
    struct unconfirmedRecord *next_of_hold, *next_of_client; /* in their buckets */
    RedisModuleString *name, *owner;
    struct unconfirmedHold hold; /* its bytes are those of `name` and `owner` */
    unsigned long long client_id;
    int64_t granted_ms;
    enum unconfirmedFound found; /* the result of the check that is in progress */
    bool is_due;                 /* the key has changed, and the drain must check the hold */
};

/* The bytes of a string, which still belong to the string; and whether two texts are equal. */
static inline struct unconfirmedText unconfirmedrecordsText(const RedisModuleString *string) {
    struct unconfirmedText text;
    text.bytes = RedisModule_StringPtrLen(string, &text.length);
    return text;
}
bool unconfirmedrecordsSame(const struct unconfirmedText *a, const struct unconfirmedText *b);

/* The key by which the records of these holds are found. It points to the bytes of the strings in
 * `of`. */
struct unconfirmedHold unconfirmedrecordsHold(const struct holdId *id);

/* Records the grant. If there are already UNCONFIRMED_MOST records, it replaces the oldest one.
 * Does nothing if name and owner together are longer than UNCONFIRMED_LONGEST. The record retains
 * both strings. */
void unconfirmedrecordsAdd(const struct unconfirmedGrant *grant);

/* Free this record, or all records of this hold. `hold` may belong to a record that is freed. */
void unconfirmedrecordsDrop(struct unconfirmedRecord *record);
void unconfirmedrecordsDropHold(const struct unconfirmedHold *hold);

/* The oldest record, and the next one; the first record of a hold, and the next one; the record of
 * the grant that this connection received last. NULL if there is none. */
struct unconfirmedRecord *unconfirmedrecordsFirst(void);
struct unconfirmedRecord *unconfirmedrecordsNext(const struct unconfirmedRecord *record);
struct unconfirmedRecord *unconfirmedrecordsOfHold(const struct unconfirmedHold *hold);
struct unconfirmedRecord *unconfirmedrecordsNextOfHold(const struct unconfirmedRecord *record);
struct unconfirmedRecord *unconfirmedrecordsOfClient(unsigned long long client_id);

/* To be called when the key has changed. Its records become due. Returns whether any of them was
 * not due before. */
bool unconfirmedrecordsNoteDue(int db, RedisModuleString *name);

/* The database in which the record's hold is now. */
int unconfirmedrecordsDb(const struct unconfirmedRecord *record);

/* How many allocations the records use. For the checking build. */
size_t unconfirmedrecordsMemory(void);

/* To be called when SWAPDB has exchanged two databases. */
void unconfirmedrecordsSwapped(int first_db, int second_db);

/* Returns a due record and makes it no longer due; or NULL if there is none. */
struct unconfirmedRecord *unconfirmedrecordsTakeDue(void);

#endif
