/* A holder acquires a lock, keeps it and releases it: at one server (single.c), or at a majority of
 * several servers (redlock.c). */
#ifndef LOCKCTL_HOLDER_H
#define LOCKCTL_HOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hold/wish.h"
#include "net/url.h"

struct event_base;
struct holder;

/* Callbacks to the user of the holder. After holderBegin either `held` or `not_had` is called.
 * After `held`, `lost` is called at most once. After holderEnd, `over` is called once. No callback
 * is called before the function that causes it has returned. */
struct holderWatch {
    /* The lock is held. `token` is its fencing token, or NULL if it has none. */
    void (*held)(void *arg, const char *token);
    /* The lock was not acquired. `status` is one of failure.h. */
    void (*not_had)(void *arg, int status, const char *why);
    /* The lock is no longer held, or it cannot be confirmed in time that it is. From `until_ms` on,
     * by clockNow, another client may hold it; `until_ms` is now, or later. */
    void (*lost)(void *arg, const char *why, int64_t until_ms);
    /* The lock is released, or ends by its lease. `was_held`: the lock was held until then, as far
     * as is known. */
    void (*over)(void *arg, bool was_held);
};

enum holderEnd {
    HOLDER_RELEASE, /* at once */
    HOLDER_KEEP     /* when the time of `at_least_ms` has passed, by the lease */
};

/* The first member of the structs that single.c and redlock.c create. */
struct holder {
    void (*begin)(struct holder *holder);
    void (*end)(struct holder *holder, enum holderEnd how);
    void (*free)(struct holder *holder);
};

/* Makes a holder for `wish` at the servers: one URL, or at least three. If the lease cannot be
 * renewed, `lost` is called `grace_ms` before its end, or a third of the lease before if that is
 * shorter. All arguments must outlive the holder. On failure returns NULL and the reason in `*why`,
 * to be freed by free(). */
struct holder *holderNew(struct event_base *base, const struct url *urls, size_t count,
                         const struct wish *wish, int64_t grace_ms, const struct holderWatch *watch,
                         void *arg, char **why);
void holderFree(struct holder *holder);

/* Starts to acquire the lock, and then keeps it. */
void holderBegin(struct holder *holder);

/* Releases the lock, or ends the wait if the lock is not held yet. */
void holderEnd(struct holder *holder, enum holderEnd how);

#endif
