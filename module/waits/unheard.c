/* See unheard.h. The records are in unheardrecords.c. */
#include "waits/unheard.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

#include "blocking/drain.h"
#include "server/server.h"

void unheardBegin(const struct unheardGrant *grant) {
    unheardrecordsAdd(grant);
}

size_t unheardCount(void) {
    return unheardrecordsCount();
}

/* ---- commands that the module receives ---- */

void unheardFollowedUp(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner) {
    if (unheardCount() > 0) {
        const struct holdsOwner of = {RedisModule_GetSelectedDb(ctx), name, owner};
        const struct unheardHold hold = unheardrecordsHold(&of);
        unheardrecordsDropHold(&hold);
    }
}

/* A hold that one of its connections has confirmed is confirmed for all of them. */
void unheardAsked(RedisModuleCtx *ctx) {
    unsigned long long client_id = unheardCount() > 0 ? RedisModule_GetClientId(ctx) : 0;
    struct unheardRecord *record;
    while (client_id && (record = unheardrecordsOfClient(client_id))) {
        unheardrecordsDropHold(&record->hold);
    }
}

/* ---- what happens to holds ---- */

static void dropThoseOver(void) {
    struct unheardRecord *next;
    for (struct unheardRecord *record = unheardrecordsFirst(); record; record = next) {
        next = unheardrecordsNext(record);
        if (record->found == UNHEARD_OVER) {
            unheardrecordsDrop(record);
        }
    }
}

/* Removes the records of this lock, or of all locks if `name` is NULL, in this database or in
 * all. */
static void dropIn(int db, const struct unheardText *name) {
    struct unheardRecord *record = unheardrecordsFirst();
    for (; record; record = unheardrecordsNext(record)) {
        bool is_there = db == UNHEARD_EVERY_DB || record->hold.db == db;
        record->found = is_there && (!name || unheardrecordsSame(&record->hold.name, name))
                            ? UNHEARD_OVER
                            : UNHEARD_SILENT;
    }
    dropThoseOver();
}

void unheardForced(RedisModuleCtx *ctx, RedisModuleString *name) {
    const struct unheardText bytes = unheardrecordsText(name);
    dropIn(RedisModule_GetSelectedDb(ctx), &bytes);
}

void unheardFlushed(int db) {
    dropIn(db, NULL);
}

void unheardSwapped(int first_db, int second_db) {
    struct unheardRecord *record = unheardrecordsFirst();
    for (; record; record = unheardrecordsNext(record)) {
        if (record->hold.db == first_db) {
            record->hold.db = second_db;
        } else if (record->hold.db == second_db) {
            record->hold.db = first_db;
        }
    }
}

void unheardKeyChanged(RedisModuleCtx *ctx, int db, RedisModuleString *name) {
    if (unheardCount() > 0 && unheardrecordsNoteDue(db, name)) {
        drainSetAlarm(ctx, 0);
    }
}

void unheardLookAtDue(RedisModuleCtx *ctx, int64_t now_ms) {
    struct unheardRecord *record;
    while ((record = unheardrecordsTakeDue())) {
        const struct holdsOwner of = {record->hold.db, record->name, record->owner};
        if (!holdsAreThere(ctx, &of, now_ms)) {
            unheardrecordsDrop(record);
        }
    }
}

/* ---- querying the server ---- */

/* The commands that can be granted a lock. As long as a connection's last command is one of them,
 * it is the one that received the grant: for any later request unheardAsked has been called. */
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
    *(enum unheardFound *)found = isRequest(last_command) ? UNHEARD_SILENT : UNHEARD_SPOKEN;
}

/* The grant of a connection that has closed is not an orphaned grant. If the server does not
 * answer, because CLIENT was removed by rename-command, only the commands that the module receives
 * itself count. Equivalent: the tests themselves need CLIENT. */
static enum unheardFound askServer(RedisModuleCtx *ctx, unsigned long long client_id) {
    enum unheardFound found = UNHEARD_OVER;
    return serverLastCommand(ctx, client_id, hear, &found) ? found : UNHEARD_SILENT;
}

/* One check of the records. */
struct look {
    RedisModuleCtx *ctx;
    int64_t now_ms;
    unsigned long long client_id; /* queried last: once for all holds of a connection */
    enum unheardFound found;
};

static enum unheardFound ask(struct look *look, unsigned long long client_id) {
    if (look->client_id != client_id) {
        look->client_id = client_id;
        look->found = askServer(look->ctx, client_id);
    }
    return look->found;
}

/* A command on any of the connections that received a hold's grants confirms the hold. */
static void spread(struct unheardRecord *spoken) {
    for (struct unheardRecord *record = unheardrecordsOfHold(&spoken->hold); record;
         record = unheardrecordsNextOfHold(record)) {
        record->found = UNHEARD_OVER;
    }
}

static int64_t ageOf(const struct unheardRecord *record, int64_t now_ms) {
    int64_t age_ms = now_ms - record->granted_ms;
    return age_ms > 0 ? age_ms : 0; /* the clock may have stepped back */
}

/* For how many ms the hold has been unconfirmed, counted from its first grant; -1: it is
 * confirmed. */
static int64_t lookAtHold(struct look *look, const struct unheardHold *hold) {
    int64_t longest_ms = -1;
    bool is_spoken = false;
    struct unheardRecord *next, *record = unheardrecordsOfHold(hold);
    for (; record; record = unheardrecordsNextOfHold(record)) {
        record->found = ask(look, record->client_id);
        is_spoken = is_spoken || record->found == UNHEARD_SPOKEN;
    }
    for (record = unheardrecordsOfHold(hold); record; record = next) {
        next = unheardrecordsNextOfHold(record);
        if (is_spoken || record->found == UNHEARD_OVER) {
            unheardrecordsDrop(record);
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
    const struct unheardHold hold = unheardrecordsHold(of);
    return lookAtHold(&look, &hold);
}

/* In a cluster a hold that is not found may exist: inside a transaction servers look up every key
 * in the transaction's slot. */
static enum unheardFound lookAt(struct look *look, const struct unheardRecord *record) {
    const struct holdsOwner of = {record->hold.db, record->name, record->owner};
    if (!holdsAreThere(look->ctx, &of, look->now_ms)) {
        return serverIsCluster() ? UNHEARD_PASSED_BY : UNHEARD_OVER;
    }
    return ask(look, record->client_id);
}

static void lookAtAll(struct look *look) {
    struct unheardRecord *record = unheardrecordsFirst();
    for (; record; record = unheardrecordsNext(record)) {
        record->found = lookAt(look, record);
    }
    for (record = unheardrecordsFirst(); record; record = unheardrecordsNext(record)) {
        if (record->found == UNHEARD_SPOKEN) {
            spread(record); /* for all records of the hold: so once for each hold */
        }
    }
    dropThoseOver();
}

/* The records that the check has left unconfirmed. */
static struct unheardSummary sumUp(int64_t now_ms) {
    struct unheardSummary summary = {0};
    struct unheardRecord *record = unheardrecordsFirst();
    for (; record; record = unheardrecordsNext(record)) {
        if (record->found == UNHEARD_SILENT) {
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
