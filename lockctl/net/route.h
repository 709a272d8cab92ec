/* Finds the server for a request: the one that the URL names, the master that a sentinel names, or
 * the node of a cluster that serves the slot, which other nodes name in a MOVED reply. */
#ifndef LOCKCTL_ROUTE_H
#define LOCKCTL_ROUTE_H

#include "net/link.h"

struct route;

/* Callbacks. One of them is called once for each routeFind, and never before routeFind has
 * returned. */
struct routeWatch {
    void (*found)(void *arg, const struct address *address);
    void (*failed)(void *arg, const char *why);
};

struct route {
    const struct url *url;
    const struct routeWatch *watch;
    void *arg;
    struct address found; /* the route owns `host`, which is NULL before one is found */
    size_t next;          /* the index of the URL's address that is tried next */
    struct link sentinel;
    struct alarm later;
    int64_t limit_ms;
};

/* All arguments must outlive the route. */
void routeInit(struct route *route, struct event_base *base, const struct url *url,
               const struct tls *tls, const struct routeWatch *watch, void *arg);
void routeFree(struct route *route);

/* Starts to look for the server, for at most `limit_ms` at each address. */
void routeFind(struct route *route, int64_t limit_ms);

/* Stops looking for the server. */
void routeStop(struct route *route);

/* Another node serves the key: routeFind finds that node from now on, until routeForget. `place` is
 * "host:port", as in the error. Returns whether it could be parsed. */
bool routeMoved(struct route *route, const char *place);

/* Makes routeFind find what `other`, a route for the same URL, has found. Returns whether the
 * address has changed. */
bool routeFollow(struct route *route, const struct route *other);

/* The server that was found is gone, or has another role now: the next routeFind searches again. */
void routeForget(struct route *route);

#endif
