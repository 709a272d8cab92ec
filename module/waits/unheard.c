/* See unheard.h.
 *
 * Each hand-off makes a record, and the release that follows takes it away, so neither may cost
 * much: no allocation, strings that are shared, and hashes of a few bytes. These are no secret, but
 * who picks names that collide makes others look at UNHEARD_MOST records, no more.
 */
#include "waits/unheard.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "blocking/drain.h"
#include "core/list.h"
#include "server/server.h"

#define BUCKETS 256 /* a power of two */

enum found {
    SILENT,
    SPOKEN,   /* the connection has said something */
    OVER,     /* so is the hold, or the connection has closed */
    PASSED_BY /* it cannot be told now */
};

struct text {
    const char *bytes;
    size_t length;
};

/* What tells a hold from others. */
struct hold {
    struct text name, owner;
    unsigned bucket, name_bucket;
    int db;
};

struct record {
    struct link in_order;                         /* of granting: the first is the oldest */
    struct link of_name;                          /* in the bucket of the name */
    struct record *next_of_hold, *next_of_client; /* in their buckets */
    RedisModuleString *name, *owner;
    struct hold hold; /* whose bytes are those of the two */
    unsigned long long client_id;
    int64_t granted_ms;
    enum found found; /* by the look that is under way */
    bool is_due;      /* its key has changed: the drain looks whether the hold is there */
};

static struct {
    struct record records[UNHEARD_MOST];
    size_t touched; /* so many have been used since the start; of these some are unused again */
    struct list known;
    struct record *unused; /* and the next one of each is next_of_hold */
    struct record *by_hold[BUCKETS], *by_client[BUCKETS];
    struct list by_name[BUCKETS];
    size_t due; /* so many of the known */
} state;

static struct record *ofLink(struct link *link) {
    return link ? LIST_ELEMENT(link, struct record, in_order) : NULL;
}

static struct record *nextKnown(const struct record *record) {
    return ofLink(record->in_order.next);
}

size_t unheardCount(void) {
    return state.known.length;
}

/* ---- finding ---- */

static struct text textOf(const RedisModuleString *string) {
    struct text text;
    text.bytes = RedisModule_StringPtrLen(string, &text.length);
    return text;
}

static bool isSame(const struct text *a, const struct text *b) {
    return a->length == b->length && memcmp(a->bytes, b->bytes, a->length) == 0;
}

/* The last eight bytes: what tells names and owners apart is at their end more often than at their
 * beginning. */
static uint64_t tailOf(const struct text *text) {
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

/* SWAPDB changes the database: the hash knows nothing of it. */
static struct hold holdOf(const struct holdsOwner *of) {
    struct hold hold = {textOf(of->name), textOf(of->owner), 0, 0, of->db};
    uint64_t name_hash = tailOf(&hold.name) * UINT64_C(0x9e3779b97f4a7c15);
    hold.name_bucket = bucketOf(name_hash);
    hold.bucket = bucketOf(name_hash + tailOf(&hold.owner));
    return hold;
}

static struct record **bucketOfClient(unsigned long long client_id) {
    return &state.by_client[client_id & (BUCKETS - 1)];
}

/* From this one on, in its bucket: the first of this hold, or NULL. */
static struct record *sameHold(struct record *record, const struct hold *hold) {
    while (record && !(record->hold.db == hold->db && isSame(&record->hold.owner, &hold->owner) &&
                       isSame(&record->hold.name, &hold->name))) {
        record = record->next_of_hold;
    }
    return record;
}

static struct record *firstOf(const struct hold *hold) {
    return sameHold(state.by_hold[hold->bucket], hold);
}

static struct record *nextOf(const struct record *record) {
    return sameHold(record->next_of_hold, &record->hold);
}

/* What this connection was told last, or NULL. */
static struct record *firstTold(unsigned long long client_id) {
    struct record *record = *bucketOfClient(client_id);
    while (record && record->client_id != client_id) {
        record = record->next_of_client;
    }
    return record;
}

/* ---- records come and go ---- */

static void leaveBuckets(struct record *record) {
    struct record **at = &state.by_hold[record->hold.bucket];
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

static void drop(struct record *record) {
    leaveBuckets(record);
    listRemove(&state.by_name[record->hold.name_bucket], &record->of_name);
    listRemove(&state.known, &record->in_order);
    state.due -= record->is_due;
    RedisModule_FreeString(NULL, record->name);
    RedisModule_FreeString(NULL, record->owner);
    record->next_of_hold = state.unused;
    state.unused = record;
}

/* One that is free; of the oldest it is the place that is taken. The last that was given back comes
 * first: so only as many are ever touched as were known at a time. */
static struct record *take(void) {
    if (!state.unused && state.touched < UNHEARD_MOST) {
        return &state.records[state.touched++];
    }
    if (!state.unused) {
        drop(ofLink(state.known.first));
    }
    struct record *record = state.unused;
    state.unused = record->next_of_hold;
    return record;
}

static void join(struct record *record) {
    struct record **of_hold = &state.by_hold[record->hold.bucket];
    struct record **of_client = bucketOfClient(record->client_id);
    record->next_of_hold = *of_hold;
    *of_hold = record;
    record->next_of_client = *of_client;
    *of_client = record;
    listAddLast(&state.by_name[record->hold.name_bucket], &record->of_name);
    listAddLast(&state.known, &record->in_order);
}

/* `hold` may be that of a record that goes. */
static void dropHold(const struct hold *hold) {
    struct record *record = firstOf(hold);
    while (record) {
        struct record *next = nextOf(record);
        drop(record);
        record = next;
    }
}

void unheardBegin(const struct unheardGrant *grant) {
    const struct hold hold = holdOf(&grant->of);
    if (grant->is_first) {
        dropHold(&hold);
    }
    if (hold.name.length + hold.owner.length > UNHEARD_LONGEST) {
        return;
    }
    struct record *record = take();
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

/* ---- what the module hears ---- */

void unheardFollowedUp(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner) {
    if (unheardCount() > 0) {
        const struct holdsOwner of = {RedisModule_GetSelectedDb(ctx), name, owner};
        const struct hold hold = holdOf(&of);
        dropHold(&hold);
    }
}

/* Who speaks for a hold on any of the connections that were told of it speaks for all of them. */
void unheardAsked(RedisModuleCtx *ctx) {
    unsigned long long client_id = unheardCount() > 0 ? RedisModule_GetClientId(ctx) : 0;
    struct record *record;
    while (client_id && (record = firstTold(client_id))) {
        dropHold(&record->hold);
    }
}

/* ---- what happens to holds ---- */

static void dropThoseOver(void) {
    struct record *next;
    for (struct record *record = ofLink(state.known.first); record; record = next) {
        next = nextKnown(record);
        if (record->found == OVER) {
            drop(record);
        }
    }
}

/* Of this lock, or of all, in this database, or in all. */
static void dropIn(int db, const struct text *name) {
    struct record *record = ofLink(state.known.first);
    for (; record; record = nextKnown(record)) {
        bool is_there = db == UNHEARD_EVERY_DB || record->hold.db == db;
        record->found = is_there && (!name || isSame(&record->hold.name, name)) ? OVER : SILENT;
    }
    dropThoseOver();
}

void unheardForced(RedisModuleCtx *ctx, RedisModuleString *name) {
    const struct text bytes = textOf(name);
    dropIn(RedisModule_GetSelectedDb(ctx), &bytes);
}

void unheardFlushed(int db) {
    dropIn(db, NULL);
}

void unheardSwapped(int first_db, int second_db) {
    struct record *record = ofLink(state.known.first);
    for (; record; record = nextKnown(record)) {
        if (record->hold.db == first_db) {
            record->hold.db = second_db;
        } else if (record->hold.db == second_db) {
            record->hold.db = first_db;
        }
    }
}

static struct record *ofName(struct link *link) {
    return link ? LIST_ELEMENT(link, struct record, of_name) : NULL;
}

static void noteDue(struct record *record) {
    state.due += !record->is_due;
    record->is_due = true;
}

void unheardKeyChanged(RedisModuleCtx *ctx, int db, RedisModuleString *name) {
    if (unheardCount() == 0) {
        return;
    }
    const struct holdsOwner of = {db, name,
                                  name}; /* the bucket of a name does not know the owner */
    const struct hold hold = holdOf(&of);
    size_t due = state.due;
    struct record *record = ofName(state.by_name[hold.name_bucket].first);
    for (; record; record = ofName(record->of_name.next)) {
        if (record->hold.db == db && isSame(&record->hold.name, &hold.name)) {
            noteDue(record);
        }
    }
    if (state.due > due) {
        drainSetAlarm(ctx, 0);
    }
}

void unheardLookAtDue(RedisModuleCtx *ctx, int64_t now_ms) {
    struct record *next;
    for (struct record *record = ofLink(state.known.first); record && state.due > 0;
         record = next) {
        next = nextKnown(record);
        if (record->is_due) {
            const struct holdsOwner of = {record->hold.db, record->name, record->owner};
            record->is_due = false;
            state.due--;
            if (!holdsAreThere(ctx, &of, now_ms)) {
                drop(record);
            }
        }
    }
}

/* ---- asking the server ---- */

/* The commands that are answered with a grant. As long as a connection's last command is one of
 * them it is the one that was answered: of any later one unheardAsked has been told. */
static bool isRequest(const struct serverText *command) {
    static const char *const requests[] = {"LOCK.ACQUIRE", "LOCK.FAIR",      "LOCK.RWREAD",
                                           "LOCK.RWWRITE", "LOCK.SEMAPHORE", "LOCK.MACQUIRE"};
    for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        if (strlen(requests[i]) == command->length &&
            strncasecmp(requests[i], command->bytes, command->length) == 0) {
            return true;
        }
    }
    return false;
}

static void hear(const struct serverText *last_command, void *found) {
    *(enum found *)found = isRequest(last_command) ? SILENT : SPOKEN;
}

/* A connection that has closed keeps no grant to itself: that is no ghost. Where the server will not
 * say (somebody has taken CLIENT away by rename-command) what the module hears has to do. Unseen: the
 * tests themselves need CLIENT. */
static enum found askServer(RedisModuleCtx *ctx, unsigned long long client_id) {
    enum found found = OVER;
    return serverLastCommand(ctx, client_id, hear, &found) ? found : SILENT;
}

/* One look. */
struct look {
    RedisModuleCtx *ctx;
    int64_t now_ms;
    unsigned long long client_id; /* who was asked about last: of several holds it is not again */
    enum found found;
};

static enum found ask(struct look *look, unsigned long long client_id) {
    if (look->client_id != client_id) {
        look->client_id = client_id;
        look->found = askServer(look->ctx, client_id);
    }
    return look->found;
}

/* Who has spoken on any of the connections that were told of a hold knows of it. */
static void spread(struct record *spoken) {
    for (struct record *record = firstOf(&spoken->hold); record; record = nextOf(record)) {
        record->found = OVER;
    }
}

static int64_t ageOf(const struct record *record, int64_t now_ms) {
    int64_t age_ms = now_ms - record->granted_ms;
    return age_ms > 0 ? age_ms : 0; /* the clock may have stepped back */
}

/* For how long nothing has been said after the first of them; -1: something has. */
static int64_t lookAtHold(struct look *look, const struct hold *hold) {
    int64_t longest_ms = -1;
    bool is_spoken = false;
    struct record *next, *record = firstOf(hold);
    for (; record; record = nextOf(record)) {
        record->found = ask(look, record->client_id);
        is_spoken = is_spoken || record->found == SPOKEN;
    }
    for (record = firstOf(hold); record; record = next) {
        next = nextOf(record);
        if (is_spoken || record->found == OVER) {
            drop(record);
        } else if (ageOf(record, look->now_ms) > longest_ms) {
            longest_ms = ageOf(record, look->now_ms);
        }
    }
    return longest_ms;
}

int64_t unheardFor(RedisModuleCtx *ctx, const struct holdsOwner *of, int64_t now_ms) {
    struct look look = {.ctx = ctx, .now_ms = now_ms};
    if (unheardCount() == 0 || serverWritableNow(ctx) == SERVER_IS_REPLICA) {
        return -1;
    }
    const struct hold hold = holdOf(of);
    return lookAtHold(&look, &hold);
}

/* In a cluster a hold that is not found may be there: inside a transaction servers look for every
 * key in the transaction's slot. */
static enum found lookAt(struct look *look, const struct record *record) {
    const struct holdsOwner of = {record->hold.db, record->name, record->owner};
    if (!holdsAreThere(look->ctx, &of, look->now_ms)) {
        return serverIsCluster() ? PASSED_BY : OVER;
    }
    return ask(look, record->client_id);
}

static void lookAtAll(struct look *look) {
    struct record *record = ofLink(state.known.first);
    for (; record; record = nextKnown(record)) {
        record->found = lookAt(look, record);
    }
    for (record = ofLink(state.known.first); record; record = nextKnown(record)) {
        if (record->found == SPOKEN) {
            spread(record); /* all of the hold are over then: it is done once for each */
        }
    }
    dropThoseOver();
}

/* What the look has left. */
static struct unheardSummary sumUp(int64_t now_ms) {
    struct unheardSummary summary = {0};
    struct record *record = ofLink(state.known.first);
    for (; record; record = nextKnown(record)) {
        if (record->found == SILENT) {
            int64_t age_ms = ageOf(record, now_ms);
            summary.oldest_ms = age_ms > summary.oldest_ms ? age_ms : summary.oldest_ms;
            summary.grants++;
        }
    }
    return summary;
}

struct unheardSummary unheardLook(void) {
    struct unheardSummary summary = {0};
    if (unheardCount() > 0) {
        struct look look = {.ctx = RedisModule_GetThreadSafeContext(NULL),
                            .now_ms = RedisModule_Milliseconds()};
        lookAtAll(&look);
        summary = sumUp(look.now_ms);
        RedisModule_FreeThreadSafeContext(look.ctx);
    }
    return summary;
}
