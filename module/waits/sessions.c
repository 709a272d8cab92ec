/* Sessions: holds that live as long as a connection.
 *
 *   sessionsAsked                   a request is one of this connection
 *   sessionsBind, sessionsUnbind    holds are bound to a connection, or live by their leases
 *   sessionsClientGone              the connection has closed: events.c
 *   sessionsClientOf                for LOCK.INFO
 *   sessionsForgetAll, sessionsSwapped   what happens to all of them
 *
 * All leases are renewed after the same time, so the line of those that live is in the order in
 * which they are due: who has just been renewed goes to the end. Likewise the line of those whose
 * connection has closed. Where the time was made shorter, joinAlive and positionAmongClosed mend
 * it.
 *
 * Contracts are in sessions.h.
 */
#include "waits/sessions.h"

#include <string.h>

#include "blocking/drain.h"
#include "core/hashmap.h"
#include "core/list.h"
#include "core/mem.h"
#include "keys/holds.h"
#include "server/config.h"
#include "server/failpoint.h"
#include "server/server.h"
#include "waits/latches.h"
#include "waits/watches.h"

/* What cannot be released now is tried again after this long, or after lock.session-grace. Unseen:
 * sooner is only dearer. */
#define RELEASE_RETRY_MS 100

/* However many bindings are due, the timer's work is short, and then other clients may speak for a
 * millisecond. Only when that is not enough to keep the leases does it take longer. About 400
 * renewals; what they replicate is sent afterwards, and takes as long again. */
#define WORK_US 300
#define LATE_WORK_US 3000

#define PAUSE_MS 1 /* the shortest that a timer can do from inside a timer */

/* Nothing announces the end of a pause or of a load. */
#define RETRY_MS 20

struct binding {
    struct mapEntry by_hold;   /* database, lock, owner */
    struct mapEntry by_client; /* the connection's id */
    struct link in_line;       /* of those that live, or of those whose connection has closed */
    RedisModuleString *name, *owner;
    unsigned long long client_id; /* 0: the connection has closed */
    uint64_t order;               /* when it asked: see sessionsBind */
    int db;
    int64_t due_ms; /* when to renew; of a closed one, when to release */
    char *hold_key;
};

static struct {
    struct map by_hold;
    struct map by_client;
    struct list alive;
    struct list closed;
    uint64_t asked; /* the last order that was given */
} sessions;

static struct {
    sessionsRelease release;
    bool set;
    RedisModuleTimerID id;
    int64_t at_ms;
} timer;

void sessionsConnect(sessionsRelease release) {
    timer.release = release;
}

static void onTimer(RedisModuleCtx *ctx, void *data);

/* Sees to it that the timer rings at `at_ms`, or earlier; INT64_MAX = never. */
static void wakeAt(RedisModuleCtx *ctx, int64_t at_ms, int64_t now_ms) {
    if (at_ms == INT64_MAX || (timer.set && timer.at_ms <= at_ms)) {
        return;
    }
    if (timer.set) {
        RedisModule_StopTimer(ctx, timer.id, NULL);
    }
    timer.id = RedisModule_CreateTimer(ctx, serverTimerDelay(at_ms, now_ms), onTimer, NULL);
    timer.set = true;
    timer.at_ms = at_ms;
}

static struct binding *ofHold(struct mapEntry *entry) {
    return entry ? LIST_ELEMENT(entry, struct binding, by_hold) : NULL;
}

static struct binding *ofClient(struct mapEntry *entry) {
    return entry ? LIST_ELEMENT(entry, struct binding, by_client) : NULL;
}

static struct binding *ofLine(struct link *link) {
    return link ? LIST_ELEMENT(link, struct binding, in_line) : NULL;
}

/* The bytes that tell a hold from all others: the database, the length of the lock's name, the
 * name, the owner. Free them with memFree. */
static char *holdKey(const struct sessionsHold *hold, size_t *length) {
    size_t name_length, owner_length;
    const char *name_bytes = RedisModule_StringPtrLen(hold->name, &name_length);
    const char *owner_bytes = RedisModule_StringPtrLen(hold->owner, &owner_length);
    *length = sizeof(hold->db) + sizeof(name_length) + name_length + owner_length;
    char *key = memAlloc(*length), *at = key;
    memcpy(at, &hold->db, sizeof(hold->db));
    at += sizeof(hold->db);
    memcpy(at, &name_length, sizeof(name_length));
    at += sizeof(name_length);
    memcpy(at, name_bytes, name_length);
    memcpy(at + name_length, owner_bytes, owner_length);
    return key;
}

static struct binding *find(const struct sessionsHold *hold) {
    if (sessions.by_hold.used == 0) {
        return NULL;
    }
    size_t length;
    char *key = holdKey(hold, &length);
    struct binding *binding = ofHold(mapFind(&sessions.by_hold, key, length));
    memFree(key);
    return binding;
}

static struct list *lineOf(const struct binding *binding) {
    return binding->client_id ? &sessions.alive : &sessions.closed;
}

static int64_t renewEvery(void) {
    int64_t third = configDefaultLeaseMs() / 3;
    return third > 0 ? third : 1;
}

/* Puts the binding, renewed just now, at the end of the line. When lock.default-lease has been made
 * lower, or the clock set back, it is due before some in front of it: these are renewed early. */
static void joinAlive(struct binding *binding, int64_t now_ms) {
    binding->due_ms = now_ms + renewEvery();
    struct binding *ahead = ofLine(sessions.alive.last);
    for (; ahead && ahead->due_ms > binding->due_ms; ahead = ofLine(ahead->in_line.prev)) {
        ahead->due_ms = binding->due_ms;
    }
    listAddLast(&sessions.alive, &binding->in_line);
}

/* Whom those that are to be released at `due_ms` stand before, or NULL: who has been given a
 * longer grace, before lock.session-grace was made lower, keeps it. */
static struct link *positionAmongClosed(int64_t due_ms) {
    struct link *position = NULL;
    struct link *last = sessions.closed.last;
    for (; last && ofLine(last)->due_ms > due_ms; last = last->prev) {
        position = last;
    }
    return position;
}

/* When the next binding is due; INT64_MAX = never. */
static int64_t nextDue(void) {
    const struct binding *renew = ofLine(sessions.alive.first);
    const struct binding *release = ofLine(sessions.closed.first);
    int64_t renew_ms = renew ? renew->due_ms : INT64_MAX;
    int64_t release_ms = release ? release->due_ms : INT64_MAX;
    return renew_ms < release_ms ? renew_ms : release_ms;
}

static void attach(struct binding *binding, unsigned long long client_id, int64_t now_ms) {
    binding->client_id = client_id;
    mapAdd(&sessions.by_client, &binding->by_client, (const char *)&binding->client_id,
           sizeof(binding->client_id));
    joinAlive(binding, now_ms);
}

/* Takes the binding away from its connection, if it has one, and out of its line. */
static void detach(struct binding *binding) {
    listRemove(lineOf(binding), &binding->in_line);
    if (binding->client_id) {
        mapRemove(&sessions.by_client, &binding->by_client);
        binding->client_id = 0;
    }
}

static struct binding *make(const struct sessionsHold *hold) {
    struct binding *binding = memAlloc(sizeof(*binding));
    size_t length;
    binding->db = hold->db;
    binding->name = RedisModule_CreateStringFromString(NULL, hold->name);
    binding->owner = RedisModule_CreateStringFromString(NULL, hold->owner);
    binding->hold_key = holdKey(hold, &length);
    mapAdd(&sessions.by_hold, &binding->by_hold, binding->hold_key, length);
    return binding;
}

struct acquisitionSession sessionsAsked(RedisModuleCtx *ctx) {
    return (struct acquisitionSession){serverConnectionOf(ctx), ++sessions.asked};
}

void sessionsBind(RedisModuleCtx *ctx, const struct sessionsHold *hold,
                  const struct acquisitionSession *session, int64_t now_ms) {
    struct binding *binding = find(hold);
    if (binding && binding->client_id && binding->order > session->order) {
        return;
    }
    if (binding) {
        detach(binding);
    } else {
        binding = make(hold);
    }
    binding->order = session->order;
    attach(binding, session->client_id, now_ms);
    wakeAt(ctx, nextDue(), now_ms);
}

static void forget(struct binding *binding) {
    detach(binding);
    mapRemove(&sessions.by_hold, &binding->by_hold);
    RedisModule_FreeString(NULL, binding->name);
    RedisModule_FreeString(NULL, binding->owner);
    memFree(binding->hold_key);
    memFree(binding);
}

void sessionsUnbind(const struct sessionsHold *hold) {
    struct binding *binding = find(hold);
    if (binding) {
        forget(binding);
    }
}

void sessionsForgetAll(void) {
    struct binding *binding;
    while ((binding = ofLine(sessions.alive.first)) || (binding = ofLine(sessions.closed.first))) {
        forget(binding);
    }
}

static void moveToDb(struct binding *binding, int db) {
    size_t length = binding->by_hold.key_length;
    mapRemove(&sessions.by_hold, &binding->by_hold);
    binding->db = db;
    memcpy(binding->hold_key, &db, sizeof(db)); /* which begins with it: holdKey */
    mapAdd(&sessions.by_hold, &binding->by_hold, binding->hold_key, length);
}

static void swapIn(const struct list *line, int first_db, int second_db) {
    for (struct binding *binding = ofLine(line->first); binding;
         binding = ofLine(binding->in_line.next)) {
        if (binding->db == first_db) {
            moveToDb(binding, second_db);
        } else if (binding->db == second_db) {
            moveToDb(binding, first_db);
        }
    }
}

void sessionsSwapped(int first_db, int second_db) {
    if (first_db != second_db) {
        swapIn(&sessions.alive, first_db, second_db);
        swapIn(&sessions.closed, first_db, second_db);
    }
}

unsigned long long sessionsClientOf(const struct sessionsHold *hold) {
    struct binding *binding = find(hold);
    return binding ? binding->client_id : 0;
}

/* A binding to this connection, or NULL. */
static struct binding *boundTo(unsigned long long client_id) {
    return ofClient(mapFind(&sessions.by_client, (const char *)&client_id, sizeof(client_id)));
}

void sessionsClientGone(RedisModuleCtx *ctx, unsigned long long client_id, int64_t now_ms) {
    struct binding *binding = boundTo(client_id);
    if (!binding) {
        return; /* as most: the line of the closed, which may be long, is not for them to walk */
    }
    int64_t due_ms = now_ms + configSessionGraceMs();
    struct link *position = positionAmongClosed(due_ms);
    for (; binding; binding = boundTo(client_id)) {
        detach(binding);
        binding->due_ms = due_ms;
        listInsertBefore(&sessions.closed, position, &binding->in_line);
    }
    wakeAt(ctx, nextDue(), now_ms);
    drainWakeLoop(); /* who has said QUIT is closed when the answer has been written */
}

static struct binding *firstDue(const struct list *line, int64_t now_ms) {
    struct binding *first = ofLine(line->first);
    return first && first->due_ms <= now_ms ? first : NULL;
}

static void hasBeenRenewed(struct binding *binding, int64_t now_ms) {
    listRemove(&sessions.alive, &binding->in_line);
    joinAlive(binding, now_ms);
}

/* Not before all others, who may have a longer grace than this retry: nobody is to walk past
 * them. */
static void putOff(struct binding *binding, int64_t now_ms) {
    int64_t grace_ms = configSessionGraceMs();
    binding->due_ms = now_ms + (grace_ms > RELEASE_RETRY_MS ? grace_ms : RELEASE_RETRY_MS);
    listRemove(&sessions.closed, &binding->in_line);
    listInsertBefore(&sessions.closed, positionAmongClosed(binding->due_ms), &binding->in_line);
}

size_t sessionsCount(void) {
    return sessions.by_hold.used;
}

/* ---- the timer's work ---- */

/* Returns whether the owner still holds the lock, or may: while the slot of a read-write lock is on
 * the move its leases are left alone, and one renewal of three may well be missed. */
static bool renew(RedisModuleCtx *ctx, const struct binding *binding, int64_t now_ms) {
    struct holds holds;
    RedisModule_SelectDb(ctx, binding->db);
    (void)failpoint(FAILPOINT_RENEW_BEGUN);
    bool holds_it = holdsOpenToWrite(&holds, ctx, binding->name, now_ms) == HOLDS_MOVING ||
                    holdsRenew(&holds, binding->owner, configDefaultLeaseMs()) > 0;
    holdsClose(&holds);
    watchesNoteOwner(ctx, binding->name, binding->owner);
    latchesChanged(ctx, binding->name);
    (void)failpoint(FAILPOINT_RENEW_DONE);
    return holds_it;
}

/* Whether these are holds of a read-write lock whose slot is on the move: its leases may be on the
 * other node. */
static bool hasToWait(RedisModuleCtx *ctx, const struct binding *binding, int64_t now_ms) {
    if (!serverIsCluster()) {
        return false;
    }
    struct holds holds;
    enum holdsShape shape = holdsOpenToWrite(&holds, ctx, binding->name, now_ms);
    holdsClose(&holds);
    return shape == HOLDS_MOVING;
}

static bool releaseNext(RedisModuleCtx *ctx, int64_t now_ms) {
    struct binding *binding = firstDue(&sessions.closed, now_ms);
    if (!binding) {
        return false;
    }
    RedisModule_SelectDb(ctx, binding->db);
    if (hasToWait(ctx, binding, now_ms)) {
        putOff(binding, now_ms);
        return true;
    }
    RedisModuleString *name = binding->name, *owner = binding->owner;
    RedisModule_RetainString(NULL, name);
    RedisModule_RetainString(NULL, owner);
    /* First, because the same owner may wait there on another connection: then the lock is handed
     * to it, and its new hold may be bound anew. */
    forget(binding);
    timer.release(ctx, name, owner, now_ms);
    RedisModule_FreeString(NULL, name);
    RedisModule_FreeString(NULL, owner);
    return true;
}

static bool renewNext(RedisModuleCtx *ctx, int64_t now_ms) {
    struct binding *binding = firstDue(&sessions.alive, now_ms);
    if (!binding) {
        return false;
    }
    if (renew(ctx, binding, now_ms)) {
        hasBeenRenewed(binding, now_ms);
    } else {
        forget(binding);
    }
    return true;
}

/* Takes from both lines in turn: neither makes the other late. */
static bool workOn(RedisModuleCtx *ctx, int64_t now_ms) {
    bool renewed = renewNext(ctx, now_ms);
    bool has_released = releaseNext(ctx, now_ms);
    return renewed || has_released;
}

/* A lease is due when a third of it is over. When the second third is over too, a lease that ends
 * while its holder lives is the greater evil. */
static void workForAWhile(RedisModuleCtx *ctx, int64_t now_ms) {
    bool late = now_ms - renewEvery() > nextDue();
    uint64_t end_us = RedisModule_MonotonicMicroseconds() + (late ? LATE_WORK_US : WORK_US);
    while (workOn(ctx, now_ms) && RedisModule_MonotonicMicroseconds() < end_us) {
    }
}

static void onTimer(RedisModuleCtx *ctx, void *data) {
    (void)data;
    timer.set = false;
    int64_t now_ms = RedisModule_Milliseconds();
    switch (serverWritableNow(ctx)) {
    case SERVER_WRITABLE:
        workForAWhile(ctx, now_ms);
        break;
    case SERVER_WRITABLE_LATER:
        wakeAt(ctx, now_ms + RETRY_MS, now_ms);
        return;
    case SERVER_IS_REPLICA:
        sessionsForgetAll();
        return;
    }
    int64_t due_ms = nextDue();
    wakeAt(ctx, due_ms <= now_ms ? now_ms + PAUSE_MS : due_ms, now_ms);
}
