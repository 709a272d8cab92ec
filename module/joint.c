/* See joint.h. */
#include "joint.h"

#include "mem.h"
#include "server.h"
#include "stats.h"

struct joint *jointNew(size_t room) {
    struct joint *joint = memAlloc(sizeof(*joint) + room * sizeof(joint->keys[0]));
    joint->room = room;
    return joint;
}

void jointOpen(struct joint *joint, RedisModuleCtx *ctx, RedisModuleString *name, int64_t now_ms) {
    struct jointKey *key = &joint->keys[joint->count++];
    enum holdsShape shape = holdsOpen(&key->opened, ctx, name, now_ms, KEY_TO_WRITE);
    if (shape == HOLDS_WRONG_TYPE) {
        holdsClose(&key->opened);
    } else {
        holdsCloseLeases(&key->opened);
    }
    key->holds = &key->opened;
}

/* A lock that the caller has opened, and closes. */
static void addOpen(struct joint *joint, struct holds *holds) {
    joint->keys[joint->count++].holds = holds;
}

void jointClose(struct joint *joint) {
    for (size_t i = 0; i < joint->count; i++) {
        if (joint->keys[i].holds == &joint->keys[i].opened) {
            holdsClose(&joint->keys[i].opened);
        }
    }
    memFree(joint);
}

static struct lock *lockOf(const struct jointKey *key) {
    return contendedFind(RedisModule_GetSelectedDb(key->holds->ctx), key->holds->name);
}

/* What the holds alone say of one lock. */
static enum grantResult judgeHolds(struct jointKey *key, RedisModuleString *owner) {
    if (key->holds->shape == HOLDS_WRONG_TYPE) {
        return GRANT_WRONG_TYPE;
    }
    struct holdsView view;
    holdsSeenBy(key->holds, owner, &view);
    key->verdict = rulesDecide(MODE_EXCLUSIVE, &view);
    switch (key->verdict) {
    case VERDICT_GRANT:
        break;
    case VERDICT_REENTER:
        return view.own[MODE_EXCLUSIVE] < RULES_MAX_HOLDS ? GRANT_DONE : GRANT_TOO_MANY_HOLDS;
    case VERDICT_WAIT:
    case VERDICT_UPGRADE:
        return GRANT_BUSY;
    case VERDICT_SELF_BLOCKED:
        return GRANT_DEADLOCK;
    }
    return GRANT_DONE;
}

/* Whether the answer for one lock outweighs that for the others: what can never be, before what can
 * be later. */
static bool outweighs(enum grantResult one, enum grantResult other) {
    static const int weights[] = {[GRANT_DONE] = 0,
                                  [GRANT_BUSY] = 1,
                                  [GRANT_DEADLOCK] = 2,
                                  [GRANT_TOO_MANY_HOLDS] = 3,
                                  [GRANT_WRONG_TYPE] = 4};
    return weights[one] > weights[other];
}

static bool mustStandBehind(const struct jointKey *key, RedisModuleString *owner) {
    struct lock *lock = lockOf(key);
    if (!lock || key->verdict == VERDICT_REENTER) {
        return false;
    }
    struct request newcomer = {.mode = MODE_EXCLUSIVE, .discipline = JOINT};
    newcomer.owner = RedisModule_StringPtrLen(owner, &newcomer.owner_length);
    return waitqueueBlocks(&lock->queue, &newcomer);
}

enum grantResult jointJudge(struct joint *joint, RedisModuleString *owner, size_t *own) {
    enum grantResult result = GRANT_DONE;
    for (size_t i = 0; i < joint->count; i++) {
        struct jointKey *key = &joint->keys[i];
        enum grantResult one = judgeHolds(key, owner);
        if (one == GRANT_DONE && mustStandBehind(key, owner)) {
            one = GRANT_BUSY;
        }
        if (outweighs(one, result)) {
            result = one;
            *own = i;
        }
    }
    return result;
}

void jointTake(struct joint *joint, const struct take *take) {
    for (size_t i = 0; i < joint->count; i++) {
        takeHold(joint->keys[i].holds, take, joint->keys[i].verdict);
    }
}

/* ---- for the grant pass ---- */

/* Opens all locks of the waiter but the one that is open already. */
static struct joint *openFor(struct holds *holds, const struct waiter *waiter) {
    struct joint *joint = jointNew(waiter->standing_count);
    for (size_t i = 0; i < waiter->standing_count; i++) {
        RedisModuleString *name = waiter->standings[i].name;
        if (RedisModule_StringCompare(name, holds->name) == 0) {
            addOpen(joint, holds);
        } else {
            jointOpen(joint, holds->ctx, name, holds->now_ms);
        }
    }
    return joint;
}

static bool isAtHead(const struct place *place) {
    return waitqueueFirst(place->queue) == place;
}

/* Whether a client could write this key now. Asked of the other keys: whoever runs the pass has
 * seen to its own. In a cluster one key of a slot may have gone ahead to another node. */
static bool isServed(const struct jointKey *key) {
    return key->holds != &key->opened || !serverIsCluster() ||
           serverConsentTo(key->holds->ctx, key->holds->name) == SERVER_ACCEPTS;
}

/* Like jointJudge, for who stands in all the queues. */
static enum grantResult judgeWaiter(struct joint *joint, const struct waiter *waiter) {
    enum grantResult result = GRANT_DONE;
    for (size_t i = 0; i < joint->count; i++) {
        struct jointKey *key = &joint->keys[i];
        enum grantResult one = judgeHolds(key, waiter->owner);
        bool is_behind = key->verdict == VERDICT_GRANT && !isAtHead(&waiter->standings[i].place);
        if (one == GRANT_DONE && (is_behind || !isServed(key))) {
            one = GRANT_BUSY;
        }
        if (outweighs(one, result)) {
            result = one;
        }
    }
    return result;
}

/* Whether the owner that stands here has another place in the same queue. */
static bool standsTwice(const struct place *place) {
    const struct request *request = place->request;
    const struct place *one = waitqueueOfOwner(place->queue, request->owner, request->owner_length);
    return one != place || waitqueueNextOfOwner(one);
}

/* The other locks are taken too, and their own passes do not know: sets the next look at those for
 * which others wait, and has the owner's other waits there looked at. */
static void noteTaken(struct joint *joint, struct holds *holds, struct waiter *waiter) {
    for (size_t i = 0; i < joint->count; i++) {
        struct place *place = &waiter->standings[i].place;
        struct lock *lock = contendedOfPlace(place);
        if (joint->keys[i].holds == holds || lock->queue.places.length == 1) {
            continue;
        }
        contendedWatch(holds->ctx, lock, holdsNextEnd(joint->keys[i].holds), holds->now_ms);
        if (standsTwice(place)) {
            lock->edited = true;
            contendedMarkDue(holds->ctx, lock);
        }
    }
}

static void grantAll(struct joint *joint, struct holds *holds, struct waiter *waiter) {
    struct take take = takeOfWaiter(waiter);
    jointTake(joint, &take);
    noteTaken(joint, holds, waiter);
    for (size_t i = 1; i < joint->count; i++) {
        statsCount(STATS_GRANTED_AFTER_WAIT); /* the first is counted with the waiter */
    }
    waitersGrant(holds->ctx, waiter, (int64_t)joint->count, holds->now_ms);
}

bool jointGrant(struct holds *holds, struct waiter *waiter) {
    struct joint *joint = openFor(holds, waiter);
    enum grantResult result = judgeWaiter(joint, waiter);
    if (result == GRANT_DONE) {
        grantAll(joint, holds, waiter);
    } else if (result == GRANT_TOO_MANY_HOLDS) {
        waitersEnd(holds->ctx, waiter, WAITERS_TOO_MANY_HOLDS);
    }
    jointClose(joint);
    return result == GRANT_DONE || result == GRANT_TOO_MANY_HOLDS;
}
