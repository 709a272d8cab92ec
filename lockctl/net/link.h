/* One connection to one server: opened, greeted (AUTH, SELECT), asked, closed. It opens nothing again by
 * itself: that is server.c's affair. */
#ifndef LOCKCTL_LINK_H
#define LOCKCTL_LINK_H

#include <event2/event.h>
#include <hiredis/async.h>
#include <stdbool.h>

#include "base/alarm.h"
#include "base/words.h"
#include "net/tls.h"
#include "net/url.h"

/* What its owner is told. */
struct linkWatch {
    /* It may be asked now. */
    void (*opened)(void *arg);
    /* It is closed, or could not be opened, for a reason that the owner has not given itself; nothing
     * that was asked is answered any more. `is_final`: it would be no better the next time, as with a
     * wrong password. */
    void (*ended)(void *arg, const char *why, bool is_final);
};

/* An answer, the link's to free. It may close the link. */
typedef void linkAnswer(void *arg, redisReply *reply);

/* To whom it shows itself; NULL for nobody. */
struct linkLogin {
    const char *user, *password;
    int db;
};

struct link {
    struct event_base *base;
    const struct tls *tls; /* NULL for none */
    struct linkLogin login;
    const struct linkWatch *watch;
    void *arg;
    redisAsyncContext *context; /* NULL while it is closed */
    struct ssl_st *session;     /* of the context, by TLS; or NULL */
    char *why;                  /* it could not even be begun to open, or NULL */
    struct alarm limit;         /* until when it must be open, or have answered */
    int greetings;              /* answers to the greeting that have not come yet */
    bool is_open;
    bool is_waiting; /* for an answer by `limit` */
};

/* A closed link; `tls`, the texts of `login` and `watch` must outlive it. */
void linkInit(struct link *link, struct event_base *base, const struct tls *tls,
              struct linkLogin login, const struct linkWatch *watch, void *arg);

/* Begins to open a closed link; `watch` hears how it ends, within `limit_ms`, and never before this has
 * returned. */
void linkOpen(struct link *link, const struct address *address, int64_t limit_ms);

/* Asks an open link. Answers come in the order of the questions. With a `limit_ms` above 0 the link ends
 * if this one has not come by then; one question at a time may have a limit. */
void linkAsk(struct link *link, const struct words *words, int64_t limit_ms, linkAnswer *answer,
             void *arg);

/* Closes it if it is not closed yet. `watch` hears nothing of it, and nobody of an answer. */
void linkClose(struct link *link);

/* Closes it for ever. */
void linkFree(struct link *link);

#endif
