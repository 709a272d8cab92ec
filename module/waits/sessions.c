/* See sessions.h.
 *
 * All leases are renewed after the same time, so the line of those that live is in the order in
 * which they are due: who has just been renewed goes to the end. Likewise the line of those whose
 * connection has closed. Where the time was made shorter meanwhile, the order is mended: see
 * joinAlive and positionAmongClosed.
 */
#include "waits/sessions.h"

#include <string.h>

#include "core/mem.h"
#include "server/alarm.h"
#include "server/config.h"
#include "server/server.h"

/* What cannot be released now is tried again after this long, or after lock.session-grace. Unseen:
 * sooner is only dearer. */
#define RETRY_MS 100

static struct {
    struct map by_hold;
    struct map by_client;
    struct list alive;
    struct list closed;
} sessions;

static struct {
    void (*work)(RedisModuleCtx *ctx);
    bool set;
    RedisModuleTimerID timer;
    int64_t at_ms;
} next_turn;

void sessionsConnect(void (*work)(RedisModuleCtx *ctx)) {
    next_turn.work = work;
}

static void onTimer(RedisModuleCtx *ctx, void *data) {
    (void)data;
    next_turn.set = false;
    next_turn.work(ctx);
}

void sessionsWakeAt(RedisModuleCtx *ctx, int64_t at_ms, int64_t now_ms) {
    if (at_ms == INT64_MAX || (next_turn.set && next_turn.at_ms <= at_ms)) {
        return;
    }
    if (next_turn.set) {
        RedisModule_StopTimer(ctx, next_turn.timer, NULL);
    }
    next_turn.timer = RedisModule_CreateTimer(ctx, serverTimerDelay(at_ms, now_ms), onTimer, NULL);
    next_turn.set = true;
    next_turn.at_ms = at_ms;
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
static char *holdKey(int db, RedisModuleString *name, RedisModuleString *owner, size_t *length) {
    size_t name_length, owner_length;
    const char *name_bytes = RedisModule_StringPtrLen(name, &name_length);
    const char *owner_bytes = RedisModule_StringPtrLen(owner, &owner_length);
    *length = sizeof(db) + sizeof(name_length) + name_length + owner_length;
    char *key = memAlloc(*length), *at = key;
    memcpy(at, &db, sizeof(db));
    at += sizeof(db);
    memcpy(at, &name_length, sizeof(name_length));
    at += sizeof(name_length);
    memcpy(at, name_bytes, name_length);
    memcpy(at + name_length, owner_bytes, owner_length);
    return key;
}

static struct binding *find(int db, RedisModuleString *name, RedisModuleString *owner) {
    if (sessions.by_hold.used == 0) {
        return NULL;
    }
    size_t length;
    char *key = holdKey(db, name, owner, &length);
    struct binding *binding = ofHold(mapFind(&sessions.by_hold, key, length));
    memFree(key);
    return binding;
}

static struct list *lineOf(const struct binding *binding) {
    return binding->client_id ? &sessions.alive : &sessions.closed;
}

int64_t sessionsRenewEvery(void) {
    int64_t third = configDefaultLeaseMs() / 3;
    return third > 0 ? third : 1;
}

/* Puts the binding, renewed just now, at the end of the line. When lock.default-lease has been made
 * lower, or the clock set back, it is due before some in front of it: these are renewed early. */
static void joinAlive(struct binding *binding, int64_t now_ms) {
    binding->due_ms = now_ms + sessionsRenewEvery();
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

static struct binding *make(int db, RedisModuleString *name, RedisModuleString *owner) {
    struct binding *binding = memAlloc(sizeof(*binding));
    size_t length;
    binding->db = db;
    binding->name = RedisModule_CreateStringFromString(NULL, name);
    binding->owner = RedisModule_CreateStringFromString(NULL, owner);
    binding->hold_key = holdKey(db, name, owner, &length);
    mapAdd(&sessions.by_hold, &binding->by_hold, binding->hold_key, length);
    return binding;
}

void sessionsBind(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                  unsigned long long client_id, int64_t now_ms) {
    int db = RedisModule_GetSelectedDb(ctx);
    struct binding *binding = find(db, name, owner);
    if (binding) {
        detach(binding);
    } else {
        binding = make(db, name, owner);
    }
    attach(binding, client_id, now_ms);
    sessionsWakeAt(ctx, sessionsNextDue(), now_ms);
}

void sessionsForget(struct binding *binding) {
    detach(binding);
    mapRemove(&sessions.by_hold, &binding->by_hold);
    RedisModule_FreeString(NULL, binding->name);
    RedisModule_FreeString(NULL, binding->owner);
    memFree(binding->hold_key);
    memFree(binding);
}

void sessionsUnbind(int db, RedisModuleString *name, RedisModuleString *owner) {
    struct binding *binding = find(db, name, owner);
    if (binding) {
        sessionsForget(binding);
    }
}

void sessionsForgetAll(void) {
    struct binding *binding;
    while ((binding = ofLine(sessions.alive.first)) || (binding = ofLine(sessions.closed.first))) {
        sessionsForget(binding);
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

unsigned long long sessionsClientOf(int db, RedisModuleString *name, RedisModuleString *owner) {
    struct binding *binding = find(db, name, owner);
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
    sessionsWakeAt(ctx, sessionsNextDue(), now_ms);
    alarmWakeLoop(); /* who has said QUIT is closed when the answer has been written */
}

static struct binding *firstDue(const struct list *line, int64_t now_ms) {
    struct binding *first = ofLine(line->first);
    return first && first->due_ms <= now_ms ? first : NULL;
}

struct binding *sessionsNextToRenew(int64_t now_ms) {
    return firstDue(&sessions.alive, now_ms);
}

struct binding *sessionsNextToRelease(int64_t now_ms) {
    return firstDue(&sessions.closed, now_ms);
}

void sessionsRenewed(struct binding *binding, int64_t now_ms) {
    listRemove(&sessions.alive, &binding->in_line);
    joinAlive(binding, now_ms);
}

/* Not before all others, who may have a longer grace than this retry: nobody is to walk past them. */
void sessionsPutOff(struct binding *binding, int64_t now_ms) {
    int64_t grace_ms = configSessionGraceMs();
    binding->due_ms = now_ms + (grace_ms > RETRY_MS ? grace_ms : RETRY_MS);
    listRemove(&sessions.closed, &binding->in_line);
    listInsertBefore(&sessions.closed, positionAmongClosed(binding->due_ms), &binding->in_line);
}

int64_t sessionsNextDue(void) {
    const struct binding *renew = ofLine(sessions.alive.first);
    const struct binding *give_back = ofLine(sessions.closed.first);
    int64_t renew_ms = renew ? renew->due_ms : INT64_MAX;
    int64_t give_back_ms = give_back ? give_back->due_ms : INT64_MAX;
    return renew_ms < give_back_ms ? renew_ms : give_back_ms;
}

size_t sessionsCount(void) {
    return sessions.by_hold.used;
}
