/* The key of a latch. It is a plain string that contains how many times the latch must still be
 * counted down. The latch is open if the key does not exist, or if the number is 0 or less. Another
 * client may count down with DECR, so the number may be negative.
 *
 * Only this file reads and writes this key. Each write is propagated (propagate.h).
 */
#ifndef LOCK_LATCHKEY_H
#define LOCK_LATCHKEY_H

#include <stdint.h>

#include "common/reply.h"
#include "keys/keynames.h"
#include "redismodule.h"

/* The end of a key that has no TTL. */
#define LATCHKEY_NO_END INT64_MAX

enum latchkeyState {
    LATCHKEY_OPEN,
    LATCHKEY_SHUT,
    LATCHKEY_WRONG_TYPE, /* not a string */
    LATCHKEY_NO_NUMBER,  /* a string that INCR would refuse */
    LATCHKEY_IN_USE      /* the key cannot be written to now (see keynamesIsInUse) */
};

struct latchkey {
    RedisModuleCtx *ctx;
    RedisModuleString *name; /* belongs to the caller */
    RedisModuleKey *key;
    enum latchkeyState state;
    int64_t count;  /* for LATCHKEY_SHUT, how many times it must still be counted down */
    int64_t end_ms; /* when the key expires, unix ms, or LATCHKEY_NO_END */
};

/* Opens the key in the selected database. Always to be closed with latchkeyClose. */
void latchkeyOpen(struct latchkey *latch, RedisModuleCtx *ctx, RedisModuleString *name,
                  enum keyAccess access);
void latchkeyClose(struct latchkey *latch);

/* The result of a command that needs an open or a shut latch. RESULT_DONE if the key is one;
 * otherwise RESULT_WRONG_TYPE, RESULT_KEY_IN_USE, or RESULT_NO_LATCH for LATCHKEY_NO_NUMBER. */
enum result latchkeyCheck(const struct latchkey *latch);

/* Sets the count, and makes the key expire at `end_ms`, unix ms, or never for LATCHKEY_NO_END. A
 * count of 0 deletes the key. The latch must be open or shut. */
void latchkeySet(struct latchkey *latch, int64_t count, int64_t end_ms);

/* Counts down by `by`, but not below 0. At 0 the key is deleted. The TTL does not change. Returns
 * the new count. The latch must be open or shut. */
int64_t latchkeyDown(struct latchkey *latch, int64_t by);

#endif
