/* The watches of each lock, and what the drain replies to them. What is the same for all clients
 * that wait for one key is in simplewait.c.
 *
 *   watchesState      returns the event that a command must report now
 *   watchesBegin      makes the client of the command wait for an event
 *   watchesNote…      records that a command has changed the lock
 *   watchesLook       finds, in the drain, the watches that have an event to report
 *
 * Contracts are in watches.h.
 */
#include "observing/watches.h"

#include <string.h>

#include "blocking/simplewait.h"
#include "core/heap.h"
#include "server/timeslice.h"
#include "waits/contended.h"

/* The flag for a new position in the lock's queue. */
#define NOTE_WAITER BLOCKINGKEY_KINDS_OWN

/* The leases of a lock whose slot is being moved may be on another node: it is checked again after
 * this time. Equivalent: the check of all slots, once a second, would do, later. */
#define MOVING_RETRY_MS 100

/* If one owner has more watches than this, all watches of the lock are checked instead. */
#define FEW_OF_OWNER 64

/* A watched lock. */
struct watched {
    struct simplewaits all;
    struct map by_owner;
    struct heap looks;   /* when to check which watch: the ends of leases; 0 = now */
    struct list wanting; /* the watches with WANTED */
    /* How many at the front of `all`, and of `wanting`, are still to be checked. One that has been
     * checked moves to the end, so each is reached however often all are to be checked. */
    size_t left_of_all, left_of_wanting;
};

struct watch {
    struct simplewait wait;
    RedisModuleString *owner;
    struct mapEntry by_owner;
    struct heapNode look;
    struct link in_wanting;
    bool wants_wanted;
};

static void watchesLook(RedisModuleCtx *ctx, struct blockingkey *key, int64_t now_ms);

static const struct blockingkeyKind table_kind = {FEATURE_WATCHES, sizeof(struct watched),
                                                  simplewaitIsIdle, simplewaitOnDrop};
static const struct blockingkeyWork work = {watchesLook, simplewaitRedirect, simplewaitForget,
                                            .reads_only = true};
static struct blockingkeyTable watched_locks = {.kind = &table_kind, .work = &work};

static size_t count;

size_t watchesCount(void) {
    return count;
}

/* Called by every release: one comparison when nobody watches. */
static struct watched *watchesFind(RedisModuleCtx *ctx, RedisModuleString *name) {
    if (count == 0) {
        return NULL;
    }
    return (struct watched *)blockingkeyFind(&watched_locks, RedisModule_GetSelectedDb(ctx), name);
}

size_t watchesOf(RedisModuleCtx *ctx, RedisModuleString *name) {
    const struct watched *watched = watchesFind(ctx, name);
    return watched ? watched->all.waits.length : 0;
}

/* ---- which event there is to report ---- */

/* Who waits for a lock: the owner of the first request in its queue, and whether other owners wait
 * too. */
struct claimants {
    const struct waitRequest *first; /* NULL: nobody waits */
    bool are_several;
};

static bool watchesIsOf(const struct waitRequest *request, const char *owner, size_t length) {
    return request->owner_length == length && memcmp(request->owner, owner, length) == 0;
}

static struct claimants claimantsOf(RedisModuleCtx *ctx, RedisModuleString *name) {
    struct lock *lock = contendedFindHere(ctx, name);
    struct position *head = lock ? waitqueueFirst(&lock->queue) : NULL;
    if (!head) {
        return (struct claimants){NULL, false};
    }
    const struct waitRequest *first = head->request;
    size_t of_first = waitqueueCountOf(&lock->queue, first->owner, first->owner_length);
    return (struct claimants){first, lock->queue.positions.length > of_first};
}

/* Whether an owner other than this one waits. */
static bool isWanted(const struct claimants *claimants, RedisModuleString *owner) {
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(owner, &length);
    return claimants->are_several ||
           (claimants->first && !watchesIsOf(claimants->first, bytes, length));
}

enum replyWord watchesState(struct holds *holds, const struct watchRequest *request) {
    if (holdsEndOf(holds, request->owner) == 0) {
        return REPLY_LOST;
    }
    if (!request->wants_wanted) {
        return REPLY_WORD_COUNT;
    }
    const struct claimants claimants = claimantsOf(holds->ctx, holds->name);
    return isWanted(&claimants, request->owner) ? REPLY_WANTED : REPLY_WORD_COUNT;
}

/* ---- how a watch begins, and ends ---- */

static struct watch *ofWait(struct simplewait *wait) {
    return LIST_ELEMENT(wait, struct watch, wait);
}

static void onLeave(struct simplewait *wait) {
    struct watch *watch = ofWait(wait);
    struct watched *watched = (struct watched *)wait->of;
    mapRemove(&watched->by_owner, &watch->by_owner);
    heapRemove(&watched->looks, &watch->look);
    if (watch->wants_wanted) {
        listRemove(&watched->wanting, &watch->in_wanting);
    }
    RedisModule_FreeString(NULL, watch->owner);
}

static const struct simplewaitKind kind = {
    .table = &watched_locks, .size = sizeof(struct watch), .onLeave = onLeave, .count = &count};

static void watchesJoin(struct watched *watched, struct watch *watch,
                        const struct watchRequest *request) {
    /* A copy: the caller's string may point into a client's query buffer. */
    watch->owner = RedisModule_CreateStringFromString(NULL, request->owner);
    size_t length;
    const char *bytes = RedisModule_StringPtrLen(watch->owner, &length);
    mapAdd(&watched->by_owner, &watch->by_owner, bytes, length);
    watch->wants_wanted = request->wants_wanted;
    if (watch->wants_wanted) {
        listAddLast(&watched->wanting, &watch->in_wanting);
    }
}

static void watchesSetTimer(RedisModuleCtx *ctx, struct watched *watched, int64_t now_ms) {
    const struct heapNode *first = heapFirst(&watched->looks);
    if (first) {
        blockingkeyWatch(ctx, &watched->all.key, first->at, now_ms);
    }
}

enum result watchesBegin(struct holds *holds, const struct watchRequest *request) {
    const struct simplewaitStart start = {&kind, holds->name, request->block_ms, request->now_ms};
    struct simplewait *wait;
    enum result result = simplewaitBegin(holds->ctx, &start, &wait);
    if (result == RESULT_WAITING) {
        struct watched *watched = (struct watched *)wait->of;
        watchesJoin(watched, ofWait(wait), request);
        heapPut(&watched->looks, &ofWait(wait)->look, holdsEndOf(holds, request->owner));
        watchesSetTimer(holds->ctx, watched, request->now_ms);
    }
    return result;
}

/* ---- what commands report ---- */

void watchesNoteAllOfOwner(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner) {
    struct watched *watched = watchesFind(ctx, name);
    if (!watched) {
        return;
    }
    size_t length, noted = 0;
    const char *bytes = RedisModule_StringPtrLen(owner, &length);
    struct mapEntry *entry = mapFind(&watched->by_owner, bytes, length);
    for (; entry && noted < FEW_OF_OWNER; entry = mapFindNext(entry), noted++) {
        heapPut(&watched->looks, &LIST_ELEMENT(entry, struct watch, by_owner)->look, 0);
    }
    if (entry) {
        blockingkeyNote(ctx, &watched->all.key, BLOCKINGKEY_EDITED);
    } else if (noted > 0) {
        blockingkeyMarkDue(ctx, &watched->all.key);
    }
}

void watchesNoteAll(RedisModuleCtx *ctx, RedisModuleString *name) {
    struct watched *watched = watchesFind(ctx, name);
    if (watched) {
        blockingkeyNote(ctx, &watched->all.key, BLOCKINGKEY_EDITED);
    }
}

void watchesNoteWaiter(RedisModuleCtx *ctx, RedisModuleString *name) {
    struct watched *watched = watchesFind(ctx, name);
    if (watched && !listIsEmpty(&watched->wanting)) {
        blockingkeyNote(ctx, &watched->all.key, NOTE_WAITER);
    }
}

/* ---- replying to watches ---- */

/* Checks whether the watch's owner still holds the lock: replies LOST, or schedules the next
 * check. */
static void watchesLookAtOne(struct holds *holds, struct watched *watched, struct watch *watch) {
    int64_t end_ms = holdsEndOf(holds, watch->owner);
    if (end_ms == 0) {
        simplewaitReplyWord(holds->ctx, &watch->wait, REPLY_LOST);
    } else {
        heapPut(&watched->looks, &watch->look, end_ms);
    }
}

/* Each of these returns false if the time slice ended before all were checked. */

static bool lookAtDue(struct holds *holds, struct watched *watched) {
    struct heapNode *first;
    while ((first = heapFirst(&watched->looks)) && leaseExpired(first->at, holds->now_ms)) {
        if (timesliceHasEnded()) {
            return false;
        }
        watchesLookAtOne(holds, watched, LIST_ELEMENT(first, struct watch, look));
    }
    return true;
}

static bool watchesLookAtAll(struct holds *holds, struct watched *watched) {
    struct list *all = &watched->all.waits;
    for (; watched->left_of_all > 0 && !listIsEmpty(all); watched->left_of_all--) {
        if (timesliceHasEnded()) {
            return false;
        }
        struct simplewait *first = simplewaitFirst(&watched->all);
        listRemove(all, &first->in_waits);
        listAddLast(all, &first->in_waits);
        watchesLookAtOne(holds, watched, ofWait(first));
    }
    watched->left_of_all = 0;
    return true;
}

static bool notifyWanted(struct holds *holds, struct watched *watched) {
    struct list *wanting = &watched->wanting;
    if (watched->left_of_wanting == 0) {
        return true;
    }
    const struct claimants claimants = claimantsOf(holds->ctx, holds->name);
    for (; watched->left_of_wanting > 0 && !listIsEmpty(wanting); watched->left_of_wanting--) {
        if (timesliceHasEnded()) {
            return false;
        }
        struct watch *first = LIST_ELEMENT(wanting->first, struct watch, in_wanting);
        listRemove(wanting, &first->in_wanting);
        listAddLast(wanting, &first->in_wanting);
        if (isWanted(&claimants, first->owner)) {
            simplewaitReplyWord(holds->ctx, &first->wait, REPLY_WANTED);
        }
    }
    watched->left_of_wanting = 0;
    return true;
}

/* Turns the flags that were set since the last check into the numbers of watches to check. */
static void takeNotes(struct watched *watched) {
    unsigned notes = watched->all.key.notes;
    watched->all.key.notes = 0;
    if (notes & ~(unsigned)NOTE_WAITER) {
        watched->left_of_all = watched->all.waits.length;
    }
    if (notes & NOTE_WAITER) {
        watched->left_of_wanting = watched->wanting.length;
    }
}

/* LOST is replied first: an owner that has lost the lock need not know that it is wanted. */
static bool watchesReply(struct holds *holds, struct watched *watched) {
    takeNotes(watched);
    return watchesLookAtAll(holds, watched) && lookAtDue(holds, watched) &&
           notifyWanted(holds, watched);
}

static void lookInto(struct holds *holds, struct watched *watched) {
    struct blockingkey *key = &watched->all.key;
    bool readable = holdsLeasesAreHere(holds), done = !readable || watchesReply(holds, watched);
    blockingkeyClearDue(key);
    if (!readable) {
        blockingkeyWatch(holds->ctx, key, holds->now_ms + MOVING_RETRY_MS, holds->now_ms);
    } else if (done) {
        watchesSetTimer(holds->ctx, watched, holds->now_ms);
    } else {
        blockingkeyMarkDue(holds->ctx, key); /* behind others that are due */
    }
}

static void watchesLook(RedisModuleCtx *ctx, struct blockingkey *key, int64_t now_ms) {
    struct holds holds;
    blockingkeyUse(key);
    holdsOpenToRead(&holds, ctx, key->name, now_ms);
    lookInto(&holds, (struct watched *)key);
    holdsClose(&holds);
    blockingkeyEndUse(ctx, key);
}
