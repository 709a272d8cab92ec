/* Connections in an epoll set. The sockets are blocking, but are read only when data has
 * arrived. */

#define _GNU_SOURCE

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "load/crowd.h"

enum {
    EVENTS = 64,
    PATIENCE_MS = 20000,
    CONNECT_BURST = 256, /* fewer than the server's backlog */
};

struct Crowd {
    const Server *server;
    redisContext **members;
    unsigned size;
    int epoll;
    struct epoll_event ready[EVENTS];
    int ready_count;
    int ready_next;
    unsigned reading; /* the member whose replies are being handed out, or `size` */
};

void crowdSettle(const Crowd *crowd) {
    redisReply *reply = redisCommand(crowd->server->control, "PING");
    if (reply == NULL) {
        die("the server has ended: %s", crowd->server->control->errstr);
    }
    freeReplyObject(reply);
}

static void join(Crowd *crowd, unsigned member) {
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = member};
    crowd->members[member] = serverConnect(crowd->server);
    if (epoll_ctl(crowd->epoll, EPOLL_CTL_ADD, crowd->members[member]->fd, &event) == -1) {
        die("epoll: %s", strerror(errno));
    }
    if (member % CONNECT_BURST == 0) {
        crowdSettle(crowd);
    }
}

Crowd *crowdOpen(const Server *server, unsigned size) {
    Crowd *crowd = allocate(sizeof(*crowd));
    memset(crowd, 0, sizeof(*crowd));
    crowd->server = server;
    crowd->size = size;
    crowd->reading = size;
    crowd->members = allocate(size * sizeof(*crowd->members));
    crowd->epoll = epoll_create1(EPOLL_CLOEXEC);
    for (unsigned i = 0; i < size; i++) {
        join(crowd, i);
    }
    return crowd;
}

void crowdClose(Crowd *crowd) {
    for (unsigned i = 0; i < crowd->size; i++) {
        redisFree(crowd->members[i]);
    }
    close(crowd->epoll);
    free(crowd->members);
    free(crowd);
}

void crowdSend(const Crowd *crowd, unsigned member, const Message *message) {
    size_t sent = 0;
    while (sent < message->size) {
        ssize_t n = write(crowd->members[member]->fd, message->bytes + sent, message->size - sent);
        if (n == -1 && errno != EINTR) {
            die("cannot send: %s", strerror(errno));
        }
        if (n > 0) {
            sent += (size_t)n;
        }
    }
}

void crowdSay(const Crowd *crowd, unsigned member, const char *text, unsigned number) {
    Message message = templateExpand(crowd->server->control, text, number, number);
    crowdSend(crowd, member, &message);
    redisFreeCommand(message.bytes);
}

/* Continues with the next member for which data has arrived, and reads the data. */
static void readNext(Crowd *crowd) {
    if (crowd->ready_next == crowd->ready_count) {
        crowd->ready_next = 0;
        do {
            crowd->ready_count = epoll_wait(crowd->epoll, crowd->ready, EVENTS, PATIENCE_MS);
        } while (crowd->ready_count == -1 && errno == EINTR);
        if (crowd->ready_count <= 0) {
            die("no reply for %d s: a client hangs", PATIENCE_MS / 1000);
        }
    }
    crowd->reading = crowd->ready[crowd->ready_next++].data.u32;
    redisContext *member = crowd->members[crowd->reading];
    if (redisBufferRead(member) != REDIS_OK) {
        die("connection lost: %s", member->errstr);
    }
}

unsigned crowdNext(Crowd *crowd, redisReply **reply) {
    for (;;) {
        void *answer = NULL;
        if (crowd->reading < crowd->size &&
            redisGetReplyFromReader(crowd->members[crowd->reading], &answer) != REDIS_OK) {
            die("bad reply: %s", crowd->members[crowd->reading]->errstr);
        }
        if (answer != NULL) {
            *reply = answer;
            if ((*reply)->type == REDIS_REPLY_ERROR) {
                die("error reply: %s", (*reply)->str);
            }
            return crowd->reading;
        }
        readNext(crowd);
    }
}
