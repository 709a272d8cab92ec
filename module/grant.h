/* Taking locks and handing them on: the rules of docs/design.md applied to keys and waiters.
 *
 * Everything that takes, frees or hands on a lock goes through here, and there is one grant pass.
 * All functions work in the selected database of `ctx` and with the time `now_ms` that the caller
 * read once.
 */
#ifndef LOCK_GRANT_H
#define LOCK_GRANT_H

#include <stdbool.h>
#include <stdint.h>

#include "contended.h"
#include "redismodule.h"
#include "rules.h"
#include "waitqueue.h"

/* `block_ms` of a request that does not wait. */
#define GRANT_NO_WAIT (-1)

struct grantRequest {
    RedisModuleString *name, *owner;
    enum lockMode mode;
    enum discipline discipline;
    unsigned long long session; /* the connection to bind the hold to; 0 = none */
    bool fenced;                /* `count` of the outcome is to be a fencing token */
    int64_t lease_ms;
    int64_t block_ms; /* GRANT_NO_WAIT, or how long it waits: 0 = for ever */
    int64_t now_ms;
};

enum grantResult {
    GRANT_DONE,     /* `count` tells how many holds there are */
    GRANT_BUSY,     /* somebody else has it, and the request does not wait */
    GRANT_WAITING,  /* the client is blocked: no reply is to be made now */
    GRANT_NOT_HELD, /* the owner holds no such lock */
    GRANT_WRONG_TYPE,
    GRANT_TOO_MANY_HOLDS,
    GRANT_TOO_MANY_WAITERS,
    GRANT_NO_SIDE_KEYS, /* in a cluster: this name can have none in its slot */
    GRANT_DEADLOCK,     /* the wait would never end; `circle` tells why */
    GRANT_BOTH_MODES    /* the owner holds reads and writes, and has to say which to give back */
};

struct grantOutcome {
    int64_t count;
    RedisModuleString *circle; /* of GRANT_DEADLOCK; free it with RedisModule_FreeString */
};

/* Acquires, or begins to wait. On GRANT_DONE `count` is the owner's hold count in this mode. Every
 * result but GRANT_DONE and GRANT_WAITING leaves everything as it was. */
enum grantResult grantAcquire(RedisModuleCtx *ctx, const struct grantRequest *request,
                              struct grantOutcome *outcome);

/* Which hold is to be given back. */
enum grantGiveBack { GIVE_BACK_ONLY_MODE, GIVE_BACK_READ, GIVE_BACK_WRITE };

/* Gives one hold back and hands the lock on. GRANT_DONE (`count`: holds left in its mode),
 * GRANT_NOT_HELD, GRANT_BOTH_MODES or GRANT_WRONG_TYPE. */
enum grantResult grantRelease(RedisModuleCtx *ctx, RedisModuleString *name,
                              RedisModuleString *owner, enum grantGiveBack which, int64_t now_ms,
                              struct grantOutcome *outcome);

/* Whether the owner holds the lock, in whatever mode: GRANT_DONE, GRANT_NOT_HELD or
 * GRANT_WRONG_TYPE. Takes nothing away but what is over. */
enum grantResult grantCheck(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                            int64_t now_ms);

/* What LOCK.RENEW does with the binding of the holds to a connection. */
enum grantBinding { BINDING_KEEP, BINDING_END, BINDING_NEW };

/* Gives the owner's holds a new lease from now, and with BINDING_NEW binds them to the connection
 * `session`. GRANT_DONE (`count`: its holds), GRANT_NOT_HELD or GRANT_WRONG_TYPE. */
enum grantResult grantRenew(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                            int64_t lease_ms, enum grantBinding binding, unsigned long long session,
                            int64_t now_ms, struct grantOutcome *outcome);

/* Frees the lock whoever holds it and hands it on. GRANT_DONE (`count`: 1, or 0 if it was free) or
 * GRANT_WRONG_TYPE. */
enum grantResult grantForce(RedisModuleCtx *ctx, RedisModuleString *name, int64_t now_ms,
                            struct grantOutcome *outcome);

/* Ends every wait of the owner for this lock; their clients get null. GRANT_DONE (`count`: 1, or 0
 * if it did not wait) or, when it did not wait, GRANT_WRONG_TYPE: somebody may wait for a key that
 * has been overwritten. */
enum grantResult grantCancel(RedisModuleCtx *ctx, RedisModuleString *name, RedisModuleString *owner,
                             int64_t now_ms, struct grantOutcome *outcome);

#endif
