/* All servers that are looked at: those of the URLs, and of a cluster all masters. They are asked in rounds:
 * questions to any of them, then a wait for the answers. */
#ifndef LOCKCTL_NODES_H
#define LOCKCTL_NODES_H

#include "look/look.h"
#include "net/server.h"

struct nodes;
struct node;

/* An answer to a question about `name`, which may be NULL. It may ask more of the same round. */
typedef void nodeAnswer(struct node *node, redisReply *reply, const char *name, size_t length);

struct node {
    struct nodes *nodes;
    struct url url;
    struct server server;
    char *place;   /* "host:port" */
    char *trouble; /* why it cannot be asked just now, or NULL */
    size_t number; /* which of the nodes */
    int unanswered;
};

struct nodes {
    struct event_base *base;
    const struct lookOrder *order;
    void *arg; /* the owner's own */
    struct node *list[1024];
    size_t count;
    struct question *questions; /* of this round */
    struct alarm limit;
    bool is_late;
};

/* Opens them all; ends the process with FAILURE_UNAVAILABLE, having said why, if one of the URLs leads to no
 * server. */
void nodesOpen(struct nodes *nodes, struct event_base *base, const struct lookOrder *order);
void nodesFree(struct nodes *nodes);

/* Asks a node, if it is open. `name` is copied. */
void nodeAsk(struct node *node, const struct words *words, nodeAnswer *answer, const char *name,
             size_t length);

/* Until all has been answered, also what was asked by the answers. A node that says nothing for as long as
 * the order allows is given up for this round: its `trouble` says so, and it is opened again. */
void nodesFinish(struct nodes *nodes);

#endif
