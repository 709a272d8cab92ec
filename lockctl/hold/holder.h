/* Who asks for a lock, keeps it and gives it back: at one server (single.c), or at a majority of several
 * (redlock.c). */
#ifndef LOCKCTL_HOLDER_H
#define LOCKCTL_HOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hold/wish.h"
#include "net/url.h"

struct event_base;
struct holder;

/* What its owner is told. One of the first two comes after holderBegin, `lost` at most once after `held`,
 * and `over` once after holderEnd. None comes before the call that it follows from has returned. */
struct holderWatch {
    /* The lock is held. `token` is its fencing token, or NULL if it has none. */
    void (*held)(void *arg, const char *token);
    /* It will not be: `status` is that of failure.h. */
    void (*not_had)(void *arg, int status, const char *why);
    /* It is not held any more, or nobody can tell in time that it is. At `until_ms`, by clockNow, it may
     * be somebody else's at the latest: it is now, or later. */
    void (*lost)(void *arg, const char *why, int64_t until_ms);
    /* All is given back. `was_held`: until then, as far as anybody can tell. */
    void (*over)(void *arg, bool was_held);
};

/* The first member of what single.c and redlock.c make. */
struct holder {
    void (*begin)(struct holder *holder);
    void (*end)(struct holder *holder);
    void (*free)(struct holder *holder);
};

/* Who holds `wish` at the servers: one URL, or at least three. `grace_ms`: so long before the end of a
 * lease that cannot be renewed `lost` comes, or a third of the lease if that is shorter. All that is given
 * must outlive it. Returns NULL if it cannot be, with `*why` saying why: to be freed by free(). */
struct holder *holderNew(struct event_base *base, const struct url *urls, size_t count,
                         const struct wish *wish, int64_t grace_ms, const struct holderWatch *watch,
                         void *arg, char **why);
void holderFree(struct holder *holder);

/* Begins to ask for the lock, and keeps it then. */
void holderBegin(struct holder *holder);

/* Gives the lock back; or, if it is not held yet, the wait up. */
void holderEnd(struct holder *holder);

#endif
