/* See unconfirmed.h. The records are in unconfirmedrecords.c. */
#include "ledger/unconfirmed.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "blocking/drain.h"
#include "core/features.h"
#include "server/server.h"

/* ---- commands that the module receives ---- */

void unconfirmedEndHold(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner) {
    const struct holdId id = {RedisModule_GetSelectedDb(ctx), name, owner};
    const struct unconfirmedHold hold = unconfirmedrecordsHold(&id);
    unconfirmedrecordsDropHold(&hold);
}

/* A hold that one of its connections has confirmed is confirmed for all of them. */
void unconfirmedRequested(RedisModuleCtx *ctx) {
    unsigned long long client_id =
        featuresHas(FEATURE_UNCONFIRMED) ? RedisModule_GetClientId(ctx) : 0;
    struct unconfirmedRecord *record;
    while (client_id && (record = unconfirmedrecordsOfClient(client_id))) {
        unconfirmedrecordsDropHold(&record->hold);
    }
}

/* ---- what happens to holds ---- */

static void dropEnded(void) {
    struct unconfirmedRecord *next;
    for (struct unconfirmedRecord *record = unconfirmedrecordsFirst(); record; record = next) {
        next = unconfirmedrecordsNext(record);
        if (record->found == UNCONFIRMED_ENDED) {
            unconfirmedrecordsDrop(record);
        }
    }
}

/* Removes the records of this lock, or of all locks if `name` is NULL, in this database or in
 * all. */
static void dropIn(int db, const struct unconfirmedText *name) {
    struct unconfirmedRecord *record = unconfirmedrecordsFirst();
    for (; record; record = unconfirmedrecordsNext(record)) {
        bool is_there = db == UNCONFIRMED_EVERY_DB || unconfirmedrecordsDb(record) == db;
        record->found = is_there && (!name || unconfirmedrecordsSame(&record->hold.name, name))
                            ? UNCONFIRMED_ENDED
                            : UNCONFIRMED_SILENT;
    }
    dropEnded();
}

void unconfirmedForced(RedisModuleCtx *ctx, RedisModuleString *name) {
    const struct unconfirmedText bytes = unconfirmedrecordsText(name);
    dropIn(RedisModule_GetSelectedDb(ctx), &bytes);
}

void unconfirmedFlushed(int db) {
    dropIn(db, NULL);
}

void unconfirmedNoteKey(RedisModuleCtx *ctx, int db, RedisModuleString *name) {
    if (unconfirmedrecordsNoteDue(db, name)) {
        drainSetAlarm(ctx, DRAIN_CHANGED_GRANTS, 0);
    }
}

void unconfirmedLookAtDue(RedisModuleCtx *ctx, int64_t now_ms) {
    struct unconfirmedRecord *record;
    while ((record = unconfirmedrecordsTakeDue())) {
        const struct holdId id = {unconfirmedrecordsDb(record), record->name, record->owner};
        if (!holdsAreThere(ctx, &id, now_ms)) {
            unconfirmedrecordsDrop(record);
        }
    }
}

/* ---- querying the server ---- */

/* The commands that can be granted a lock. As long as a connection's last command is one of them,
 * it is the one that received the grant: for any later request unconfirmedRequested has been
 * called. */
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
    *(enum unconfirmedFound *)found =
        isRequest(last_command) ? UNCONFIRMED_SILENT : UNCONFIRMED_CONFIRMED;
}

/* The grant of a connection that has closed is not an orphaned grant. If the server does not
 * answer, because CLIENT was removed by rename-command, only the commands that the module receives
 * itself count. Equivalent: the tests themselves need CLIENT. */
static enum unconfirmedFound askServer(RedisModuleCtx *ctx, unsigned long long client_id) {
    enum unconfirmedFound found = UNCONFIRMED_ENDED;
    return serverLastCommand(ctx, client_id, hear, &found) ? found : UNCONFIRMED_SILENT;
}

/* One check of the records. */
struct look {
    RedisModuleCtx *ctx;
    int64_t now_ms;
    unsigned long long client_id; /* queried last: once for all holds of a connection */
    enum unconfirmedFound found;
};

static enum unconfirmedFound unconfirmedAsk(struct look *look, unsigned long long client_id) {
    if (look->client_id != client_id) {
        look->client_id = client_id;
        look->found = askServer(look->ctx, client_id);
    }
    return look->found;
}

/* A command on any of the connections that received a hold's grants confirms the hold. */
static void spread(struct unconfirmedRecord *spoken) {
    for (struct unconfirmedRecord *record = unconfirmedrecordsOfHold(&spoken->hold); record;
         record = unconfirmedrecordsNextOfHold(record)) {
        record->found = UNCONFIRMED_ENDED;
    }
}

static int64_t ageOf(const struct unconfirmedRecord *record, int64_t now_ms) {
    int64_t age_ms = now_ms - record->granted_ms;
    return age_ms > 0 ? age_ms : 0; /* the clock may have stepped back */
}

/* For how many ms the hold has been unconfirmed, counted from its first grant; -1: it is
 * confirmed. */
static int64_t lookAtHold(struct look *look, const struct unconfirmedHold *hold) {
    int64_t longest_ms = -1;
    bool is_spoken = false;
    struct unconfirmedRecord *next, *record = unconfirmedrecordsOfHold(hold);
    for (; record; record = unconfirmedrecordsNextOfHold(record)) {
        record->found = unconfirmedAsk(look, record->client_id);
        is_spoken = is_spoken || record->found == UNCONFIRMED_CONFIRMED;
    }
    for (record = unconfirmedrecordsOfHold(hold); record; record = next) {
        next = unconfirmedrecordsNextOfHold(record);
        if (is_spoken || record->found == UNCONFIRMED_ENDED) {
            unconfirmedrecordsDrop(record);
        } else if (ageOf(record, look->now_ms) > longest_ms) {
            longest_ms = ageOf(record, look->now_ms);
        }
    }
    return longest_ms;
}

int64_t unconfirmedFor(RedisModuleCtx *ctx, const struct holdId *id, int64_t now_ms) {
    struct look look = {.ctx = ctx, .now_ms = now_ms};
    if (!featuresHas(FEATURE_UNCONFIRMED) || serverWritableNow(ctx) == SERVER_IS_REPLICA) {
        return -1;
    }
    const struct unconfirmedHold hold = unconfirmedrecordsHold(id);
    return lookAtHold(&look, &hold);
}

/* In a cluster a hold that is not found may exist: inside a transaction servers look up every key
 * in the transaction's slot. */
static enum unconfirmedFound unconfirmedLookAt(struct look *look,
                                               const struct unconfirmedRecord *record) {
    const struct holdId id = {unconfirmedrecordsDb(record), record->name, record->owner};
    if (!holdsAreThere(look->ctx, &id, look->now_ms)) {
        return serverIsCluster() ? UNCONFIRMED_PASSED_BY : UNCONFIRMED_ENDED;
    }
    return unconfirmedAsk(look, record->client_id);
}

static void unconfirmedLookAtAll(struct look *look) {
    struct unconfirmedRecord *record = unconfirmedrecordsFirst();
    for (; record; record = unconfirmedrecordsNext(record)) {
        record->found = unconfirmedLookAt(look, record);
    }
    for (record = unconfirmedrecordsFirst(); record; record = unconfirmedrecordsNext(record)) {
        if (record->found == UNCONFIRMED_CONFIRMED) {
            spread(record); /* for all records of the hold: so once for each hold */
        }
    }
    dropEnded();
}

/* The records that the check has left unconfirmed. */
static struct unconfirmedSummary sumUp(int64_t now_ms) {
    struct unconfirmedSummary summary = {0};
    struct unconfirmedRecord *record = unconfirmedrecordsFirst();
    for (; record; record = unconfirmedrecordsNext(record)) {
        if (record->found == UNCONFIRMED_SILENT) {
            int64_t age_ms = ageOf(record, now_ms);
            summary.oldest_ms = age_ms > summary.oldest_ms ? age_ms : summary.oldest_ms;
            summary.grants++;
        }
    }
    return summary;
}

struct unconfirmedSummary unconfirmedLook(void) {
    struct unconfirmedSummary summary = {0};
    if (featuresHas(FEATURE_UNCONFIRMED)) {
        struct look look = {.ctx = RedisModule_GetThreadSafeContext(NULL), .now_ms = serverNow()};
        unconfirmedLookAtAll(&look);
        summary = sumUp(look.now_ms);
        RedisModule_FreeThreadSafeContext(look.ctx);
    }
    return summary;
}
