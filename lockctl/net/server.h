/* The server that a URL currently leads to. It is found, connected to, and used for requests. It is
 * found again when the key has moved, the server has become a replica, or the connection was
 * lost. */
#ifndef LOCKCTL_SERVER_H
#define LOCKCTL_SERVER_H

#include "net/route.h"

/* Callbacks to the user of the server. */
struct serverWatch {
    /* The server is connected and accepts requests, for the first time or again. */
    void (*opened)(void *arg);
    /* The connection was lost, or the server could not be reached; pending requests get no reply.
     * It is tried again automatically, unless `is_final` is true or serverClose is called. */
    void (*failed)(void *arg, const char *why, bool is_final);
};

struct server {
    const struct serverWatch *watch;
    void *arg;
    struct tls *tls;
    struct route route;
    struct link link;
    struct alarm again;
    int64_t limit_ms; /* for one attempt to find it, and one to connect */
    bool is_wanted;
};

/* Makes a server that is not open. `url` and `watch` must outlive it. Returns NULL, or an error
 * about the TLS files of the URL: a text to be freed by free(). In both cases `server` is to be
 * freed by serverFree. */
char *serverInit(struct server *server, struct event_base *base, const struct url *url,
                 int64_t limit_ms, const struct serverWatch *watch, void *arg);
void serverFree(struct server *server);

/* Starts to connect, and reconnects whenever the connection is lost. `watch` is not notified before
 * this function has returned. */
void serverOpen(struct server *server);

/* Closes the connection. Neither the watch nor a pending request is notified. */
void serverClose(struct server *server);

bool serverIsOpen(const struct server *server);

/* If `other`, for the same URL, is at another address, connects to that address. So of two
 * connections the one that does not notice a failover follows the other. Does nothing if `server`
 * is closed. */
void serverFollow(struct server *server, const struct server *other);

/* Sends a request to an open server, as linkAsk does. If the limit expires, it reconnects. */
void serverAsk(struct server *server, const struct words *words, int64_t limit_ms,
               linkAnswer *answer, void *arg);

/* Whether the reply is an error that says to send the request elsewhere, or later: MOVED, READONLY,
 * LOADING and similar ones. If so, it reconnects, and `watch` is notified and may send the request
 * again. */
bool serverGoesOn(struct server *server, const redisReply *reply);

#endif
