/* All servers that are queried: those of the URLs, and of a cluster all masters. Requests are sent
 * in rounds: requests to any of the servers, then a wait for the replies. */
#ifndef LOCKCTL_NODES_H
#define LOCKCTL_NODES_H

#include "look/look.h"
#include "net/server.h"

struct nodes;
struct node;

/* Called with the reply to a request about `name`, which may be NULL. May send more requests in the
 * same round. */
typedef void nodeAnswer(struct node *node, redisReply *reply, const char *name, size_t length);

struct node {
    struct nodes *nodes;
    struct url url;
    struct server server;
    char *place;   /* "host:port" */
    char *trouble; /* why it accepts no requests at present, or NULL */
    size_t number; /* its index in the list of nodes */
    int unanswered;
};

struct nodes {
    struct event_base *base;
    const struct lookOrder *order;
    void *arg; /* for the user of the nodes */
    struct node *list[1024];
    size_t count;
    struct question *questions; /* the requests of this round */
    struct alarm limit;
    bool is_late;
};

/* Connects to all nodes. If a URL leads to no server, prints an error and ends the process with
 * FAILURE_UNAVAILABLE. */
void nodesOpen(struct nodes *nodes, struct event_base *base, const struct lookOrder *order);
void nodesFree(struct nodes *nodes);

/* Sends a request to a node, if it is open. `name` is copied. */
void nodeAsk(struct node *node, const struct words *words, nodeAnswer *answer, const char *name,
             size_t length);

/* Waits for the replies to all requests, including requests that are sent by `nodeAnswer`. A node
 * that does not reply within `silence_ms` is given up for this round: its `trouble` is set, and it
 * reconnects. */
void nodesFinish(struct nodes *nodes);

#endif
