/* The burst of each client is one message, which is made once. */

#define _POSIX_C_SOURCE 200809L

#include <stdlib.h>
#include <string.h>

#include "load/bursts.h"
#include "load/crowd.h"

enum { REQUESTS = 2 };

typedef struct Session {
    Crowd *crowd;
    Message *messages; /* one per client */
    unsigned clients;
    unsigned replies; /* to all messages together */
} Session;

unsigned burstsRequests(const Bursts *bursts) {
    return bursts->clients * bursts->depth * REQUESTS;
}

static void append(Message *message, const Message *part) {
    char *grown = allocate(message->size + part->size);
    if (message->size > 0) {
        memcpy(grown, message->bytes, message->size);
    }
    memcpy(grown + message->size, part->bytes, part->size);
    free(message->bytes);
    message->bytes = grown;
    message->size += part->size;
}

static Message makeBurst(const Server *server, const Bursts *bursts, unsigned client) {
    Message message = {NULL, 0};
    for (unsigned i = 0; i < bursts->depth * REQUESTS; i++) {
        Message part =
            templateExpand(server->control, bursts->requests[i % REQUESTS], client, client);
        append(&message, &part);
        redisFreeCommand(part.bytes);
    }
    return message;
}

static void burstsRun(void *state, unsigned times) {
    Session *session = state;
    while (times-- > 0) {
        for (unsigned i = 0; i < session->clients; i++) {
            crowdSend(session->crowd, i, &session->messages[i]);
        }
        for (unsigned i = 0; i < session->replies; i++) {
            redisReply *reply = NULL;
            crowdNext(session->crowd, &reply);
            freeReplyObject(reply);
        }
    }
}

static void *burstsOpen(const Server *server, const void *what, const Conditions *conditions) {
    const Bursts *bursts = what;
    Session *session = allocate(sizeof(*session));
    (void)conditions;
    session->crowd = crowdOpen(server, bursts->clients);
    session->clients = bursts->clients;
    session->replies = burstsRequests(bursts);
    session->messages = allocate(bursts->clients * sizeof(*session->messages));
    for (unsigned i = 0; i < bursts->clients; i++) {
        session->messages[i] = makeBurst(server, bursts, i);
    }
    return session;
}

static void burstsClose(void *state) {
    Session *session = state;
    crowdClose(session->crowd);
    for (unsigned i = 0; i < session->clients; i++) {
        free(session->messages[i].bytes);
    }
    free(session->messages);
    free(session);
}

const LoadKind burstsKind = {burstsOpen, burstsRun, burstsClose};
