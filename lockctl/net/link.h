/* One connection to one server: it is opened, initialized (AUTH, SELECT), used for requests, and
 * closed. It does not reconnect: server.c does. */
#ifndef LOCKCTL_LINK_H
#define LOCKCTL_LINK_H

#include <event2/event.h>
#include <hiredis/async.h>
#include <stdbool.h>

#include "base/alarm.h"
#include "base/words.h"
#include "net/tls.h"
#include "net/url.h"

/* Callbacks to the user of the link. */
struct linkWatch {
    /* The link is open and accepts requests. */
    void (*opened)(void *arg);
    /* The link was closed, or could not be opened, for a reason other than a call of linkClose.
     * Pending requests get no reply. `is_final`: another attempt would fail too, as with a wrong
     * password. */
    void (*ended)(void *arg, const char *why, bool is_final);
};

/* Called with a reply, which the link frees. May close the link. */
typedef void linkAnswer(void *arg, redisReply *reply);

/* The credentials and the database. A text is NULL if there is none. */
struct linkLogin {
    const char *user, *password;
    int db;
};

struct link {
    struct event_base *base;
    const struct tls *tls; /* NULL: no TLS */
    struct linkLogin login;
    const struct linkWatch *watch;
    void *arg;
    redisAsyncContext *context; /* NULL while it is closed */
    struct ssl_st *session;     /* the TLS session of the context, or NULL */
    char *why;                  /* why opening failed at once, or NULL */
    struct alarm limit;         /* the deadline for opening, or for a reply */
    int greetings;              /* pending replies of the initialization */
    bool is_open;
    bool is_waiting; /* for a reply, until `limit` */
};

/* Makes a closed link. `tls`, the texts of `login`, and `watch` must outlive it. */
void linkInit(struct link *link, struct event_base *base, const struct tls *tls,
              struct linkLogin login, const struct linkWatch *watch, void *arg);

/* Starts to open the link. `watch` is notified of the result within `limit_ms`, and never before
 * this function has returned. */
void linkOpen(struct link *link, const struct address *address, int64_t limit_ms);

/* Sends a request on an open link. Replies arrive in the order of the requests. If `limit_ms` is
 * above 0 and the reply has not arrived by then, the link is closed and `watch` is notified. Only
 * one request at a time may have a limit. */
void linkAsk(struct link *link, const struct words *words, int64_t limit_ms, linkAnswer *answer,
             void *arg);

/* Closes the link if it is open. Neither `watch` nor a pending request is notified. */
void linkClose(struct link *link);

/* Closes the link and frees what belongs to it. */
void linkFree(struct link *link);

#endif
