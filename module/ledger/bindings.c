/* See bindings.h.
 *
 * All leases are renewed after the same time, so the list of open connections' bindings is in the
 * order in which they are due: one that has just been renewed goes to the end. The list of closed
 * connections' bindings is in the order of closing, which is the order of release for any value of
 * lock.session-grace.
 */
#include "ledger/bindings.h"

#include <string.h>

#include "common/config.h"
#include "core/features.h"
#include "core/mem.h"
#include "core/swappeddbs.h"

/* What cannot be released now is tried again after this long, or after lock.session-grace.
 * Equivalent: sooner only costs more. */
#define RELEASE_RETRY_US 100000

/* How many bindings are moved between the lists at once: some microseconds. */
#define MOVED_AT_ONCE 16

struct connection {
    struct mapEntry by_client; /* by its id, while it is open */
    struct link in_closing;    /* after that, until nothing is bound to it */
    struct list bound;         /* never empty */
    unsigned long long client_id;
    bool is_closed;
    int64_t closed_us; /* monotonic */
};

static struct {
    struct map by_hold;
    struct map by_client; /* open connections */
    struct list alive;
    struct list closed;
    struct list closing; /* closed connections with bindings that are still in `alive` */
    struct swappeddbs dbs;
    struct link *walk; /* the next of the iteration, in `alive` or `closed` */
} bindings;

static struct binding *ofHold(struct mapEntry *entry) {
    return LIST_ELEMENT_OR_NULL(entry, struct binding, by_hold);
}

static struct binding *ofLine(struct link *link) {
    return LIST_ELEMENT_OR_NULL(link, struct binding, in_line);
}

/* The bytes that identify a hold: the number that stays with the database's data, the length of the
 * lock's name, the name, the owner. Free them with memFree. */
static char *bindingsHoldKey(const struct holdId *id, size_t *length) {
    int db = swappeddbsStaying(&bindings.dbs, id->db);
    size_t name_length, owner_length;
    const char *name_bytes = RedisModule_StringPtrLen(id->name, &name_length);
    const char *owner_bytes = RedisModule_StringPtrLen(id->owner, &owner_length);
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

struct binding *bindingsFind(const struct holdId *id) {
    size_t length;
    char *key = bindingsHoldKey(id, &length);
    struct binding *binding = ofHold(mapFind(&bindings.by_hold, key, length));
    memFree(key);
    return binding;
}

static struct list *lineOf(const struct binding *binding) {
    return binding->connection ? &bindings.alive : &bindings.closed;
}

bool bindingsIsClosed(const struct binding *binding) {
    return !binding->connection || binding->connection->is_closed;
}

unsigned long long bindingsClientOf(const struct binding *binding) {
    return bindingsIsClosed(binding) ? 0 : binding->connection->client_id;
}

/* ---- the iteration over both lists ---- */

static struct link *afterInLines(const struct binding *binding) {
    struct link *next = binding->in_line.next;
    return next || !binding->connection ? next : bindings.closed.first;
}

void bindingsWalkBegin(void) {
    bindings.walk = bindings.alive.first ? bindings.alive.first : bindings.closed.first;
}

bool bindingsWalks(void) {
    return bindings.walk;
}

struct binding *bindingsWalkOn(void) {
    struct binding *binding = ofLine(bindings.walk);
    bindings.walk = binding ? afterInLines(binding) : NULL;
    return binding;
}

static void leaveLine(struct binding *binding) {
    if (bindings.walk == &binding->in_line) {
        bindings.walk = afterInLines(binding);
    }
    listRemove(lineOf(binding), &binding->in_line);
}

/* ---- the lists ---- */

static int64_t bindingsSmaller(int64_t a, int64_t b) {
    return a < b ? a : b;
}

int64_t bindingsRenewEvery(void) {
    int64_t third = configDefaultLeaseMs() / 3;
    return third > 0 ? third : 1;
}

/* Puts the binding, which has just been renewed, at the end of the list. If lock.default-lease has
 * been lowered, or the clock set back, it is due before some in front of it: these are renewed
 * early. */
static void joinAlive(struct binding *binding, int64_t now_ms) {
    binding->since = now_ms;
    binding->limit = now_ms + bindingsRenewEvery();
    struct binding *ahead = ofLine(bindings.alive.last);
    for (; ahead && (ahead->since > now_ms || ahead->limit > binding->limit);
         ahead = ofLine(ahead->in_line.prev)) {
        ahead->since = bindingsSmaller(ahead->since, now_ms);
        ahead->limit = bindingsSmaller(ahead->limit, binding->limit);
    }
    listAddLast(&bindings.alive, &binding->in_line);
}

/* `limit` is a third of the lease as it was given; lock.default-lease may be lower by now. */
static int64_t renewalOf(const struct binding *alive) {
    return bindingsSmaller(alive->limit, alive->since + bindingsRenewEvery());
}

static int64_t bindingsReleaseOf(const struct binding *closed) {
    int64_t end_us = closed->since + configSessionGraceMs() * 1000;
    return end_us > closed->limit ? end_us : closed->limit;
}

int64_t bindingsNextRenewal(void) {
    const struct binding *first = ofLine(bindings.alive.first);
    return first ? renewalOf(first) : INT64_MAX;
}

int64_t bindingsNextRelease(void) {
    if (!listIsEmpty(&bindings.closing)) {
        return 0;
    }
    const struct binding *first = ofLine(bindings.closed.first);
    return first ? bindingsReleaseOf(first) : INT64_MAX;
}

struct binding *bindingsToRenew(int64_t now_ms) {
    return bindingsNextRenewal() <= now_ms ? ofLine(bindings.alive.first) : NULL;
}

struct binding *bindingsToRelease(int64_t now_us) {
    struct binding *first = ofLine(bindings.closed.first);
    return first && bindingsReleaseOf(first) <= now_us ? first : NULL;
}

void bindingsRenewed(struct binding *binding, int64_t now_ms) {
    leaveLine(binding);
    joinAlive(binding, now_ms);
}

/* As if its connection had closed at `now_us`. */
static void joinClosed(struct binding *binding, int64_t now_us, int64_t limit_us) {
    binding->since = now_us;
    binding->limit = limit_us;
    listAddLast(&bindings.closed, &binding->in_line);
}

void bindingsPutOff(struct binding *binding, int64_t now_us) {
    leaveLine(binding);
    joinClosed(binding, now_us, now_us + RELEASE_RETRY_US);
}

/* ---- connections ---- */

/* The open connection with this id, if holds are bound to it, or NULL. */
static struct connection *living(unsigned long long client_id) {
    struct mapEntry *entry =
        mapFind(&bindings.by_client, (const char *)&client_id, sizeof(client_id));
    return LIST_ELEMENT_OR_NULL(entry, struct connection, by_client);
}

static struct connection *makeConnection(unsigned long long client_id) {
    struct connection *connection = memAlloc(sizeof(*connection));
    *connection = (struct connection){.client_id = client_id};
    mapAdd(&bindings.by_client, &connection->by_client, (const char *)&connection->client_id,
           sizeof(connection->client_id));
    return connection;
}

static void freeConnection(struct connection *connection) {
    if (connection->is_closed) {
        listRemove(&bindings.closing, &connection->in_closing);
    } else {
        mapRemove(&bindings.by_client, &connection->by_client);
    }
    memFree(connection);
}

/* ---- how a binding begins, and ends ---- */

static void attach(struct binding *binding, unsigned long long client_id, int64_t now_ms) {
    struct connection *connection = living(client_id);
    binding->connection = connection ? connection : makeConnection(client_id);
    listAddLast(&binding->connection->bound, &binding->of_connection);
    joinAlive(binding, now_ms);
}

/* Removes the binding from its connection, if it has one, and from its list. */
static void bindingsDetach(struct binding *binding) {
    struct connection *connection = binding->connection;
    leaveLine(binding);
    binding->connection = NULL;
    if (connection) {
        listRemove(&connection->bound, &binding->of_connection);
        if (listIsEmpty(&connection->bound)) {
            freeConnection(connection);
        }
    }
}

static struct binding *bindingsMake(const struct holdId *id) {
    struct binding *binding = memAlloc(sizeof(*binding));
    size_t length;
    binding->db = swappeddbsStaying(&bindings.dbs, id->db);
    binding->name = RedisModule_CreateStringFromString(NULL, id->name);
    binding->owner = RedisModule_CreateStringFromString(NULL, id->owner);
    binding->hold_key = bindingsHoldKey(id, &length);
    mapAdd(&bindings.by_hold, &binding->by_hold, binding->hold_key, length);
    featuresBegin(FEATURE_SESSIONS);
    return binding;
}

void bindingsBind(const struct holdId *id, const struct requestSession *session, int64_t now_ms) {
    struct binding *binding = bindingsFind(id);
    if (binding && !bindingsIsClosed(binding) && binding->order > session->order) {
        return;
    }
    if (binding) {
        bindingsDetach(binding);
    } else {
        binding = bindingsMake(id);
    }
    binding->order = session->order;
    attach(binding, session->client_id, now_ms);
}

void bindingsForget(struct binding *binding) {
    bindingsDetach(binding);
    mapRemove(&bindings.by_hold, &binding->by_hold);
    featuresEnd(FEATURE_SESSIONS);
    RedisModule_FreeString(NULL, binding->name);
    RedisModule_FreeString(NULL, binding->owner);
    memFree(binding->hold_key);
    memFree(binding);
    if (bindings.by_hold.used == 0) {
        swappeddbsReset(&bindings.dbs);
    }
}

void bindingsForgetAll(void) {
    struct binding *binding;
    while ((binding = ofLine(bindings.alive.first)) || (binding = ofLine(bindings.closed.first))) {
        bindingsForget(binding);
    }
}

bool bindingsClientGone(unsigned long long client_id, int64_t now_us) {
    struct connection *connection = living(client_id);
    if (connection) {
        mapRemove(&bindings.by_client, &connection->by_client);
        connection->is_closed = true;
        connection->closed_us = now_us;
        listAddLast(&bindings.closing, &connection->in_closing);
    }
    return connection;
}

/* The first closed connection with bindings that are still in `alive`, or NULL. */
static const struct connection *firstClosing(void) {
    struct link *first = bindings.closing.first;
    return LIST_ELEMENT_OR_NULL(first, struct connection, in_closing);
}

bool bindingsMoveClosed(void) {
    const struct connection *connection;
    int moved = 0;
    for (; moved < MOVED_AT_ONCE && (connection = firstClosing()); moved++) {
        int64_t closed_us = connection->closed_us;
        struct binding *binding =
            LIST_ELEMENT(connection->bound.first, struct binding, of_connection);
        bindingsDetach(binding); /* the last one frees the connection */
        joinClosed(binding, closed_us, closed_us);
    }
    return moved > 0;
}

int bindingsDb(const struct binding *binding) {
    return swappeddbsCurrent(&bindings.dbs, binding->db);
}

void bindingsSwapped(int first_db, int second_db) {
    if (bindings.by_hold.used > 0) {
        swappeddbsSwap(&bindings.dbs, first_db, second_db);
    }
}

size_t bindingsCount(void) {
    return bindings.by_hold.used;
}
