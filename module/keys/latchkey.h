/* A latch's key: a plain string with how often it has still to be counted down. No key, or a number
 * that is 0 or less, is an open latch: DECR by hand counts down too.
 *
 * The one file that reads and writes this key; each write announces itself (effects.h).
 */
#ifndef LOCK_LATCHKEY_H
#define LOCK_LATCHKEY_H

#include <stdint.h>

#include "keys/keynames.h"
#include "redismodule.h"
#include "server/reply.h"

/* The end of a key that has no TTL. */
#define LATCHKEY_NO_END INT64_MAX

enum latchkeyState {
    LATCHKEY_OPEN,
    LATCHKEY_SHUT,
    LATCHKEY_WRONG_TYPE, /* no string */
    LATCHKEY_NO_NUMBER,  /* a string that INCR would refuse */
    LATCHKEY_IN_USE      /* it cannot be written to now: keynamesIsInUse */
};

struct latchkey {
    RedisModuleCtx *ctx;
    RedisModuleString *name; /* the caller's */
    RedisModuleKey *key;
    enum latchkeyState state;
    int64_t count;  /* what is left, of LATCHKEY_SHUT */
    int64_t end_ms; /* when the key expires, unix ms, or LATCHKEY_NO_END */
};

/* Opens the key in the selected database. Always to be closed. */
void latchkeyOpen(struct latchkey *latch, RedisModuleCtx *ctx, RedisModuleString *name,
                  enum keyAccess access);
void latchkeyClose(struct latchkey *latch);

/* How a command ends for which the latch must be open or shut: RESULT_DONE if it is. */
enum result latchkeyCheck(const struct latchkey *latch);

/* The key has this count from now on, and expires at `end_ms`; of 0 there is no key. The latch is
 * open or shut. */
void latchkeySet(struct latchkey *latch, int64_t count, int64_t end_ms);

/* Counts down, 0 at the least, where the key goes; its TTL stays. Returns what is left. The latch
 * is open or shut. */
int64_t latchkeyDown(struct latchkey *latch, int64_t by);

#endif
