/* See deadlock.h. */
#include "queue/deadlock.h"

#include <string.h>

#include "blocking/drain.h"
#include "common/config.h"
#include "common/quarantine.h"
#include "common/stats.h"
#include "core/cyclesearch.h"
#include "core/mem.h"
#include "keys/holds.h"
#include "queue/cancelled.h"
#include "server/timeslice.h"
#include "waits/contended.h"

/* A search that takes more steps is given up: these take about 10 ms, in time slices. */
#define MOST_STEPS 20000

/* Up to this many fields the server may encode a hash as a list, in which it searches for a field
 * from the beginning: about LISTED_A_STEP fields in the time of one step. */
#define MOST_LISTED 512
#define LISTED_A_STEP 64

/* Up to MOST_AT_ONCE holders are read in one step of a time slice. If there are more, each waiter
 * is checked instead, unless that takes more than MOST_ASKED steps and there are no more holders
 * than that. */
#define MOST_AT_ONCE 512
#define MOST_ASKED 4096

/* How many steps, of half a µs or more each, are made between two looks at the clock. */
#define STEPS_A_LOOK 64

/* Searches take at most a quarter of a core: each µs of a search counts as SHARE µs, in which no
 * other search may run. They may be ahead of that by one time slice. */
#define SHARE 4
#define AHEAD_US 600

/* After what time to check again whether the grant passes have run. */
#define LOOK_AGAIN_MS 10

/* The text shows the first and the last waits of a longer cycle, and the beginning of a longer
 * name. */
#define MOST_SHOWN 8
#define LONGEST_SHOWN 64

/* ---- the text ---- */

struct text {
    RedisModuleCtx *ctx;
    RedisModuleString *string;
};

static void deadlockAppend(struct text *text, const char *words) {
    RedisModule_StringAppendBuffer(text->ctx, text->string, words, strlen(words));
}

static void appendName(struct text *text, const char *bytes, size_t length) {
    bool is_cut = length > LONGEST_SHOWN;
    RedisModule_StringAppendBuffer(text->ctx, text->string, bytes, is_cut ? LONGEST_SHOWN : length);
    if (is_cut) {
        deadlockAppend(text, "...");
    }
}

static void appendNumber(struct text *text, const char *before, long long number,
                         const char *after) {
    RedisModuleString *digits =
        RedisModule_CreateStringPrintf(text->ctx, "%s%lld%s", before, number, after);
    deadlockAppend(text, RedisModule_StringPtrLen(digits, NULL));
    RedisModule_FreeString(text->ctx, digits);
}

/* One wait, as the text shows it: `a waits for k held by b`. */
struct sentence {
    const char *owner, *key, *other;
    size_t owner_length, key_length, other_length;
    int db; /* the number to show, or -1 */
    bool behind;
};

static void appendSentence(struct text *text, const struct sentence *sentence) {
    appendName(text, sentence->owner, sentence->owner_length);
    deadlockAppend(text, " waits for ");
    appendName(text, sentence->key, sentence->key_length);
    if (sentence->db >= 0) {
        appendNumber(text, " (db ", sentence->db, ")");
    }
    deadlockAppend(text, sentence->behind ? " behind " : " held by ");
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
    deadlockAppend(&text, ", ");
    appendHeldBy(&text, other, name, one);
    return text.string;
}

static bool isInOneDb(const struct cyclepathCycle *cycle) {
    for (size_t i = 1; i < cycle->length; i++) {
        if (contendedOfQueue(cycle->steps[i].queue)->key.db !=
            contendedOfQueue(cycle->steps[0].queue)->key.db) {
            return false;
        }
    }
    return true;
}

static void appendStep(struct text *text, const struct cyclepathCycle *cycle, size_t i) {
    const struct cyclepathStep *step = &cycle->steps[i];
    const struct cyclepathStep *next = &cycle->steps[(i + 1) % cycle->length];
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

static RedisModuleString *textOf(RedisModuleCtx *ctx, const struct cyclepathCycle *cycle) {
    struct text text = beginText(ctx);
    size_t left_out = cycle->length > MOST_SHOWN ? cycle->length - MOST_SHOWN : 0;
    for (size_t i = 0; i < cycle->length; i++) {
        if (i > 0) {
            deadlockAppend(&text, ", ");
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
    struct cyclesearch *search;
    struct holds *holds; /* of the lock that is being checked */
    enum lockMode mode;
};

static void reachHolder(const struct holder *holder, void *data) {
    const struct asking *asking = data;
    if (rulesConflict(asking->mode, holder->mode)) {
        size_t length;
        const char *bytes = RedisModule_StringPtrLen(holder->owner, &length);
        if (holder->mode == MODE_EXCLUSIVE) {
            cyclesearchReachAlone(asking->search, bytes, length);
        } else {
            cyclesearchReach(asking->search, bytes, length);
        }
    }
}

/* Whether the owner has a hold that is in the way, and has not expired. */
static bool isInTheWay(struct asking *asking, RedisModuleString *owner) {
    struct holds *holds = asking->holds;
    for (int mode = 0; mode < MODE_COUNT; mode++) {
        const struct holder holder = {.owner = owner, .mode = (enum lockMode)mode};
        if (rulesConflict(asking->mode, holder.mode) && holdsOwn(holds, owner, holder.mode) > 0 &&
            !leaseExpired(holdsLeaseEnd(holds, &holder), holds->now_ms)) {
            return true;
        }
    }
    return false;
}

static bool isOwnerInTheWay(struct asking *asking, const struct waitRequest *request) {
    RedisModuleCtx *ctx = asking->ctx;
    RedisModuleString *owner = RedisModule_CreateString(ctx, request->owner, request->owner_length);
    bool is_in_the_way = isInTheWay(asking, owner);
    RedisModule_FreeString(ctx, owner);
    return is_in_the_way;
}

/* How many steps it takes to find out whether an owner holds a lock of this many fields. */
static size_t stepsToAsk(size_t fields) {
    return fields > MOST_LISTED ? 1 : 1 + fields / LISTED_A_STEP;
}

static void reachHoldersOfReadWrite(struct asking *asking, struct holds *holds) {
    if (!rulesConflict(asking->mode, holds->mode)) {
        return; /* readers, which do not conflict with a reader */
    }
    size_t fields = holdsFieldCount(holds);
    size_t steps = stepsToAsk(fields), all = steps * (1 + waitgraphSize(waitersGraph()));
    bool are_many = fields > MOST_AT_ONCE && (all <= MOST_ASKED || fields > MOST_ASKED);
    bool asks_each = fields > all || are_many;
    if (!cyclesearchMayTake(asking->search, asks_each ? all : fields)) {
        return;
    }
    if (asks_each) {
        cyclesearchEachRequest(asking->search, steps);
    } else {
        holdsEach(holds, reachHolder, asking);
    }
}

/* Reads the holders, or checks for each waiter whether it is one, whichever takes fewer steps: a
 * lock may have thousands of readers that wait for nothing. Very many holders are not read, because
 * that cannot be interrupted. Permits are no edges of the graph: a request for permits does not
 * wait for one particular owner. */
static void reachHoldersOf(struct asking *asking, struct holds *holds) {
    asking->holds = holds;
    if (holds->kind == HOLDS_SEMAPHORE) {
        return;
    }
    if (holds->kind == HOLDS_READ_WRITE) {
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

static void reachHolders(struct cyclesearch *search, struct waitqueue *queue, enum lockMode mode,
                         void *data) {
    struct asking *asking = data;
    struct holds holds;
    asking->search = search;
    openLock(asking, queue, mode, &holds);
    reachHoldersOf(asking, &holds);
    holdsClose(&holds);
}

/* The same for one owner. */
static bool isHolder(struct waitqueue *queue, enum lockMode mode, const struct waitRequest *request,
                     void *data) {
    struct asking *asking = data;
    struct holds holds;
    openLock(asking, queue, mode, &holds);
    asking->holds = &holds;
    bool is_holder = holds.kind != HOLDS_WRONG_TYPE && isOwnerInTheWay(asking, request);
    holdsClose(&holds);
    return is_holder;
}

/* ---- the search ---- */

static struct {
    struct asking asking;
    struct waiter *newcomer; /* the newcomer of the search in progress, or NULL */
    uint64_t paid_until_us;  /* when the searches will have had no more than their share */
    bool awaits_passes;
} search;

static void deadlockBegin(struct waiter *newcomer) {
    static const struct cyclesearchAsked asked = {reachHolders, isHolder, isHolder, &search.asking};
    search.newcomer = newcomer;
    cyclesearchBegin(waitersGraph(), &newcomer->request, &asked, MOST_STEPS);
}

/* A cycle through cancelled waits that are still in their queues is not a deadlock. The next search
 * finds out whether this is such a cycle. */
static bool isToSearchAgain(const struct cyclesearchFound *found) {
    bool may_be_none = false;
    for (size_t i = 0; found->cycle && !may_be_none && i < found->cycle->length; i++) {
        const struct cyclepathStep *step = &found->cycle->steps[i];
        may_be_none = cancelledConcerns(step->owner, step->owner_length);
    }
    return may_be_none;
}

static void deadlockRefuse(RedisModuleCtx *ctx, struct waiter *newcomer,
                           const struct cyclepathCycle *cycle) {
    RedisModuleString *text = textOf(ctx, cycle);
    RedisModule_SelectDb(ctx, newcomer->db);
    waitersEndDeadlock(ctx, newcomer, text);
}

/* Ends the search. If the wait of the newcomer closes a cycle, the wait ends as well. */
static void deadlockEnd(RedisModuleCtx *ctx) {
    struct waiter *newcomer = search.newcomer;
    struct cyclesearchFound found = cyclesearchEnd(waitersGraph());
    search.newcomer = NULL;
    statsSearched(found.steps);
    if (found.result == CYCLESEARCH_GAVE_UP) {
        statsCount(STATS_DEADLOCK_SEARCHES_CUT);
    }
    if (isToSearchAgain(&found)) {
        newcomer->search_at_us =
            RedisModule_MonotonicMicroseconds() + (uint64_t)WAITERS_SEARCH_DELAY_MS * 1000;
    } else if (found.result == CYCLESEARCH_CYCLE) {
        deadlockRefuse(ctx, newcomer, found.cycle);
    } else if (found.result != CYCLESEARCH_LEFT) {
        waitersSearched(newcomer);
    }
    memFree(found.cycle);
}

/* Continues the search in progress, or begins one. */
static void goOn(RedisModuleCtx *ctx) {
    if (!search.newcomer) {
        deadlockBegin(waitersFirstNewcomer());
    }
    if (cyclesearchContinue(waitersGraph(), STEPS_A_LOOK)) {
        deadlockEnd(ctx);
    }
}

static void deadlockGiveUp(void) {
    if (search.newcomer) {
        memFree(cyclesearchEnd(waitersGraph()).cycle);
        search.newcomer = NULL;
    }
}

/* Detection is off: the first newcomer enters the graph without a search. */
static void skip(void) {
    deadlockGiveUp();
    struct waiter *newcomer = waitersFirstNewcomer();
    if (newcomer) {
        waitersSearched(newcomer);
    }
}

/* ---- the drain's job ---- */

/* A search that began before the quarantine may have read holds that have changed since. */
void deadlockQuarantineEnded(RedisModuleCtx *ctx) {
    search.awaits_passes = true;
    deadlockGiveUp();
    drainSetAlarm(ctx, DRAIN_CYCLES, 0);
}

/* When the next step is due, monotonic µs, or UINT64_MAX. */
static uint64_t nextAt(void) {
    const struct waiter *first = waitersFirstNewcomer();
    if (!first && !search.newcomer) {
        return UINT64_MAX;
    }
    uint64_t due_us = search.newcomer ? 0 : first->search_at_us;
    uint64_t free_us = search.paid_until_us > AHEAD_US ? search.paid_until_us - AHEAD_US : 0;
    return due_us > free_us ? due_us : free_us;
}

/* Whether searches must wait for grant passes, or for the end of a quarantine. Nothing reports that
 * the passes have been made, so the search looks again. */
static bool isPutOff(RedisModuleCtx *ctx) {
    bool are_left = contendedAreOwnWaitsLeft();
    search.awaits_passes = search.awaits_passes && blockingkeyAreDue();
    bool awaits = are_left || search.awaits_passes;
    if (awaits && nextAt() != UINT64_MAX) {
        drainSetAlarm(ctx, DRAIN_CYCLES, LOOK_AGAIN_MS);
    }
    return awaits || quarantineIsOn();
}

/* Searches until the time slice ends, at least one round of steps. */
static void searchAWhile(RedisModuleCtx *ctx, int64_t now_ms) {
    uint64_t began_us = RedisModule_MonotonicMicroseconds(), now_us;
    search.asking.ctx = ctx;
    search.asking.now_ms = now_ms;
    do {
        if (configDeadlockDetection()) {
            goOn(ctx);
        } else {
            skip();
        }
        now_us = RedisModule_MonotonicMicroseconds();
    } while (!timesliceHasEndedByClock() && nextAt() <= now_us);
    uint64_t from_us = search.paid_until_us > began_us ? search.paid_until_us : began_us;
    search.paid_until_us = from_us + SHARE * (now_us - began_us);
}

void deadlockHold(RedisModuleCtx *ctx, int64_t now_ms) {
    (void)now_ms;
    if (search.newcomer && cyclesearchHasEnded(waitersGraph())) {
        deadlockEnd(ctx);
    }
}

void deadlockSearch(RedisModuleCtx *ctx, int64_t now_ms) {
    deadlockHold(ctx, now_ms);
    if (isPutOff(ctx)) {
        return;
    }
    uint64_t now_us = RedisModule_MonotonicMicroseconds();
    if (nextAt() <= now_us) {
        searchAWhile(ctx, now_ms);
    }
    uint64_t at_us = nextAt();
    if (at_us != UINT64_MAX) {
        drainSetAlarm(ctx, DRAIN_CYCLES,
                      at_us > now_us ? (int64_t)((at_us - now_us + 999) / 1000) : 0);
    }
}

void deadlockForget(RedisModuleCtx *ctx) {
    (void)ctx;
    deadlockGiveUp();
}
