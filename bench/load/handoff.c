/* The ring. A member that releases the lock receives two replies: one to the release, at once, and
 * one to its next acquire, when it is granted the lock. It sends the acquire only when it has
 * received the first reply, like a client that waits for its replies. The next holder releases
 * right after that, on another connection, and the server may read that release first. So a ring
 * has one member more than the holder and the waiters that are required. */

#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>

#include "load/crowd.h"
#include "load/handoff.h"

typedef struct Member {
    Message acquire;
    Message release;
} Member;

/* The members of a ring are next to each other in the crowd. */
typedef struct Session {
    Crowd *crowd;
    const Server *server;
    Member *members;
    unsigned size;     /* members in all rings */
    unsigned *holders; /* the member that holds each ring's lock */
    unsigned rings;
    unsigned turn; /* the ring whose lock is handed off next */
} Session;

/* The holder, the waiters, and one member that may not have joined the queue again yet. */
static unsigned membersOf(const Handoff *handoff) {
    return handoff->waiters + 2;
}

static void memberMake(Member *member, const Server *server, const Handoff *handoff,
                       unsigned number) {
    unsigned ring = number / membersOf(handoff);
    member->acquire = templateExpand(server->control, handoff->acquire, ring, number);
    member->release = templateExpand(server->control, handoff->release, ring, number);
}

static void memberFree(Member *member) {
    redisFreeCommand(member->acquire.bytes);
    redisFreeCommand(member->release.bytes);
}

/* Waits for the next reply; returns the member that received it. */
static unsigned nextReply(Session *session) {
    redisReply *reply = NULL;
    unsigned number = crowdNext(session->crowd, &reply);
    if (reply->type == REDIS_REPLY_NIL) {
        die("a waiter without a timeout received the reply of a timeout");
    }
    freeReplyObject(reply);
    return number;
}

/* The holder of the next ring releases the lock; the next waiter in its queue is the new holder.
 * Returns, when both replies have arrived, the time at which the grant arrived. */
static uint64_t releaseLock(Session *session) {
    unsigned *holder = &session->holders[session->turn];
    unsigned releasing = *holder;
    uint64_t granted_ns = 0;
    crowdSend(session->crowd, releasing, &session->members[releasing].release);
    for (int replies = 0; replies < 2; replies++) {
        unsigned number = nextReply(session);
        if (number == releasing) {
            continue;
        }
        granted_ns = nowNs();
        *holder = number;
    }
    if (*holder == releasing) {
        die("a release granted the lock to no waiter");
    }
    return granted_ns;
}

static void acquire(const Session *session, unsigned number) {
    crowdSend(session->crowd, number, &session->members[number].acquire);
}

static void handOff(Session *session) {
    unsigned releasing = session->holders[session->turn];
    releaseLock(session);
    acquire(session, releasing);
    session->turn = session->turn + 1 < session->rings ? session->turn + 1 : 0;
}

/* ---- Setting up ----------------------------------------------------------------------------- */

static void prime(const Session *session, const Handoff *handoff, unsigned ring) {
    if (handoff->prime == NULL) {
        return;
    }
    templateQueue(session->server->control, handoff->prime, ring, ring);
    freeReplyObject(serverReply(session->server->control));
}

/* The first member of the ring is granted the lock at once, the others wait. */
static void ringStart(Session *session, const Handoff *handoff, unsigned ring) {
    unsigned members = membersOf(handoff);
    unsigned first = ring * members;
    prime(session, handoff, ring);
    acquire(session, first);
    session->holders[ring] = nextReply(session);
    for (unsigned i = 1; i < members; i++) {
        acquire(session, first + i);
    }
}

/* Every member acquires and releases once, so that what a connection allocates for its first reply
 * is allocated before the measurement. */
static void goRoundOnce(Session *session) {
    for (unsigned i = 0; i < session->size; i++) {
        handOff(session);
    }
}

/* ---- The kind ------------------------------------------------------------------------------- */

unsigned handoffClients(const Handoff *handoff) {
    return handoff->rings * membersOf(handoff);
}

static void *handoffOpen(const Server *server, const void *what, const Conditions *conditions) {
    const Handoff *handoff = what;
    Session *session = allocate(sizeof(*session));
    (void)conditions;
    session->server = server;
    session->size = handoffClients(handoff);
    session->rings = handoff->rings;
    session->turn = 0;
    session->crowd = crowdOpen(server, session->size);
    session->members = allocate(session->size * sizeof(*session->members));
    session->holders = allocate(session->rings * sizeof(*session->holders));
    for (unsigned i = 0; i < session->size; i++) {
        memberMake(&session->members[i], server, handoff, i);
    }
    for (unsigned i = 0; i < session->rings; i++) {
        ringStart(session, handoff, i);
    }
    crowdSettle(session->crowd);
    goRoundOnce(session);
    return session;
}

static void handoffRun(void *state, unsigned times) {
    Session *session = state;
    while (times-- > 0) {
        handOff(session);
    }
}

static void handoffClose(void *state) {
    Session *session = state;
    crowdClose(session->crowd);
    for (unsigned i = 0; i < session->size; i++) {
        memberFree(&session->members[i]);
    }
    free(session->members);
    free(session->holders);
    free(session);
}

const LoadKind handoffKind = {handoffOpen, handoffRun, handoffClose};

/* ---- Latency -------------------------------------------------------------------------------- */

static double timePing(const Session *session) {
    uint64_t start = nowNs();
    crowdSettle(session->crowd);
    return (double)(nowNs() - start);
}

/* Before the next hand-off the server has read the request of the member that released, which is in
 * the queue again: when the release that is timed arrives, the server has nothing else to do. */
void handoffLatency(void *state, unsigned times, Series *grants, Series *pings) {
    Session *session = state;
    while (times-- > 0) {
        unsigned releasing = session->holders[session->turn];
        uint64_t start = nowNs();
        seriesAdd(grants, (double)(releaseLock(session) - start));
        acquire(session, releasing);
        crowdSettle(session->crowd);
        seriesAdd(pings, timePing(session));
    }
}
