/* The records of grants that nobody has followed up: where they are kept, and how they are found.
 * What is done with them is unheard.c's, and so are the limits of their number and length. */
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

/* How a hold came about: this connection was sent the grant. */
struct unheardGrant {
    struct holdsOwner of;
    unsigned long long client_id;
    int64_t granted_ms; /* unix time */
    bool is_first;      /* what this owner was granted there before is over */
};

enum unheardFound {
    UNHEARD_SILENT,
    UNHEARD_SPOKEN,   /* the connection has said something */
    UNHEARD_OVER,     /* so is the hold, or the connection has closed */
    UNHEARD_PASSED_BY /* it cannot be found out now */
};

struct unheardText {
    const char *bytes;
    size_t length;
};

/* What tells a hold from others. */
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
    struct unheardHold hold; /* whose bytes are those of the two */
    unsigned long long client_id;
    int64_t granted_ms;
    enum unheardFound found; /* by the look that is under way */
    bool is_due;             /* its key has changed: the drain looks whether the hold is there */
};

/* The string's bytes; whether two are the same. */
struct unheardText unheardrecordsText(const RedisModuleString *string);
bool unheardrecordsSame(const struct unheardText *a, const struct unheardText *b);

struct unheardHold unheardrecordsHold(const struct holdsOwner *of);

/* A record of this grant; the oldest gives way to it. None of names that are too long. */
void unheardrecordsAdd(const struct unheardGrant *grant);

/* Frees the record; all of this hold, which may be that of a record that is freed. */
void unheardrecordsDrop(struct unheardRecord *record);
void unheardrecordsDropHold(const struct unheardHold *hold);

size_t unheardrecordsCount(void);

/* The oldest record and the next one; those of a hold; that of the grant that this connection was sent last.
 * NULL: there is none. */
struct unheardRecord *unheardrecordsFirst(void);
struct unheardRecord *unheardrecordsNext(const struct unheardRecord *record);
struct unheardRecord *unheardrecordsOfHold(const struct unheardHold *hold);
struct unheardRecord *unheardrecordsNextOfHold(const struct unheardRecord *record);
struct unheardRecord *unheardrecordsOfClient(unsigned long long client_id);

/* The key has changed: its records are due to be looked at. Returns whether any is that was not. */
bool unheardrecordsNoteDue(int db, RedisModuleString *name);

/* One that was due and is not any more, or NULL. */
struct unheardRecord *unheardrecordsTakeDue(void);

#endif
