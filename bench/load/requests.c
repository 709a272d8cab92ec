/* Requests are made once, then sent, and their replies are checked: a benchmark of error replies
 * would be useless. */

#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "load/requests.h"
#include "load/template.h"

enum {
    PREPARE_DEPTH = 100,
};

typedef struct Sequence {
    Message *messages;
    const char **replies;
    unsigned count;
    unsigned next;
} Sequence;

typedef struct Session {
    redisContext *connection;
    Sequence sequence;
    unsigned steps; /* messages in one time of the load */
    unsigned depth;
} Session;

static unsigned countSteps(const Step *steps) {
    unsigned count = 0;
    while (steps[count].request != NULL) {
        count++;
    }
    return count;
}

static Sequence sequenceMake(redisContext *connection, const Step *steps, unsigned times) {
    unsigned step_count = countSteps(steps);
    Sequence sequence = {.count = step_count * times};
    sequence.messages = allocate(sequence.count * sizeof(*sequence.messages));
    sequence.replies = allocate(sequence.count * sizeof(*sequence.replies));
    for (unsigned i = 0; i < sequence.count; i++) {
        const Step *step = &steps[i % step_count];
        sequence.messages[i] =
            templateExpand(connection, step->request, i / step_count, i / step_count);
        sequence.replies[i] = step->reply;
    }
    return sequence;
}

static void sequenceFree(Sequence *sequence) {
    for (unsigned i = 0; i < sequence->count; i++) {
        redisFreeCommand(sequence->messages[i].bytes);
    }
    free(sequence->messages);
    free(sequence->replies);
}

static bool replyIs(const redisReply *reply, const char *expected) {
    char number[24];
    if (reply->type == REDIS_REPLY_ERROR) {
        return false;
    }
    if (expected == NULL) {
        return true;
    }
    if (reply->type == REDIS_REPLY_NIL) {
        return strcmp(expected, "nil") == 0;
    }
    if (reply->type != REDIS_REPLY_INTEGER) {
        return reply->str != NULL && strcmp(reply->str, expected) == 0;
    }
    snprintf(number, sizeof(number), "%lld", reply->integer);
    return strcmp(number, expected) == 0;
}

static void readReply(redisContext *connection, const Sequence *sequence, unsigned index) {
    redisReply *reply = serverReply(connection);
    if (!replyIs(reply, sequence->replies[index])) {
        die("wrong reply, type %d: %s\nto: %s", reply->type,
            reply->str ? reply->str : "(a number or a list)", sequence->messages[index].bytes);
    }
    freeReplyObject(reply);
}

/* Sends the next `count` messages of the cyclic sequence; at most `depth` of them have no reply
 * yet. */
static void sequenceSend(redisContext *connection, Sequence *sequence, unsigned count,
                         unsigned depth) {
    while (count > 0) {
        unsigned batch = count < depth ? count : depth;
        for (unsigned i = 0; i < batch; i++) {
            const Message *message = &sequence->messages[(sequence->next + i) % sequence->count];
            redisAppendFormattedCommand(connection, message->bytes, message->size);
        }
        for (unsigned i = 0; i < batch; i++) {
            readReply(connection, sequence, (sequence->next + i) % sequence->count);
        }
        sequence->next = (sequence->next + batch) % sequence->count;
        count -= batch;
    }
}

static void prepare(redisContext *connection, const Step *steps, unsigned times) {
    Sequence sequence = sequenceMake(connection, steps, times);
    sequenceSend(connection, &sequence, sequence.count, PREPARE_DEPTH);
    sequenceFree(&sequence);
}

void requestsPrepare(const Server *server, const Step *steps, unsigned times) {
    redisContext *connection = serverConnect(server);
    prepare(connection, steps, times);
    redisFree(connection);
}

/* ---- The kind ------------------------------------------------------------------------------- */

static void requestsRun(void *state, unsigned times) {
    Session *session = state;
    sequenceSend(session->connection, &session->sequence, times * session->steps, session->depth);
}

static void *requestsOpen(const Server *server, const void *what, const Conditions *conditions) {
    const Requests *requests = what;
    Session *session = allocate(sizeof(*session));
    session->connection = serverConnect(server);
    session->steps = countSteps(requests->steps);
    session->depth = requests->depth > 0 ? requests->depth : conditions->depth;
    session->depth = session->depth > 0 ? session->depth : 1;
    if (requests->prepare != NULL) {
        prepare(session->connection, requests->prepare, requests->prepare_times);
    }
    session->sequence = sequenceMake(session->connection, requests->steps,
                                     requests->keys > 0 ? requests->keys : REQUESTS_KEYS);
    return session;
}

static void requestsClose(void *state) {
    Session *session = state;
    sequenceFree(&session->sequence);
    redisFree(session->connection);
    free(session);
}

const LoadKind requestsKind = {requestsOpen, requestsRun, requestsClose};
