/* What the files of the holder at one server share: single.c, single_ask.c, single_keep.c.
 *
 * There are two connections. The first one acquires, renews and releases the lock; while it waits,
 * nothing else can be sent on it. The second one is notified of a loss, and shows that the server
 * is alive while the first one waits.
 *
 * The lock is certainly held until `until_ms`. This counts from when the last request that started
 * a lease was sent, not from its reply, which may have arrived late. So a grant is renewed once
 * before it counts. A hold that is bound to the connection has a lease too, `lock.default-lease`.
 * When the connection is lost, the hold must be bound to another one within a second,
 * `lock.session-grace`.
 */
#ifndef LOCKCTL_SINGLE_PARTS_H
#define LOCKCTL_SINGLE_PARTS_H

#include "base/alarm.h"
#include "hold/holder.h"
#include "net/server.h"

enum singleStage {
    SINGLE_ASKING,     /* requesting the lock, and waiting */
    SINGLE_CONFIRMING, /* the lock is granted, and is renewed for the first time */
    SINGLE_HOLDING,
    SINGLE_GIVING_UP, /* ending the wait, or a grant whose reply is pending */
    SINGLE_RELEASING,
    SINGLE_OVER
};

struct single {
    struct holder holder;
    const struct wish *wish;
    const struct holderWatch *watch;
    void *arg;
    struct server first, second;
    enum singleStage stage;
    struct alarm beat;   /* the next renewal, or check that the server is alive */
    struct alarm clock;  /* the deadline of the wait, the lease or the release */
    int64_t grace_ms;    /* how long before the end of the lease `lost` is called, at most */
    int64_t wait_end_ms; /* -1: never */
    int64_t begun_ms;
    int64_t replied_ms; /* when the server last replied */
    int64_t looked_ms;  /* when singleIsSilent was last called */
    int64_t sent_ms;    /* when the last renewal was sent */
    int64_t lease_ms;
    int64_t until_ms;
    int64_t notice_ms; /* how long before `until_ms` `lost` is called */
    bool is_renewing;
    bool is_cut; /* the session's connection was lost, and no other is bound yet */
    bool is_lost;
    bool is_gone; /* lost, and the server has reported it */
    bool was_held;
    bool is_acquire_sent;
    bool is_release_sent;  /* and perhaps executed, even if the reply was lost */
    bool is_release_again; /* the release was sent a second time */
    char *token;
    char *trouble; /* the last error, for messages */
    char *refusal; /* why the grant is released and not used, or NULL */
};

/* ---- single.c ---- */

/* Sends a request on one of the two connections, as serverAsk does; `answer` gets `single`. */
void singleAsk(struct single *single, struct server *server, const struct words *words,
               int64_t limit_ms, linkAnswer *answer);

/* Ends with `not_had`; or with `over`, unless the grant had to be refused. */
void singleNotHad(struct single *single, int status, const char *why);
void singleEnded(struct single *single);

/* Ends because the server does not reply. */
void singleUnavailable(struct single *single);

/* Whether the server has not replied for too long. Time in which this process did not run, because
 * it was stopped or the machine was suspended, does not count. */
bool singleIsSilent(struct single *single);

/* Returns the interval in which it checks that the server is alive while it waits. */
int64_t singleLookMs(const struct single *single);

/* Stores an error for the message, if no later error replaces it. */
void singleNote(struct single *single, const char *trouble);

/* ---- single_ask.c: until it is granted, or given up ---- */

/* Requests the lock on the first connection, which is open. */
void singleAcquire(struct single *single);

/* Requests the lock again after a pause. */
void singleAskAgain(struct single *single);

/* Checks whether the server is alive. */
void singleBeatWhileAsking(struct single *single);

/* Sends PING on the second connection if it is open, otherwise opens it. */
void singlePing(struct single *single);

/* Gives up: the first function starts it, the second one uses the second connection, once it is
 * open. */
void singleBeginToGiveUp(struct single *single);
void singleGiveUp(struct single *single);

/* The grant cannot be kept: releases it, and ends with the error `why`. */
void singleRefuse(struct single *single, const char *why);

/* ---- single_keep.c: from the grant on ---- */

void singleConfirm(struct single *single);
void singleRenew(struct single *single);

/* Starts to watch for a loss on the second connection. */
void singleWatchLoss(struct single *single);

/* The lock is held until `until_ms` at the latest; `span_ms` is the length of the period that ends
 * then. */
void singleHoldUntil(struct single *single, int64_t until_ms, int64_t span_ms);

/* The lease is near its end. */
void singleLeaseEnds(struct single *single);

/* Calls `lost`, once; does nothing if the lock is not held. */
void singleLose(struct single *single, const char *why, int64_t until_ms);

#endif
