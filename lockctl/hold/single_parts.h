/* What the parts of the holder at one server share: single.c, single_ask.c, single_keep.c.
 *
 * Two connections: on one it asks, renews and releases, and while it waits nothing else can be said there.
 * The other one is told of a loss, and shows that the server lives while the first one waits.
 *
 * Until when the lock is held for certain is `until_ms`: counted from when the last request was sent that
 * gave it a lease, not from its answer, which may have come late. So a grant is renewed once before it
 * counts. A hold that is bound to the connection has a lease too, `lock.default-lease`, and when the
 * connection is lost it has to be bound to another one within a second, `lock.session-grace`.
 */
#ifndef LOCKCTL_SINGLE_PARTS_H
#define LOCKCTL_SINGLE_PARTS_H

#include "base/alarm.h"
#include "hold/holder.h"
#include "net/server.h"

enum singleStage {
    SINGLE_ASKING,     /* and waiting */
    SINGLE_CONFIRMING, /* it is granted, and is being renewed for the first time */
    SINGLE_HOLDING,
    SINGLE_GIVING_UP, /* the wait, or a grant on its way */
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
    struct alarm beat;   /* renewals; while it waits, signs of life */
    struct alarm clock;  /* the end of the wait, of the lease, of an ending */
    int64_t grace_ms;    /* before the end of the lease */
    int64_t wait_end_ms; /* -1: never */
    int64_t begun_ms;
    int64_t heard_ms;  /* the last sign of life */
    int64_t looked_ms; /* when somebody looked for one */
    int64_t sent_ms;   /* the renewal that is under way */
    int64_t lease_ms;
    int64_t until_ms;
    int64_t notice_ms; /* so long before that the owner is told */
    bool is_renewing;
    bool is_cut; /* the connection is lost that a session was bound to, and none is bound since */
    bool is_lost;
    bool is_gone; /* lost, and the server has said so */
    bool was_held;
    bool is_acquire_sent;
    bool is_release_sent;  /* and maybe done, though the answer was lost */
    bool is_release_again; /* the second time */
    char *token;
    char *trouble; /* the last one, for messages */
    char *refusal; /* why it is given back and not had, or NULL */
};

/* ---- single.c ---- */

/* Asks on one of the two connections, as serverAsk; `answer` gets `single`. */
void singleAsk(struct single *single, struct server *server, const struct words *words,
               int64_t limit_ms, linkAnswer *answer);

/* It ends without the lock, and with it. */
void singleNotHad(struct single *single, int status, const char *why);
void singleOver(struct single *single);

/* It ends because nobody answers. */
void singleUnavailable(struct single *single);

/* Whether the server has been silent for too long. The time in which this process did not run, because it was
 * stopped or the machine suspended, does not count. */
bool singleIsSilent(struct single *single);

/* So often it looks for a sign of life while it waits. */
int64_t singleLookMs(const struct single *single);

/* Keeps a text for the message, should nothing better come. */
void singleNote(struct single *single, const char *trouble);

/* ---- single_ask.c: until it is granted, or given up ---- */

/* The first connection is open: asks. */
void singleAcquire(struct single *single);

/* The grant was over before it could be confirmed. */
void singleAskAgain(struct single *single);

/* It is time for a sign of life. */
void singleBeatWhileAsking(struct single *single);

/* Asks the second connection, if that is open, for one. */
void singlePing(struct single *single);

/* Gives up: first what is to be done, then on the second connection, once that is open. */
void singleBeginToGiveUp(struct single *single);
void singleGiveUp(struct single *single);

/* What was granted cannot be kept: gives it back, and says why. */
void singleRefuse(struct single *single, const char *why);

/* ---- single_keep.c: from the grant on ---- */

void singleConfirm(struct single *single);
void singleRenew(struct single *single);

/* Asks the second connection to tell of a loss. */
void singleWatchLoss(struct single *single);

/* It is held until then at the latest, for `span_ms` from when that was known. */
void singleHoldUntil(struct single *single, int64_t until_ms, int64_t span_ms);

/* The lease is near its end. */
void singleLeaseEnds(struct single *single);

/* Tells the owner, once; nothing if it is not held. */
void singleLose(struct single *single, const char *why, int64_t until_ms);

#endif
