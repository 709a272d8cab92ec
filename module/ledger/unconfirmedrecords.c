/* See unconfirmedrecords.h.
 *
 * Each hand-off makes a record, and the release that follows removes it, so neither may be
 * expensive: there are no allocations, strings are shared, and the hashes read a few bytes only.
 * The hashes are not secret, but a client that picks names that collide only makes others look at
 * UNCONFIRMED_MOST records.
 */
#include "ledger/unconfirmedrecords.h"

#include <string.h>

#include "core/features.h"
#include "core/swappeddbs.h"

#define BUCKETS 256 /* a power of two */

static struct {
    struct unconfirmedRecord records[UNCONFIRMED_MOST];
    size_t touched; /* how many have been used since the start; some of them are unused again */
    struct list known;
    struct unconfirmedRecord *unused; /* linked by next_of_hold */
    struct unconfirmedRecord *by_hold[BUCKETS], *by_client[BUCKETS];
    struct list by_name[BUCKETS];
    size_t due; /* how many of the known ones */
    struct swappeddbs dbs;
} state;

static struct unconfirmedRecord *unconfirmedrecordsOfLink(struct link *link) {
    return LIST_ELEMENT_OR_NULL(link, struct unconfirmedRecord, in_order);
}

struct unconfirmedRecord *unconfirmedrecordsNext(const struct unconfirmedRecord *record) {
    return unconfirmedrecordsOfLink(record->in_order.next);
}

struct unconfirmedRecord *unconfirmedrecordsFirst(void) {
    return unconfirmedrecordsOfLink(state.known.first);
}

/* ---- finding ---- */

bool unconfirmedrecordsSame(const struct unconfirmedText *a, const struct unconfirmedText *b) {
    return a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

/* The last eight bytes: names and owners differ at their end more often than at their beginning. */
static uint64_t tailOf(const struct unconfirmedText *text) {
    uint64_t tail = text->length;
    if (text->length >= sizeof(tail)) {
        memcpy(&tail, text->bytes + text->length - sizeof(tail), sizeof(tail));
    } else {
        memcpy(&tail, text->bytes, text->length);
    }
    return tail;
}

#define BUCKET_OF(hash) ((unsigned)(((hash)*UINT64_C(0xd6e8feb86659fd93)) >> 32) & (BUCKETS - 1))
#define HASH_OF_NAME(name) (tailOf(name) * UINT64_C(0x9e3779b97f4a7c15))
#define CLIENTS_BUCKET(client_id) (&state.by_client[(client_id) & (BUCKETS - 1)])

/* The database is not part of the hash, because SWAPDB changes it. */
struct unconfirmedHold unconfirmedrecordsHold(const struct holdId *id) {
    struct unconfirmedHold hold = {unconfirmedrecordsText(id->name),
                                   unconfirmedrecordsText(id->owner), 0, 0,
                                   swappeddbsStaying(&state.dbs, id->db)};
    uint64_t hash = HASH_OF_NAME(&hold.name);
    hold.name_bucket = BUCKET_OF(hash);
    hold.bucket = BUCKET_OF(hash + tailOf(&hold.owner));
    return hold;
}

/* The first record of this hold in the bucket, from `record` on, or NULL. */
static struct unconfirmedRecord *sameHold(struct unconfirmedRecord *record,
                                          const struct unconfirmedHold *hold) {
    while (record && !(record->hold.db == hold->db &&
                       unconfirmedrecordsSame(&record->hold.owner, &hold->owner) &&
                       unconfirmedrecordsSame(&record->hold.name, &hold->name))) {
        record = record->next_of_hold;
    }
    return record;
}

struct unconfirmedRecord *unconfirmedrecordsOfHold(const struct unconfirmedHold *hold) {
    return sameHold(state.by_hold[hold->bucket], hold);
}

struct unconfirmedRecord *unconfirmedrecordsNextOfHold(const struct unconfirmedRecord *record) {
    return sameHold(record->next_of_hold, &record->hold);
}

struct unconfirmedRecord *unconfirmedrecordsOfClient(unsigned long long client_id) {
    struct unconfirmedRecord *record = *CLIENTS_BUCKET(client_id);
    while (record && record->client_id != client_id) {
        record = record->next_of_client;
    }
    return record;
}

/* ---- adding and removing records ---- */

static void leaveBuckets(struct unconfirmedRecord *record) {
    struct unconfirmedRecord **at = &state.by_hold[record->hold.bucket];
    while (*at != record) {
        at = &(*at)->next_of_hold;
    }
    *at = record->next_of_hold;
    at = CLIENTS_BUCKET(record->client_id);
    while (*at != record) {
        at = &(*at)->next_of_client;
    }
    *at = record->next_of_client;
}

void unconfirmedrecordsDrop(struct unconfirmedRecord *record) {
    leaveBuckets(record);
    listRemove(&state.by_name[record->hold.name_bucket], &record->of_name);
    listRemove(&state.known, &record->in_order);
    featuresEnd(FEATURE_UNCONFIRMED);
    state.due -= record->is_due;
    RedisModule_FreeString(NULL, record->name);
    RedisModule_FreeString(NULL, record->owner);
    record->next_of_hold = state.unused;
    state.unused = record;
    if (listIsEmpty(&state.known)) {
        swappeddbsReset(&state.dbs);
    }
}

size_t unconfirmedrecordsMemory(void) {
    return swappeddbsMemory(&state.dbs);
}

int unconfirmedrecordsDb(const struct unconfirmedRecord *record) {
    return swappeddbsCurrent(&state.dbs, record->hold.db);
}

void unconfirmedrecordsSwapped(int first_db, int second_db) {
    if (!listIsEmpty(&state.known)) {
        swappeddbsSwap(&state.dbs, first_db, second_db);
    }
}

/* A free record: the one that was freed last, so only as many are ever touched as were in use at
 * one time. If none is free, the oldest is dropped and its record taken. */
static struct unconfirmedRecord *unconfirmedrecordsTake(void) {
    if (!state.unused && state.touched < UNCONFIRMED_MOST) {
        return &state.records[state.touched++];
    }
    if (!state.unused) {
        unconfirmedrecordsDrop(unconfirmedrecordsOfLink(state.known.first));
    }
    struct unconfirmedRecord *record = state.unused;
    state.unused = record->next_of_hold;
    return record;
}

static void unconfirmedrecordsJoin(struct unconfirmedRecord *record) {
    struct unconfirmedRecord **of_hold = &state.by_hold[record->hold.bucket];
    struct unconfirmedRecord **of_client = CLIENTS_BUCKET(record->client_id);
    record->next_of_hold = *of_hold;
    *of_hold = record;
    record->next_of_client = *of_client;
    *of_client = record;
    listAddLast(&state.by_name[record->hold.name_bucket], &record->of_name);
    listAddLast(&state.known, &record->in_order);
    featuresBegin(FEATURE_UNCONFIRMED);
}

void unconfirmedrecordsDropHold(const struct unconfirmedHold *hold) {
    struct unconfirmedRecord *record = unconfirmedrecordsOfHold(hold);
    while (record) {
        struct unconfirmedRecord *next = unconfirmedrecordsNextOfHold(record);
        unconfirmedrecordsDrop(record);
        record = next;
    }
}

void unconfirmedrecordsAdd(const struct unconfirmedGrant *grant) {
    struct unconfirmedHold hold = unconfirmedrecordsHold(&grant->id);
    if (grant->is_first) {
        unconfirmedrecordsDropHold(&hold);
        /* The numbers of the databases begin anew after the last record. */
        hold.db = swappeddbsStaying(&state.dbs, grant->id.db);
    }
    if (hold.name.length + hold.owner.length > UNCONFIRMED_LONGEST) {
        return;
    }
    struct unconfirmedRecord *record = unconfirmedrecordsTake();
    record->name = grant->id.name;
    record->owner = grant->id.owner;
    record->hold = hold;
    record->client_id = grant->client_id;
    record->granted_ms = grant->granted_ms;
    record->is_due = false;
    RedisModule_RetainString(NULL, record->name);
    RedisModule_RetainString(NULL, record->owner);
    unconfirmedrecordsJoin(record);
}

/* ---- records of a changed key ---- */

static struct unconfirmedRecord *unconfirmedrecordsOfName(struct link *link) {
    return LIST_ELEMENT_OR_NULL(link, struct unconfirmedRecord, of_name);
}

static void noteDue(struct unconfirmedRecord *record) {
    state.due += !record->is_due;
    record->is_due = true;
}

bool unconfirmedrecordsNoteDue(int db, RedisModuleString *name) {
    const struct unconfirmedText text = unconfirmedrecordsText(name);
    size_t due = state.due;
    int staying = swappeddbsStaying(&state.dbs, db);
    struct unconfirmedRecord *record =
        unconfirmedrecordsOfName(state.by_name[BUCKET_OF(HASH_OF_NAME(&text))].first);
    for (; record; record = unconfirmedrecordsOfName(record->of_name.next)) {
        if (record->hold.db == staying && unconfirmedrecordsSame(&record->hold.name, &text)) {
            noteDue(record);
        }
    }
    return state.due > due;
}

struct unconfirmedRecord *unconfirmedrecordsTakeDue(void) {
    struct unconfirmedRecord *record = state.due > 0 ? unconfirmedrecordsFirst() : NULL;
    while (record && !record->is_due) {
        record = unconfirmedrecordsNext(record);
    }
    if (record) {
        record->is_due = false;
        state.due--;
    }
    return record;
}
