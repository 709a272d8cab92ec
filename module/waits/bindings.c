/* See bindings.h.
 *
 * All leases are renewed after the same time, so the line of those that live is in the order in
 * which they are due: who has just been renewed goes to the end. Likewise the line of those whose
 * connection has closed. Where the time was made shorter, joinAlive and positionAmongClosed mend
 * it.
 */
#include "waits/bindings.h"

#include <string.h>

#include "core/mem.h"
#include "server/config.h"

/* What cannot be released now is tried again after this long, or after lock.session-grace. Unseen:
 * sooner is only dearer. */
#define RELEASE_RETRY_MS 100

static struct {
    struct map by_hold;
    struct map by_client;
    struct list alive;
    struct list closed;
} bindings;

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

struct binding *bindingsFind(const struct sessionsHold *hold) {
    size_t length;
    char *key = holdKey(hold, &length);
    struct binding *binding = ofHold(mapFind(&bindings.by_hold, key, length));
    memFree(key);
    return binding;
}

static struct list *lineOf(const struct binding *binding) {
    return binding->client_id ? &bindings.alive : &bindings.closed;
}

/* ---- the lines ---- */

int64_t bindingsRenewEvery(void) {
    int64_t third = configDefaultLeaseMs() / 3;
    return third > 0 ? third : 1;
}

/* Puts the binding, renewed just now, at the end of the line. When lock.default-lease has been made
 * lower, or the clock set back, it is due before some in front of it: these are renewed early. */
static void joinAlive(struct binding *binding, int64_t now_ms) {
    binding->due_ms = now_ms + bindingsRenewEvery();
    struct binding *ahead = ofLine(bindings.alive.last);
    for (; ahead && ahead->due_ms > binding->due_ms; ahead = ofLine(ahead->in_line.prev)) {
        ahead->due_ms = binding->due_ms;
    }
    listAddLast(&bindings.alive, &binding->in_line);
}

/* Whom those that are to be released at `due_ms` stand before, or NULL: who has been given a
 * longer grace, before lock.session-grace was made lower, keeps it. */
static struct link *positionAmongClosed(int64_t due_ms) {
    struct link *position = NULL;
    struct link *last = bindings.closed.last;
    for (; last && ofLine(last)->due_ms > due_ms; last = last->prev) {
        position = last;
    }
    return position;
}

/* When this one, the first of its line, is due. */
static int64_t dueOf(const struct binding *first) {
    return first ? first->due_ms : INT64_MAX;
}

int64_t bindingsNextRenewal(void) {
    return dueOf(ofLine(bindings.alive.first));
}

int64_t bindingsNextRelease(void) {
    return dueOf(ofLine(bindings.closed.first));
}

static struct binding *firstDue(const struct list *line, int64_t now_ms) {
    struct binding *first = ofLine(line->first);
    return first && first->due_ms <= now_ms ? first : NULL;
}

struct binding *bindingsToRenew(int64_t now_ms) {
    return firstDue(&bindings.alive, now_ms);
}

struct binding *bindingsToRelease(int64_t now_ms) {
    return firstDue(&bindings.closed, now_ms);
}

void bindingsRenewed(struct binding *binding, int64_t now_ms) {
    listRemove(&bindings.alive, &binding->in_line);
    joinAlive(binding, now_ms);
}

/* Not before all others, who may have a longer grace than this retry: nobody is to walk past
 * them. */
void bindingsPutOff(struct binding *binding, int64_t now_ms) {
    int64_t grace_ms = configSessionGraceMs();
    binding->due_ms = now_ms + (grace_ms > RELEASE_RETRY_MS ? grace_ms : RELEASE_RETRY_MS);
    listRemove(&bindings.closed, &binding->in_line);
    listInsertBefore(&bindings.closed, positionAmongClosed(binding->due_ms), &binding->in_line);
}

/* ---- how a binding begins, and ends ---- */

static void attach(struct binding *binding, unsigned long long client_id, int64_t now_ms) {
    binding->client_id = client_id;
    mapAdd(&bindings.by_client, &binding->by_client, (const char *)&binding->client_id,
           sizeof(binding->client_id));
    joinAlive(binding, now_ms);
}

/* Takes the binding away from its connection, if it has one, and out of its line. */
static void detach(struct binding *binding) {
    listRemove(lineOf(binding), &binding->in_line);
    if (binding->client_id) {
        mapRemove(&bindings.by_client, &binding->by_client);
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
    mapAdd(&bindings.by_hold, &binding->by_hold, binding->hold_key, length);
    return binding;
}

void bindingsBind(const struct sessionsHold *hold, const struct acquisitionSession *session,
                  int64_t now_ms) {
    struct binding *binding = bindingsFind(hold);
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
}

void bindingsForget(struct binding *binding) {
    detach(binding);
    mapRemove(&bindings.by_hold, &binding->by_hold);
    RedisModule_FreeString(NULL, binding->name);
    RedisModule_FreeString(NULL, binding->owner);
    memFree(binding->hold_key);
    memFree(binding);
}

void bindingsForgetAll(void) {
    struct binding *binding;
    while ((binding = ofLine(bindings.alive.first)) || (binding = ofLine(bindings.closed.first))) {
        bindingsForget(binding);
    }
}

/* A binding to this connection, or NULL. */
static struct binding *boundTo(unsigned long long client_id) {
    return ofClient(mapFind(&bindings.by_client, (const char *)&client_id, sizeof(client_id)));
}

bool bindingsClientGone(unsigned long long client_id, int64_t now_ms) {
    struct binding *binding = boundTo(client_id);
    if (!binding) {
        return false; /* as most: the line of the closed, which may be long, is not for them to walk */
    }
    int64_t due_ms = now_ms + configSessionGraceMs();
    struct link *position = positionAmongClosed(due_ms);
    for (; binding; binding = boundTo(client_id)) {
        detach(binding);
        binding->due_ms = due_ms;
        listInsertBefore(&bindings.closed, position, &binding->in_line);
    }
    return true;
}

static void moveToDb(struct binding *binding, int db) {
    size_t length = binding->by_hold.key_length;
    mapRemove(&bindings.by_hold, &binding->by_hold);
    binding->db = db;
    memcpy(binding->hold_key, &db, sizeof(db)); /* which begins with it: holdKey */
    mapAdd(&bindings.by_hold, &binding->by_hold, binding->hold_key, length);
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

void bindingsSwapped(int first_db, int second_db) {
    if (first_db != second_db) {
        swapIn(&bindings.alive, first_db, second_db);
        swapIn(&bindings.closed, first_db, second_db);
    }
}

size_t bindingsCount(void) {
    return bindings.by_hold.used;
}
