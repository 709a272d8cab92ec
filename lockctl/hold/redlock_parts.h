/* What the files of the holder at a majority share: redlock.c, redlock_ask.c, redlock_renew.c.
 *
 * A request is sent to all servers at once, to each on its own connection, which stays open. A
 * reply that arrives too late for its round does no harm: the server executes the next request on
 * the connection after the late one, so a release that follows also undoes an unconfirmed grant.
 */
#ifndef LOCKCTL_REDLOCK_PARTS_H
#define LOCKCTL_REDLOCK_PARTS_H

#include "base/alarm.h"
#include "hold/holder.h"
#include "net/server.h"

enum redlockStage {
    REDLOCK_STARTING, /* connections are being opened */
    REDLOCK_ASKING,   /* a round of requests is in progress */
    REDLOCK_PAUSING,  /* the round failed */
    REDLOCK_HOLDING,
    REDLOCK_RELEASING,
    REDLOCK_OVER
};

/* The reply of a server in this round. */
enum vote { VOTE_NONE, VOTE_YES, VOTE_NO, VOTE_REFUSED };

struct member {
    struct redlock *redlock;
    struct server server;
    enum vote vote;
    int unanswered;    /* requests without a reply */
    int64_t silent_ms; /* since when there are such requests */
    /* Rounds that have started since then. In the first one, replies may have arrived that are not
     * read yet. */
    int silent_rounds;
    bool may_hold;        /* the lock was requested, and not released since */
    bool holds;           /* granted without a gap since a successful round */
    bool has_again;       /* granted again after a loss, since the last successful round */
    bool is_tried;        /* the attempt to connect has ended */
    unsigned asked_round; /* the round of the pending request */
};

struct redlock {
    struct holder holder;
    const struct wish *wish;
    const struct holderWatch *watch;
    void *arg;
    enum redlockStage stage;
    struct alarm step;  /* the end of a round, of a pause, the next renewal */
    struct alarm clock; /* the end of the lease */
    int64_t limit_ms, grace_ms;
    int64_t wait_end_ms; /* -1: never */
    int64_t replied_ms;  /* when a majority last replied */
    int64_t asked_ms;    /* when this round started */
    int64_t until_ms;
    unsigned round;
    bool is_renewing; /* a round of renewals is in progress */
    bool is_answered; /* a majority replied in the last round */
    bool is_lost, was_held;
    char *refusal; /* the error of a server that refused, or NULL */
    int not_had;   /* the status if it ends without the lock, or 0 */
    const char *why_not;
    long long token;
    size_t count;
    struct member members[];
};

/* ---- redlock.c ---- */

/* Returns how many servers are a majority. */
size_t redlockQuorum(const struct redlock *redlock);

/* Returns how many servers have this vote in this round. */
size_t redlockVotes(const struct redlock *redlock, enum vote vote);

/* Sends a request to a server that is open. `answer` gets `member`, and must decrement
 * `unanswered`. */
void redlockAsk(struct member *member, const struct words *words, linkAnswer *answer);

/* Whether the server has replied to all requests. If it has not for too long, the connection may be
 * dead without having been closed, and a new one is opened. */
bool redlockIsQuiet(struct member *member);

/* Releases the lock at all servers that may hold it, including those that have not replied. */
void redlockReleaseAll(struct redlock *redlock);

/* Ends without the lock, after a release was sent to all servers that may hold it. `why` must stay
 * valid until then. */
void redlockNotHad(struct redlock *redlock, int status, const char *why);

/* ---- redlock_ask.c: until a majority has granted it ---- */

/* Requests the lock from all servers at once. */
void redlockBeginRound(struct redlock *redlock);

/* The time for the replies has ended. */
void redlockEndRound(struct redlock *redlock);

/* The pause after a failed round has ended. */
void redlockEndPause(struct redlock *redlock);

/* Requests the lock from one server. */
void redlockAcquireAt(struct member *member, linkAnswer *answer);

/* ---- redlock_renew.c: from then on ---- */

/* A majority has granted the lock, with a lease until `until_ms` at the latest. */
void redlockHold(struct redlock *redlock, int64_t until_ms);

/* Renews the lock at all servers at once. */
void redlockRenewAll(struct redlock *redlock);

/* The lease is near its end. */
void redlockLeaseEnds(struct redlock *redlock);

/* Calls `lost`, once. */
void redlockLose(struct redlock *redlock, const char *why, int64_t until_ms);

#endif
