/* See unheardrecords.h.
 *
 * Each hand-off makes a record, and the release that follows removes it, so neither may be
 * expensive: there are no allocations, strings are shared, and the hashes read a few bytes only.
 * The hashes are not secret, but a client that picks names that collide only makes others look at
 * UNHEARD_MOST records.
 */
#include "waits/unheardrecords.h"

#include <string.h>

#define BUCKETS 256 /* a power of two */

static struct {
    struct unheardRecord records[UNHEARD_MOST];
    size_t touched; /* how many have been used since the start; some of them are unused again */
    struct list known;
    struct unheardRecord *unused; /* linked by next_of_hold */
    struct unheardRecord *by_hold[BUCKETS], *by_client[BUCKETS];
    struct list by_name[BUCKETS];
    size_t due; /* how many of the known ones */
} state;

static struct unheardRecord *ofLink(struct link *link) {
    return link ? LIST_ELEMENT(link, struct unheardRecord, in_order) : NULL;
}

struct unheardRecord *unheardrecordsNext(const struct unheardRecord *record) {
    return ofLink(record->in_order.next);
}

struct unheardRecord *unheardrecordsFirst(void) {
    return ofLink(state.known.first);
}

size_t unheardrecordsCount(void) {
    return state.known.length;
}

/* ---- finding ---- */

struct unheardText unheardrecordsText(const RedisModuleString *string) {
    struct unheardText text;
    text.bytes = RedisModule_StringPtrLen(string, &text.length);
    return text;
}

bool unheardrecordsSame(const struct unheardText *a, const struct unheardText *b) {
    return a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

/* The last eight bytes: names and owners differ at their end more often than at their beginning. */
static uint64_t tailOf(const struct unheardText *text) {
    uint64_t tail = text->length;
    if (text->length >= sizeof(tail)) {
        memcpy(&tail, text->bytes + text->length - sizeof(tail), sizeof(tail));
    } else {
        memcpy(&tail, text->bytes, text->length);
    }
    return tail;
}

static unsigned bucketOf(uint64_t hash) {
    return (unsigned)((hash * UINT64_C(0xd6e8feb86659fd93)) >> 32) & (BUCKETS - 1);
}

static uint64_t hashOfName(const struct unheardText *name) {
    return tailOf(name) * UINT64_C(0x9e3779b97f4a7c15);
}

static unsigned nameBucketOf(const struct unheardText *name) {
    return bucketOf(hashOfName(name));
}

/* The database is not part of the hash, because SWAPDB changes it. */
struct unheardHold unheardrecordsHold(const struct holdsOwner *of) {
    struct unheardHold hold = {unheardrecordsText(of->name), unheardrecordsText(of->owner), 0, 0,
                               of->db};
    hold.name_bucket = nameBucketOf(&hold.name);
    hold.bucket = bucketOf(hashOfName(&hold.name) + tailOf(&hold.owner));
    return hold;
}

static struct unheardRecord **bucketOfClient(unsigned long long client_id) {
    return &state.by_client[client_id & (BUCKETS - 1)];
}

/* The first record of this hold in the bucket, from `record` on, or NULL. */
static struct unheardRecord *sameHold(struct unheardRecord *record,
                                      const struct unheardHold *hold) {
    while (record &&
           !(record->hold.db == hold->db && unheardrecordsSame(&record->hold.owner, &hold->owner) &&
             unheardrecordsSame(&record->hold.name, &hold->name))) {
        record = record->next_of_hold;
    }
    return record;
}

struct unheardRecord *unheardrecordsOfHold(const struct unheardHold *hold) {
    return sameHold(state.by_hold[hold->bucket], hold);
}

struct unheardRecord *unheardrecordsNextOfHold(const struct unheardRecord *record) {
    return sameHold(record->next_of_hold, &record->hold);
}

struct unheardRecord *unheardrecordsOfClient(unsigned long long client_id) {
    struct unheardRecord *record = *bucketOfClient(client_id);
    while (record && record->client_id != client_id) {
        record = record->next_of_client;
    }
    return record;
}

/* ---- adding and removing records ---- */

static void leaveBuckets(struct unheardRecord *record) {
    struct unheardRecord **at = &state.by_hold[record->hold.bucket];
    while (*at != record) {
        at = &(*at)->next_of_hold;
    }
    *at = record->next_of_hold;
    at = bucketOfClient(record->client_id);
    while (*at != record) {
        at = &(*at)->next_of_client;
    }
    *at = record->next_of_client;
}

void unheardrecordsDrop(struct unheardRecord *record) {
    leaveBuckets(record);
    listRemove(&state.by_name[record->hold.name_bucket], &record->of_name);
    listRemove(&state.known, &record->in_order);
    state.due -= record->is_due;
    RedisModule_FreeString(NULL, record->name);
    RedisModule_FreeString(NULL, record->owner);
    record->next_of_hold = state.unused;
    state.unused = record;
}

/* A free record: the one that was freed last, so only as many are ever touched as were in use at
 * one time. If none is free, the oldest is dropped and its record taken. */
static struct unheardRecord *take(void) {
    if (!state.unused && state.touched < UNHEARD_MOST) {
        return &state.records[state.touched++];
    }
    if (!state.unused) {
        unheardrecordsDrop(ofLink(state.known.first));
    }
    struct unheardRecord *record = state.unused;
    state.unused = record->next_of_hold;
    return record;
}

static void join(struct unheardRecord *record) {
    struct unheardRecord **of_hold = &state.by_hold[record->hold.bucket];
    struct unheardRecord **of_client = bucketOfClient(record->client_id);
    record->next_of_hold = *of_hold;
    *of_hold = record;
    record->next_of_client = *of_client;
    *of_client = record;
    listAddLast(&state.by_name[record->hold.name_bucket], &record->of_name);
    listAddLast(&state.known, &record->in_order);
}

void unheardrecordsDropHold(const struct unheardHold *hold) {
    struct unheardRecord *record = unheardrecordsOfHold(hold);
    while (record) {
        struct unheardRecord *next = unheardrecordsNextOfHold(record);
        unheardrecordsDrop(record);
        record = next;
    }
}

void unheardrecordsAdd(const struct unheardGrant *grant) {
    const struct unheardHold hold = unheardrecordsHold(&grant->of);
    if (grant->is_first) {
        unheardrecordsDropHold(&hold);
    }
    if (hold.name.length + hold.owner.length > UNHEARD_LONGEST) {
        return;
    }
    struct unheardRecord *record = take();
    record->name = grant->of.name;
    record->owner = grant->of.owner;
    record->hold = hold;
    record->client_id = grant->client_id;
    record->granted_ms = grant->granted_ms;
    record->is_due = false;
    RedisModule_RetainString(NULL, record->name);
    RedisModule_RetainString(NULL, record->owner);
    join(record);
}

/* ---- records of a changed key ---- */

static struct unheardRecord *ofName(struct link *link) {
    return link ? LIST_ELEMENT(link, struct unheardRecord, of_name) : NULL;
}

static void noteDue(struct unheardRecord *record) {
    state.due += !record->is_due;
    record->is_due = true;
}

bool unheardrecordsNoteDue(int db, RedisModuleString *name) {
    const struct unheardText text = unheardrecordsText(name);
    size_t due = state.due;
    struct unheardRecord *record = ofName(state.by_name[nameBucketOf(&text)].first);
    for (; record; record = ofName(record->of_name.next)) {
        if (record->hold.db == db && unheardrecordsSame(&record->hold.name, &text)) {
            noteDue(record);
        }
    }
    return state.due > due;
}

struct unheardRecord *unheardrecordsTakeDue(void) {
    struct unheardRecord *record = state.due > 0 ? unheardrecordsFirst() : NULL;
    while (record && !record->is_due) {
        record = unheardrecordsNext(record);
    }
    if (record) {
        record->is_due = false;
        state.due--;
    }
    return record;
}
