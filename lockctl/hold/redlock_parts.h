/* What the parts of the holder at a majority share: redlock.c, redlock_ask.c, redlock_renew.c.
 *
 * All servers are asked at once, each on a connection of its own, which stays open. An answer that comes too
 * late for its round is not lost: what is asked next on the same connection is done after it, so a release
 * that follows also undoes a grant that nobody has heard of.
 */
#ifndef LOCKCTL_REDLOCK_PARTS_H
#define LOCKCTL_REDLOCK_PARTS_H

#include "base/alarm.h"
#include "hold/holder.h"
#include "net/server.h"

enum redlockStage {
    REDLOCK_STARTING, /* connections are being made */
    REDLOCK_ASKING,   /* a round is under way */
    REDLOCK_PAUSING,  /* nothing came of it */
    REDLOCK_HOLDING,
    REDLOCK_RELEASING,
    REDLOCK_OVER
};

/* What a server has said in this round. */
enum vote { VOTE_NONE, VOTE_YES, VOTE_NO, VOTE_REFUSED };

struct member {
    struct redlock *redlock;
    struct server server;
    enum vote vote;
    int unanswered;    /* questions */
    int64_t silent_ms; /* since when, if there are any */
    int silent_rounds; /* that have begun since: in the first, answers may have come that nobody has read */
    bool may_hold;        /* it was asked, and has not released since */
    bool holds;           /* since a round that counted, without a gap */
    bool has_again;       /* it had lost it and has taken it again since the last such round */
    bool is_tried;        /* it could be opened, or not */
    unsigned asked_round; /* the round of the question that is under way */
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
    int64_t heard_ms;    /* when a majority answered last */
    int64_t asked_ms;    /* this round */
    int64_t until_ms;
    unsigned round;
    bool is_renewing; /* a round of renewals is under way */
    bool is_answered; /* by a majority, in the last round */
    bool is_lost, was_held;
    char *refusal; /* what a server has said that refuses, or NULL */
    int not_had;   /* it ends without the lock: the status, or 0 */
    const char *why_not;
    long long token;
    size_t count;
    struct member members[];
};

/* ---- redlock.c ---- */

/* How many are a majority. */
size_t redlockQuorum(const struct redlock *redlock);

/* How many have said this in this round. */
size_t redlockVotes(const struct redlock *redlock, enum vote vote);

/* Asks a server that is open; `answer` gets `member`, and counts down what is unanswered. */
void redlockAsk(struct member *member, const struct words *words, linkAnswer *answer);

/* Whether it has answered all questions. If it has not for too long, its connection may be dead without a word:
 * another one is made. */
bool redlockIsQuiet(struct member *member);

/* Gives it back at all that may hold it, those too that have not answered. */
void redlockReleaseAll(struct redlock *redlock);

/* It ends without the lock, as soon as all that may hold it have been told so. `why` must live as long. */
void redlockNotHad(struct redlock *redlock, int status, const char *why);

/* ---- redlock_ask.c: until a majority has granted it ---- */

/* Asks all for it, at once. */
void redlockBeginRound(struct redlock *redlock);

/* The time for the answers is over. */
void redlockEndRound(struct redlock *redlock);

/* So is the pause after a round of which nothing came. */
void redlockEndPause(struct redlock *redlock);

/* Asks one server for the lock. */
void redlockAcquireAt(struct member *member, linkAnswer *answer);

/* ---- redlock_renew.c: from then on ---- */

/* A majority has given it a lease until then at the latest. */
void redlockHold(struct redlock *redlock, int64_t until_ms);

/* Renews it at all, at once. */
void redlockRenewAll(struct redlock *redlock);

/* The lease is near its end. */
void redlockLeaseEnds(struct redlock *redlock);

/* Tells the owner, once. */
void redlockLose(struct redlock *redlock, const char *why, int64_t until_ms);

#endif
