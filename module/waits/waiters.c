/* See waiters.h. */
#include "waits/waiters.h"

#include "core/mem.h"
#include "keys/fairqueue.h"
#include "server/alarm.h"
#include "server/config.h"
#include "server/failpoint.h"
#include "server/reply.h"
#include "server/server.h"
#include "server/stats.h"
#include "waits/answers.h"
#include "waits/inflight.h"

static struct {
    struct map by_client;   /* the server's handle of a blocked client -> its waiter */
    struct waitgraph graph; /* the requests of those with a client */
} waiters;

struct waitgraph *waitersGraph(void) {
    return &waiters.graph;
}

size_t waitersCount(void) {
    return waiters.by_client.used;
}

bool waitersHaveRoom(void) {
    long long most = configMaxWaiters();
    return most == 0 || waitersCount() < (size_t)most;
}

struct waiter *waitersOfPosition(struct position *position) {
    return LIST_ELEMENT(position->request, struct waiter, request);
}

static struct waiter *ofNote(struct link *link) {
    return LIST_ELEMENT(link, struct waiter, note);
}

static struct waiter *ofClient(RedisModuleBlockedClient *bc) {
    /* The key of the map is the pointer's own bytes. */
    struct mapEntry *entry = mapFind(&waiters.by_client, (const char *)&bc, sizeof(bc));
    return entry ? LIST_ELEMENT(entry, struct waiter, by_client) : NULL;
}

void waitersFree(struct waiter *waiter) {
    for (size_t i = 0; i < waiter->standing_count; i++) {
        RedisModule_FreeString(NULL, waiter->standings[i].name);
    }
    RedisModule_FreeString(NULL, waiter->owner);
    memFree(waiter);
}

/* ---- deadlines ---- */

static void onDeadline(RedisModuleCtx *ctx, void *data);

static void stopTimer(RedisModuleCtx *ctx, struct waiter *waiter) {
    if (waiter->has_timer) {
        RedisModule_StopTimer(ctx, waiter->timer, NULL);
        waiter->has_timer = false;
    }
}

static void setDeadline(RedisModuleCtx *ctx, struct waiter *waiter, int64_t deadline_ms,
                        int64_t now_ms) {
    stopTimer(ctx, waiter);
    waiter->deadline_ms = deadline_ms;
    if (deadline_ms != WAITERS_NO_DEADLINE) {
        int64_t delay_ms = serverTimerDelay(deadline_ms, now_ms);
        waiter->timer = RedisModule_CreateTimer(ctx, delay_ms, onDeadline, waiter);
        waiter->has_timer = true;
    }
}

static void onDeadline(RedisModuleCtx *ctx, void *data) {
    struct waiter *waiter = data;
    waiter->has_timer = false;
    int64_t now_ms = RedisModule_Milliseconds();
    if (now_ms < waiter->deadline_ms) {
        setDeadline(ctx, waiter, waiter->deadline_ms, now_ms);
        return;
    }
    if (waiter->bc) {
        statsCount(STATS_TIME_OUTS);
    }
    waitersEnd(ctx, waiter, WAITERS_TIMED_OUT);
}

/* ---- how a wait ends ---- */

static void forgetClient(struct waiter *waiter) {
    if (waiter->bc) {
        mapRemove(&waiters.by_client, &waiter->by_client);
        waiter->bc = NULL;
        waiter->client_id = 0;
    }
}

static void noteUnwritten(struct lock *lock, struct waiter *waiter) {
    if (!waiter->noted) {
        waiter->noted = true;
        listAddLast(&lock->fair.unwritten, &waiter->note);
    }
}

void waitersNoteUnplaced(struct lock *lock, struct waiter *waiter) {
    waiter->placed = false;
    noteUnwritten(lock, waiter);
}

/* Takes the waiter out of the queue of one of its keys. */
static void leaveQueue(RedisModuleCtx *ctx, struct waiter *waiter, struct position *position,
                       bool granted) {
    struct lock *lock = contendedOfPosition(position);
    bool was_head = waitqueueFirst(&lock->queue) == position;
    waitqueueRemove(position);
    if (waiter->request.discipline == FAIR) {
        noteUnwritten(lock, waiter);
    }
    /* It may have kept others from a lock that fits them. Who grants goes on with the pass anyhow.
     */
    if (!granted && (was_head || waiter->noted)) {
        contendedMarkDue(ctx, lock);
    }
    contendedDropIfIdle(ctx, lock);
}

/* Takes the waiter out of everything that could find it, and frees it; what is to be removed from
 * keys of it, it stays for. */
static void leave(RedisModuleCtx *ctx, struct waiter *waiter, bool granted) {
    stopTimer(ctx, waiter);
    waitgraphLeave(&waiters.graph, &waiter->request);
    forgetClient(waiter);
    waiter->over = true;
    for (size_t i = 0; i < waiter->standing_count; i++) {
        leaveQueue(ctx, waiter, &waiter->standings[i].position, granted);
    }
    if (!waiter->noted) {
        waitersFree(waiter);
    }
}

void waitersEnd(RedisModuleCtx *ctx, struct waiter *waiter, enum waitersEnding how) {
    if (waiter->bc) {
        switch (how) {
        case WAITERS_TIMED_OUT:
        case WAITERS_CANCELLED:
            answersSendNull(waiter->bc);
            break;
        case WAITERS_TOO_MANY_HOLDS:
            answersSendError(waiter->bc, REPLY_TOO_MANY_HOLDS);
            break;
        case WAITERS_TRY_AGAIN:
            answersSendError(waiter->bc, REPLY_TRY_AGAIN);
            break;
        }
    }
    leave(ctx, waiter, false);
}

void waitersEndDeadlock(RedisModuleCtx *ctx, struct waiter *waiter, RedisModuleString *cycle) {
    answersSendDeadlock(waiter->bc, cycle);
    leave(ctx, waiter, false);
}

void waitersEndRedirected(RedisModuleCtx *ctx, struct waiter *waiter, bool asks, int slot,
                          const char *address, size_t length) {
    if (waiter->bc) {
        answersSendRedirection(waiter->bc, asks, slot, address, length);
    }
    leave(ctx, waiter, false);
}

struct waiter *waitersNextUnwritten(struct lock *lock) {
    struct link *first = lock->fair.unwritten.first;
    if (!first) {
        return NULL;
    }
    struct waiter *waiter = ofNote(first);
    listRemove(&lock->fair.unwritten, first);
    waiter->noted = false;
    return waiter;
}

void waitersForgetUnwritten(struct lock *lock) {
    contendedTakeNote(lock, CONTENDED_OTHER_PLACES);
    struct waiter *waiter;
    while ((waiter = waitersNextUnwritten(lock))) {
        if (waiter->over) {
            waitersFree(waiter);
        }
    }
}

void waitersForgetDetached(RedisModuleCtx *ctx, struct lock *lock) {
    contendedUse(lock);
    struct position *next;
    for (struct position *position = waitqueueFirst(&lock->queue); position; position = next) {
        next = waitqueueNext(position);
        if (!waitersOfPosition(position)->bc) {
            leave(ctx, waitersOfPosition(position), false);
        }
    }
    waitersForgetUnwritten(lock);
    contendedClearDue(lock);
    contendedEndUse(ctx, lock);
}

/* ---- grants ---- */

/* What the drain needs to release the hold, should the client die before it is told. */
static struct inflight *describeGrant(const struct waiter *waiter) {
    struct inflight *inflight = inflightNew(waiter->owner, waiter->standing_count);
    inflight->db = waiter->db;
    inflight->mode = waiter->request.mode;
    for (size_t i = 0; i < inflight->name_count; i++) {
        inflight->names[i] = waiter->standings[i].name;
        RedisModule_RetainString(NULL, inflight->names[i]);
    }
    return inflight;
}

void waitersGrant(RedisModuleCtx *ctx, struct waiter *waiter, int64_t answer, int64_t now_ms) {
    RedisModule_Assert(waiter->bc); /* a kept position is granted nothing */
    (void)failpoint(FAILPOINT_ANSWER);
    statsCount(STATS_GRANTED_AFTER_WAIT);
    statsWaited(now_ms - fairqueueCountedFrom(waiter->since_ms));
    answersSendNumber(waiter->bc, answer, inflightEnd, describeGrant(waiter));
    leave(ctx, waiter, true);
}

/* ---- what the server tells ---- */

/* The position is kept for a while, for the owner to come back to. */
static void detach(RedisModuleCtx *ctx, struct waiter *waiter) {
    struct lock *lock = contendedOfPosition(&waiter->standings[0].position);
    int64_t now_ms = RedisModule_Milliseconds();
    forgetClient(waiter);
    waitgraphLeave(&waiters.graph, &waiter->request);
    setDeadline(ctx, waiter, now_ms + configFairReserveMs(), now_ms);
    noteUnwritten(lock, waiter);
    contendedMarkDue(ctx, lock);
}

/* The connection has closed, or the server itself has answered the client: CLIENT KILL, CLIENT
 * UNBLOCK … ERROR, becoming a replica. A client that had ended its wait before is not in the map
 * any more. */
static void onDisconnect(RedisModuleCtx *ctx, RedisModuleBlockedClient *bc) {
    struct waiter *waiter = ofClient(bc);
    if (!waiter) {
        return;
    }
    statsCount(STATS_CLIENTS_GONE);
    answersSendNothing(bc);
    if (waiter->request.discipline == FAIR) {
        detach(ctx, waiter);
    } else {
        leave(ctx, waiter, false);
    }
}

/* CLIENT UNBLOCK … TIMEOUT, and nothing else: the server is given no deadline. */
static int onUnblock(RedisModuleCtx *ctx, RedisModuleString **argv, int argc) {
    (void)argv;
    (void)argc;
    RedisModuleBlockedClient *bc = RedisModule_GetBlockedClientHandle(ctx);
    struct waiter *waiter = ofClient(bc);
    if (waiter) {
        statsCount(STATS_TIME_OUTS);
        answersSendNothing(bc);
        leave(ctx, waiter, false);
    }
    return replyNull(ctx);
}

/* ---- how a wait begins ---- */

static struct waiter *newWaiter(RedisModuleString *owner, enum lockMode mode,
                                enum discipline discipline, size_t key_count) {
    struct waiter *waiter = memAlloc(sizeof(*waiter) + key_count * sizeof(waiter->standings[0]));
    /* A copy: the caller's may be a slice of a client's query buffer. */
    waiter->owner = RedisModule_CreateStringFromString(NULL, owner);
    waiter->request.owner = RedisModule_StringPtrLen(waiter->owner, &waiter->request.owner_length);
    waiter->request.mode = mode;
    waiter->request.discipline = discipline;
    return waiter;
}

struct waiter *waitersBlock(RedisModuleCtx *ctx, const struct waitersSpec *spec) {
    RedisModuleBlockedClient *bc = answersBlock(ctx, onUnblock, onDisconnect);
    if (!bc) {
        return NULL;
    }
    struct waiter *waiter = newWaiter(spec->owner, spec->mode, spec->discipline, spec->key_count);
    waiter->bc = bc;
    waiter->db = RedisModule_GetSelectedDb(ctx);
    waiter->client_id = RedisModule_GetClientId(ctx);
    waiter->session = spec->session;
    waiter->fenced = spec->fenced;
    waiter->lease_ms = spec->lease_ms;
    waiter->since_ms = spec->now_ms;
    mapAdd(&waiters.by_client, &waiter->by_client, (const char *)&waiter->bc, sizeof(waiter->bc));
    int64_t deadline_ms = spec->block_ms ? spec->now_ms + spec->block_ms : WAITERS_NO_DEADLINE;
    setDeadline(ctx, waiter, deadline_ms, spec->now_ms);
    return waiter;
}

static struct standing *nameStanding(struct waiter *waiter, size_t index, struct lock *lock) {
    struct standing *standing = &waiter->standings[index];
    standing->name = lock->name;
    RedisModule_RetainString(NULL, lock->name);
    waiter->standing_count = index + 1;
    return standing;
}

void waitersStandIn(struct waiter *waiter, size_t index, struct lock *lock, bool first) {
    struct standing *standing = nameStanding(waiter, index, lock);
    if (first) {
        waitqueueAddFirst(&lock->queue, &standing->position, &waiter->request);
    } else {
        waitqueueAdd(&lock->queue, &standing->position, &waiter->request);
    }
}

/* A reserved position never begins: nobody waits there, and it ends by itself. */
void waitersBegin(RedisModuleCtx *ctx, struct waiter *waiter) {
    if (!configDeadlockDetection()) {
        waitgraphEnter(&waiters.graph, &waiter->request);
        return;
    }
    waiter->search_at_us =
        RedisModule_MonotonicMicroseconds() + (uint64_t)WAITERS_SEARCH_DELAY_MS * 1000;
    waitgraphAnnounce(&waiters.graph, &waiter->request);
    alarmSet(ctx, WAITERS_SEARCH_DELAY_MS);
}

struct waiter *waitersFirstNewcomer(void) {
    struct request *first = waitgraphFirstNewcomer(&waiters.graph);
    return first ? LIST_ELEMENT(first, struct waiter, request) : NULL;
}

size_t waitersNewcomerCount(void) {
    return waiters.graph.newcomers.length;
}

void waitersSearched(struct waiter *newcomer) {
    waitgraphEnter(&waiters.graph, &newcomer->request);
}

void waitersTakeOver(RedisModuleCtx *ctx, struct waiter *old, struct waiter *waiter) {
    struct position *old_place = &old->standings[0].position;
    struct lock *lock = contendedOfPosition(old_place);
    struct standing *standing = nameStanding(waiter, 0, lock);
    waitgraphLeave(&waiters.graph, &old->request);
    waitqueueTakeOver(old_place, &standing->position, &waiter->request);
    waiter->ticket = old->ticket;
    waiter->since_ms = old->since_ms;
    stopTimer(ctx, old);
    if (old->noted) {
        listRemove(&lock->fair.unwritten, &old->note);
    }
    if (old->bc) {
        answersSendNull(old->bc);
    }
    forgetClient(old);
    waitersFree(old);
}

void waitersRestore(RedisModuleCtx *ctx, struct lock *lock, RedisModuleString *owner,
                    int64_t ticket, int64_t end_ms, int64_t now_ms) {
    struct waiter *waiter = newWaiter(owner, MODE_EXCLUSIVE, FAIR, 1);
    waiter->db = lock->db;
    waiter->ticket = ticket;
    waiter->placed = true;
    waiter->since_ms = fairqueueArrival(ticket, now_ms);
    waitersStandIn(waiter, 0, lock, true);
    setDeadline(ctx, waiter, end_ms, now_ms);
}
