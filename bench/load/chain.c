/* Lock number i of the chain is held by owner i, which waits for lock i + 1. The askers wait for
 * lock 1. */

#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>

#include "load/chain.h"
#include "load/crowd.h"

static const char acquire_text[] = "LOCK.ACQUIRE {key} {owner} PX 1800000 BLOCK 0";

typedef struct Session {
    const Server *server;
    Crowd *crowd; /* the askers, then the waiters in the chain, then the waiter for another lock */
    Message *asks, *cancels;
    unsigned length;
} Session;

/* ASKERS owners send a request to wait one after another; then their waits are cancelled. */
enum { ASKERS = 50, FIRST_ASKER = 1000000 };

/* Sends the request on the control connection, which never has to wait. The caller frees the
 * reply. */
static redisReply *ask(const Session *session, const char *text, unsigned key, unsigned owner) {
    templateQueue(session->server->control, text, key, owner);
    return serverReply(session->server->control);
}

static void say(const Session *session, const char *text, unsigned key, unsigned owner) {
    redisReply *reply = ask(session, text, key, owner);
    if (reply->type == REDIS_REPLY_ERROR || reply->type == REDIS_REPLY_NIL) {
        die("%s: %s", text, reply->type == REDIS_REPLY_NIL ? "not acquired" : reply->str);
    }
    freeReplyObject(reply);
}

static void wait(const Session *session, unsigned member, unsigned key, unsigned owner) {
    Message request = templateExpand(session->server->control, acquire_text, key, owner);
    crowdSend(session->crowd, member, &request);
    redisFreeCommand(request.bytes);
}

/* Begins at the end of the chain: the search of each new wait is then short, and making the chain
 * takes little time. */
static void makeChain(Session *session) {
    for (unsigned i = session->length; i >= 1; i--) {
        say(session, acquire_text, i, i);
        if (i < session->length) {
            wait(session, ASKERS + i - 1, i + 1, i);
            crowdSettle(session->crowd);
        }
    }
    unsigned elsewhere = session->length + 1;
    say(session, acquire_text, elsewhere, elsewhere);
    wait(session, ASKERS + session->length - 1, elsewhere, elsewhere + 1);
    crowdSettle(session->crowd);
}

static void *chainOpen(const Server *server, const void *what, const Conditions *conditions) {
    const Chain *chain = what;
    Session *session = allocate(sizeof(*session));
    (void)conditions;
    session->server = server;
    session->length = chain->length;
    session->crowd = crowdOpen(server, ASKERS + chain->length);
    session->asks = allocate(ASKERS * sizeof(*session->asks));
    session->cancels = allocate(ASKERS * sizeof(*session->cancels));
    for (unsigned i = 0; i < ASKERS; i++) {
        session->asks[i] = templateExpand(server->control, acquire_text, 1, FIRST_ASKER + i);
        session->cancels[i] =
            templateExpand(server->control, "LOCK.CANCEL {key} {owner}", 1, FIRST_ASKER + i);
    }
    say(session,
        chain->detection ? "CONFIG SET lock.deadlock-detection yes"
                         : "CONFIG SET lock.deadlock-detection no",
        0, 0);
    makeChain(session);
    return session;
}

/* The server reads all requests to wait before the first LOCK.CANCEL. */
static void askAndCancel(const Session *session, unsigned askers) {
    redisContext *control = session->server->control;
    for (unsigned i = 0; i < askers; i++) {
        crowdSend(session->crowd, i, &session->asks[i]);
    }
    crowdSettle(session->crowd);
    for (unsigned i = 0; i < askers; i++) {
        redisAppendFormattedCommand(control, session->cancels[i].bytes, session->cancels[i].size);
    }
    for (unsigned i = 0; i < askers; i++) {
        freeReplyObject(serverReply(control));
    }
    for (unsigned i = 0; i < askers; i++) {
        redisReply *reply = NULL;
        crowdNext(session->crowd, &reply);
        freeReplyObject(reply);
    }
}

static void chainRun(void *state, unsigned times) {
    const Session *session = state;
    while (times > 0) {
        unsigned askers = times < ASKERS ? times : ASKERS;
        askAndCancel(session, askers);
        times -= askers;
    }
}

static void chainEnd(void *state) {
    Session *session = state;
    crowdClose(session->crowd);
    for (unsigned i = 0; i < ASKERS; i++) {
        redisFreeCommand(session->asks[i].bytes);
        redisFreeCommand(session->cancels[i].bytes);
    }
    free(session->asks);
    free(session->cancels);
    free(session);
}

const LoadKind chainKind = {chainOpen, chainRun, chainEnd};

void chainClose(void *state, unsigned times) {
    const Session *session = state;
    while (times-- > 0) {
        redisReply *reply = ask(session, acquire_text, 1, session->length);
        if (reply->type != REDIS_REPLY_ERROR || strncmp(reply->str, "DEADLOCK", 8) != 0) {
            die("a cycle was not refused");
        }
        freeReplyObject(reply);
    }
}
