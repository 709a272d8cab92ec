/* See deadlock.h. */
#include "waits/deadlock.h"

#include <string.h>

#include "blocking/drain.h"
#include "core/mem.h"
#include "core/waitsearch.h"
#include "keys/holds.h"
#include "server/config.h"
#include "server/quarantine.h"
#include "server/stats.h"
#include "server/turn.h"
#include "waits/contended.h"

/* A search that takes more steps is given up: these take some 10 ms. */
#define MOST_STEPS 20000

/* Up to so many fields the server keeps a hash as a list, and walks it to find one. */
#define MOST_LISTED 512
#define LISTED_A_STEP 64

/* Of a longer cycle the text shows the first and the last waits, of a longer name its beginning.
 */
#define MOST_SHOWN 8
#define LONGEST_SHOWN 64

/* ---- the text ---- */

struct text {
    RedisModuleCtx *ctx;
    RedisModuleString *string;
};

static void append(struct text *text, const char *words) {
    RedisModule_StringAppendBuffer(text->ctx, text->string, words, strlen(words));
}

static void appendName(struct text *text, const char *bytes, size_t length) {
    bool is_cut = length > LONGEST_SHOWN;
    RedisModule_StringAppendBuffer(text->ctx, text->string, bytes, is_cut ? LONGEST_SHOWN : length);
    if (is_cut) {
        append(text, "...");
    }
}

static void appendNumber(struct text *text, const char *before, long long number,
                         const char *after) {
    RedisModuleString *digits =
        RedisModule_CreateStringPrintf(text->ctx, "%s%lld%s", before, number, after);
    append(text, RedisModule_StringPtrLen(digits, NULL));
    RedisModule_FreeString(text->ctx, digits);
}

/* One wait as the text tells it: `a waits for k held by b`. */
struct sentence {
    const char *owner, *key, *other;
    size_t owner_length, key_length, other_length;
    int db; /* to be told, or -1 */
    bool behind;
};

static void appendSentence(struct text *text, const struct sentence *sentence) {
    appendName(text, sentence->owner, sentence->owner_length);
    append(text, " waits for ");
    appendName(text, sentence->key, sentence->key_length);
    if (sentence->db >= 0) {
        appendNumber(text, " (db ", sentence->db, ")");
    }
    append(text, sentence->behind ? " behind " : " held by ");
    appendName(text, sentence->other, sentence->other_length);
}

static struct text beginText(RedisModuleCtx *ctx) {
    statsCount(STATS_DEADLOCKS);
    return (struct text){ctx, RedisModule_CreateString(ctx, "", 0)};
}

static void appendHeldBy(struct text *text, RedisModuleString *owner, RedisModuleString *name,
                         RedisModuleString *other) {
    struct sentence sentence = {.db = -1};
    sentence.owner = RedisModule_StringPtrLen(owner, &sentence.owner_length);
    sentence.key = RedisModule_StringPtrLen(name, &sentence.key_length);
    sentence.other = RedisModule_StringPtrLen(other, &sentence.other_length);
    appendSentence(text, &sentence);
}

RedisModuleString *deadlockOfOne(RedisModuleCtx *ctx, RedisModuleString *name,
                                 RedisModuleString *owner) {
    struct text text = beginText(ctx);
    appendHeldBy(&text, owner, name, owner);
    return text.string;
}

RedisModuleString *deadlockOfTwo(RedisModuleCtx *ctx, RedisModuleString *name,
                                 RedisModuleString *one, RedisModuleString *other) {
    struct text text = beginText(ctx);
    appendHeldBy(&text, one, name, other);
    append(&text, ", ");
    appendHeldBy(&text, other, name, one);
    return text.string;
}

static bool isInOneDb(const struct waitpathCycle *cycle) {
    for (size_t i = 1; i < cycle->length; i++) {
        if (contendedOfQueue(cycle->steps[i].queue)->key.db !=
            contendedOfQueue(cycle->steps[0].queue)->key.db) {
            return false;
        }
    }
    return true;
}

static void appendStep(struct text *text, const struct waitpathCycle *cycle, size_t i) {
    const struct waitpathStep *step = &cycle->steps[i];
    const struct waitpathStep *next = &cycle->steps[(i + 1) % cycle->length];
    struct sentence sentence = {.owner = step->owner,
                                .owner_length = step->owner_length,
                                .other = next->owner,
                                .other_length = next->owner_length,
                                .db = isInOneDb(cycle) ? -1 : contendedOfQueue(step->queue)->key.db,
                                .behind = step->behind};
    sentence.key =
        RedisModule_StringPtrLen(contendedOfQueue(step->queue)->key.name, &sentence.key_length);
    appendSentence(text, &sentence);
}

static RedisModuleString *textOf(RedisModuleCtx *ctx, const struct waitpathCycle *cycle) {
    struct text text = beginText(ctx);
    size_t left_out = cycle->length > MOST_SHOWN ? cycle->length - MOST_SHOWN : 0;
    for (size_t i = 0; i < cycle->length; i++) {
        if (i > 0) {
            append(&text, ", ");
        }
        if (left_out > 0 && i == MOST_SHOWN / 2) {
            appendNumber(&text, "... ", (long long)left_out, " more waits ..., ");
            i += left_out;
        }
        appendStep(&text, cycle, i);
    }
    return text.string;
}

/* ---- who holds a lock ---- */

struct asking {
    RedisModuleCtx *ctx;
    int64_t now_ms;
    struct waitsearch *search;
    struct holds *holds; /* of the lock that is looked at */
    enum lockMode mode;
};

static void reachHolder(const struct holder *holder, void *data) {
    const struct asking *asking = data;
    if (rulesConflict(asking->mode, holder->mode)) {
        size_t length;
        const char *bytes = RedisModule_StringPtrLen(holder->owner, &length);
        if (holder->mode == MODE_EXCLUSIVE) {
            waitsearchReachAlone(asking->search, bytes, length);
        } else {
            waitsearchReach(asking->search, bytes, length);
        }
    }
}

/* Whether the owner's hold is in the way, and its lease not over. */
static bool isInTheWay(struct asking *asking, RedisModuleString *owner) {
    struct holdsView view;
    if (asking->holds->shape == HOLDS_SEMAPHORE) {
        return false; /* see reachHoldersOf */
    }
    holdsSeenBy(asking->holds, owner, &view);
    if (view.foreign) {
        return false;
    }
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        bool holds_it = view.own[mode] > 0 && rulesConflict(asking->mode, (enum lockMode)mode);
        const struct holder holder = {.owner = owner, .mode = (enum lockMode)mode};
        if (holds_it &&
            !leasesIsOver(holdsLeaseEnd(asking->holds, &holder), asking->holds->now_ms)) {
            return true;
        }
    }
    return false;
}

static bool isOwnerInTheWay(struct asking *asking, const struct request *request) {
    RedisModuleCtx *ctx = asking->ctx;
    RedisModuleString *owner = RedisModule_CreateString(ctx, request->owner, request->owner_length);
    bool is_in_the_way = isInTheWay(asking, owner);
    RedisModule_FreeString(ctx, owner);
    return is_in_the_way;
}

static void reachIfHolder(struct waitsearch *search, const struct request *request, void *data) {
    if (isOwnerInTheWay(data, request)) {
        waitsearchReach(search, request->owner, request->owner_length);
    }
}

/* How many steps it takes to ask whether an owner holds a lock of so many fields. */
static size_t stepsToAsk(size_t fields) {
    return fields > MOST_LISTED ? 1 : 1 + fields / LISTED_A_STEP;
}

static void reachHoldersOfReadWrite(struct asking *asking, struct holds *holds) {
    if (!rulesConflict(asking->mode, holds->mode)) {
        return; /* readers, of whom none is in a reader's way */
    }
    size_t fields = holdsFieldCount(holds);
    size_t steps = stepsToAsk(fields), all = steps * (1 + waitgraphSize(waitersGraph()));
    if (!waitsearchMayTake(asking->search, fields > all ? all : fields)) {
        return;
    }
    if (fields > all) {
        waitsearchEachRequest(asking->search, steps, reachIfHolder, asking);
    } else {
        holdsEach(holds, reachHolder, asking);
    }
}

/* Looks at the holders, or asks for each waiter whether it is one, whichever takes fewer steps: a
 * lock may have thousands of readers of whom nobody waits for anything. Permits are no edge: nobody
 * waits for one certain owner of some. */
static void reachHoldersOf(struct asking *asking, struct holds *holds) {
    asking->holds = holds;
    if (holds->shape == HOLDS_SEMAPHORE) {
        return;
    }
    if (holds->shape == HOLDS_READ_WRITE) {
        reachHoldersOfReadWrite(asking, holds);
    } else {
        holdsEach(holds, reachHolder, asking);
    }
}

static void openLock(struct asking *asking, struct waitqueue *queue, enum lockMode mode,
                     struct holds *holds) {
    const struct lock *lock = contendedOfQueue(queue);
    asking->mode = mode;
    RedisModule_SelectDb(asking->ctx, lock->key.db);
    holdsOpenToRead(holds, asking->ctx, lock->key.name, asking->now_ms);
}

static void reachHolders(struct waitsearch *search, struct waitqueue *queue, enum lockMode mode,
                         void *data) {
    struct asking *asking = data;
    struct holds holds;
    asking->search = search;
    openLock(asking, queue, mode, &holds);
    reachHoldersOf(asking, &holds);
    holdsClose(&holds);
}

/* Likewise of one owner. */
static bool isHolder(struct waitqueue *queue, enum lockMode mode, const struct request *request,
                     void *data) {
    struct asking *asking = data;
    struct holds holds;
    openLock(asking, queue, mode, &holds);
    asking->holds = &holds;
    bool is_holder = holds.shape != HOLDS_WRONG_TYPE && isOwnerInTheWay(asking, request);
    holdsClose(&holds);
    return is_holder;
}

/* ---- the search ---- */

/* The text of the cycle that the wait of this newcomer closes, or NULL: there is none,
 * lock.deadlock-detection is off, or the search would have taken too long (which INFO counts).
 * Leaves any database selected. */
static RedisModuleString *find(RedisModuleCtx *ctx, const struct waiter *newcomer, int64_t now_ms) {
    if (!configDeadlockDetection()) {
        return NULL;
    }
    struct asking asking = {.ctx = ctx, .now_ms = now_ms};
    const struct waitsearchAsked asked = {reachHolders, isHolder, &asking};
    struct waitsearchFound found = {.steps = MOST_STEPS};
    enum waitsearchResult result =
        waitsearchFind(waitersGraph(), &newcomer->request, &asked, &found);
    statsSearched(found.steps);
    if (result == WAITSEARCH_GAVE_UP) {
        statsCount(STATS_DEADLOCK_SEARCHES_CUT);
    }
    RedisModuleString *text = result == WAITSEARCH_CYCLE ? textOf(ctx, found.cycle) : NULL;
    memFree(found.cycle);
    return text;
}

/* ---- the drain's job ---- */

/* Whether its wait closes a cycle: then it ends, as one that was cancelled. */
static void searchFrom(RedisModuleCtx *ctx, struct waiter *newcomer, int64_t now_ms) {
    RedisModule_SelectDb(ctx, newcomer->db);
    RedisModuleString *cycle = find(ctx, newcomer, now_ms);
    RedisModule_SelectDb(ctx, newcomer->db);
    if (cycle) {
        waitersEndDeadlock(ctx, newcomer, cycle);
    } else {
        waitersSearched(newcomer);
    }
}

static void setAlarmFor(RedisModuleCtx *ctx, const struct waiter *newcomer, uint64_t now_us) {
    uint64_t at_us = newcomer->search_at_us;
    drainSetAlarm(ctx, at_us > now_us ? (int64_t)((at_us - now_us + 999) / 1000) : 0);
}

static bool awaits_passes;

void deadlockQuarantineOver(void) {
    awaits_passes = true;
}

/* What is due has set the alarm. */
static bool isPutOff(void) {
    awaits_passes = awaits_passes && waitedkeyAreDue();
    return awaits_passes || quarantineIsOn();
}

/* In order of arrival, so that of those in a cycle it is the last that is refused. From one at
 * least in each turn, however much else there is to do. A search costs some µs as a rule, and never
 * more than some 10 ms. */
void deadlockSearch(RedisModuleCtx *ctx, int64_t now_ms) {
    uint64_t now_us = RedisModule_MonotonicMicroseconds();
    bool is_over = false;
    struct waiter *newcomer;
    if (isPutOff()) {
        return;
    }
    while ((newcomer = waitersFirstNewcomer()) && newcomer->search_at_us <= now_us && !is_over) {
        searchFrom(ctx, newcomer, now_ms);
        is_over = turnIsOverByClock();
    }
    if (newcomer) {
        setAlarmFor(ctx, newcomer, now_us);
    }
}
