/* Multi-key locks: several locks for one owner, all or none; opened, decided on and acquired
 * together.
 *
 * A request for several keys is exclusive in each. It fits when it fits every lock by rule 1 and
 * need not wait behind anyone there by rule 3; a lock that its owner already holds always fits
 * (rule 2). The rules are those of docs/design.md.
 */
#ifndef LOCK_MULTIKEY_H
#define LOCK_MULTIKEY_H

#include <stdbool.h>
#include <stddef.h>

#include "grant/holding.h"
#include "keys/holds.h"
#include "redismodule.h"
#include "waits/contended.h"
#include "waits/waiters.h"

/* The names of a command's locks. */
struct multikeyNames {
    RedisModuleString **names;
    size_t count;
};

/* The same names, each once: a name that is given twice is one lock. Free `names` with memFree; its
 * elements remain the caller's. */
struct multikeyNames multikeyDistinct(const struct multikeyNames *given);

struct multikeyKey {
    struct holds *holds; /* the caller's, or `opened` */
    struct holds opened;
    enum verdict verdict; /* set by multikeyJudge */
};

struct multikey {
    size_t count, room;
    struct multikeyKey keys[];
};

/* Returns a new struct with room for this many keys. To be freed with multikeyClose. */
struct multikey *multikeyNew(size_t room);

/* Opens one more lock for writing, in the selected database. `name` must outlive it. What opening
 * another lock may delete under the handle is closed again: the leases of a read-write lock or a
 * semaphore, until they are needed, because two locks may share their side keys (`a` and `{a}`),
 * and expired leases are removed on opening; and a key that is not a lock, because it may be
 * another lock's side key. */
void multikeyOpen(struct multikey *locks, RedisModuleCtx *ctx, RedisModuleString *name,
                  int64_t now_ms);

/* Closes the locks that multikeyOpen has opened, and frees the struct. */
void multikeyClose(struct multikey *locks);

/* Whether the owner, which is in none of the queues yet, can acquire all locks now. RESULT_DONE;
 * RESULT_BUSY: it has to wait; RESULT_WRONG_TYPE, RESULT_TRY_AGAIN, RESULT_KEY_IN_USE,
 * RESULT_TOO_MANY_HOLDS; RESULT_DEADLOCK: it would wait for itself, because it holds lock number
 * `*own` as another kind of lock. */
enum result multikeyJudge(struct multikey *locks, const struct request *wants, size_t *own);

/* Acquires all locks, after multikeyJudge has returned RESULT_DONE; `pendingreply` as for
 * holdingTake. */
void multikeyTake(struct multikey *locks, const struct request *wants,
                  struct pendingreply *pendingreply);

/* For the grant pass of the lock of `holds`: grants the waiter, which waits for several keys, all
 * of them if it fits now. Returns whether the waiter is gone: granted, or ended because its hold
 * count would exceed the limit. */
bool multikeyGrant(struct holds *holds, struct waiter *waiter);

#endif
