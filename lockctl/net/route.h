/* Finds the server that is to be asked: the one that the URL names, the master that a sentinel names, or
 * the node of a cluster that serves the slot, which the nodes themselves tell by MOVED. */
#ifndef LOCKCTL_ROUTE_H
#define LOCKCTL_ROUTE_H

#include "net/link.h"

struct route;

/* Told once for each routeFind, and never before that has returned. */
struct routeWatch {
    void (*found)(void *arg, const struct address *address);
    void (*failed)(void *arg, const char *why);
};

struct route {
    const struct url *url;
    const struct routeWatch *watch;
    void *arg;
    struct address found; /* `host` is the route's own; NULL while none has been found */
    size_t next;          /* which of the URL's addresses is to be asked next */
    struct link sentinel;
    struct alarm later;
    int64_t limit_ms;
};

/* All that is given must outlive it. */
void routeInit(struct route *route, struct event_base *base, const struct url *url,
               const struct tls *tls, const struct routeWatch *watch, void *arg);
void routeFree(struct route *route);

/* Begins to look, for so long at most for each address. */
void routeFind(struct route *route, int64_t limit_ms);

/* Stops looking. */
void routeStop(struct route *route);

/* Another node serves the key: what routeFind finds from now on, until routeForget. `place` is
 * "host:port", as an error names it. Returns whether it could be read. */
bool routeMoved(struct route *route, const char *place);

/* What `other` has found, of the same URL, is to be found from now on. Returns whether that is another place. */
bool routeFollow(struct route *route, const struct route *other);

/* Who was found is not there, or not the one that it was: the next routeFind looks anew. */
void routeForget(struct route *route);

#endif
