/* The records of unconfirmed grants: where they are stored, and how they are found. What is done
 * with them, and why their number and length are limited, is in unheard.h. */
#ifndef LOCK_UNHEARDRECORDS_H
#define LOCK_UNHEARDRECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/list.h"
#include "keys/holds.h"
#include "redismodule.h"

#define UNHEARD_MOST 256
#define UNHEARD_LONGEST 4096 /* the name and the owner together */

/* A grant that this connection was sent. */
struct unheardGrant {
    struct holdsOwner of;
    unsigned long long client_id;
    int64_t granted_ms; /* unix time */
    bool is_first;      /* the owner's earlier grants on this lock have ended */
};

enum unheardFound {
    UNHEARD_SILENT,
    UNHEARD_SPOKEN,   /* the connection has sent another command */
    UNHEARD_OVER,     /* the hold has ended, or the connection has closed */
    UNHEARD_PASSED_BY /* it cannot be determined now */
};

struct unheardText {
    const char *bytes;
    size_t length;
};

/* What identifies a hold. */
struct unheardHold {
    struct unheardText name, owner;
    unsigned bucket, name_bucket;
    int db;
};

struct unheardRecord {
    struct link in_order;                                /* of granting: the first is the oldest */
    struct link of_name;                                 /* in the bucket of the name */
    struct unheardRecord *next_of_hold, *next_of_client; /* in their buckets */
    RedisModuleString *name, *owner;
    struct unheardHold hold; /* its bytes are those of `name` and `owner` */
    unsigned long long client_id;
    int64_t granted_ms;
    enum unheardFound found; /* by the check that is in progress */
    bool is_due;             /* its key has changed: the drain checks whether the hold exists */
};

/* The string's bytes, owned by the string; whether two texts are equal. */
struct unheardText unheardrecordsText(const RedisModuleString *string);
bool unheardrecordsSame(const struct unheardText *a, const struct unheardText *b);

/* The key by which the records of these holds are found. Its bytes are those of `of`. */
struct unheardHold unheardrecordsHold(const struct holdsOwner *of);

/* Records the grant, in place of the oldest if there are UNHEARD_MOST. Nothing is recorded if name
 * and owner are longer than UNHEARD_LONGEST. The record retains both strings. */
void unheardrecordsAdd(const struct unheardGrant *grant);

/* Frees the record; all records of this hold. `hold` may be a member of a record that is freed. */
void unheardrecordsDrop(struct unheardRecord *record);
void unheardrecordsDropHold(const struct unheardHold *hold);

/* How many records there are. */
size_t unheardrecordsCount(void);

/* The oldest record, and the next one; those of one hold; that of the grant that this connection
 * received last. NULL: there is none. */
struct unheardRecord *unheardrecordsFirst(void);
struct unheardRecord *unheardrecordsNext(const struct unheardRecord *record);
struct unheardRecord *unheardrecordsOfHold(const struct unheardHold *hold);
struct unheardRecord *unheardrecordsNextOfHold(const struct unheardRecord *record);
struct unheardRecord *unheardrecordsOfClient(unsigned long long client_id);

/* The key has changed: its records become due. Returns whether any of them was not due before. */
bool unheardrecordsNoteDue(int db, RedisModuleString *name);

/* Returns a due record, which is no longer due then, or NULL. */
struct unheardRecord *unheardrecordsTakeDue(void);

#endif
