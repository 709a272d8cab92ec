/* The server behind a URL, wherever it is just now: found, opened, asked, and found again when it has
 * moved, has become a replica, or the connection was lost. */
#ifndef LOCKCTL_SERVER_H
#define LOCKCTL_SERVER_H

#include "net/route.h"

/* What its owner is told. */
struct serverWatch {
    /* It may be asked now, for the first time or again. */
    void (*opened)(void *arg);
    /* It cannot be asked any more, or could not be reached; what was asked is not answered. Unless
     * `is_final`, or told to close, it is tried again by itself. */
    void (*failed)(void *arg, const char *why, bool is_final);
};

struct server {
    const struct serverWatch *watch;
    void *arg;
    struct tls *tls;
    struct route route;
    struct link link;
    struct alarm again;
    int64_t limit_ms; /* for one try to find it, and one to open it */
    bool is_wanted;
};

/* Not open. `url` and `watch` must outlive it. Returns NULL, or what is wrong with the TLS files of the
 * URL: a text to be freed by free(). In both cases `server` is to be freed by serverFree. */
char *serverInit(struct server *server, struct event_base *base, const struct url *url,
                 int64_t limit_ms, const struct serverWatch *watch, void *arg);
void serverFree(struct server *server);

/* Begins to open it, and to open it again whenever it was lost. The watch is told nothing before this has
 * returned. */
void serverOpen(struct server *server);

/* Closes it; nobody is told anything. */
void serverClose(struct server *server);

bool serverIsOpen(const struct server *server);

/* Goes where `other` is, of the same URL, if that is elsewhere: the one of two connections that notices nothing
 * of a failover follows the other. Not if it is closed. */
void serverFollow(struct server *server, const struct server *other);

/* Asks an open server, as linkAsk. When the time is over it is opened again. */
void serverAsk(struct server *server, const struct words *words, int64_t limit_ms,
               linkAnswer *answer, void *arg);

/* Whether this answer is no answer but says to ask elsewhere, or the same server later: MOVED, READONLY,
 * LOADING and their like. Then it is opened there, and the watch is told, which may ask again. */
bool serverGoesOn(struct server *server, const redisReply *reply);

#endif
