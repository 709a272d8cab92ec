/* Redirections of clients that wait for a key whose slot another node serves now.
 *
 * The server is queried only once for many keys. Call redirectFind for each key, and redirectForget
 * after the last one.
 */
#ifndef LOCK_REDIRECT_H
#define LOCK_REDIRECT_H

#include <stdbool.h>

#include "redismodule.h"

/* The error text for a client that waits for this key, which this node no longer serves. It is
 * MOVED if another node serves the slot, and ASK if the slot is being moved and the key has already
 * moved. NULL if that cannot be determined. In that case the client receives TRYAGAIN; when it
 * retries, the server itself replies. The text is valid until the next call of a function of
 * this file. */
RedisModuleString *redirectFind(RedisModuleCtx *ctx, RedisModuleString *name);

/* Forgets the result of the query. To be called when all clients have been redirected, because
 * later the slot may be served by another node. */
void redirectForgetAll(void);
extern bool redirect_has_asked; /* only for redirectForget */
static inline void redirectForget(void) {
    if (redirect_has_asked) {
        redirectForgetAll();
    }
}

#endif
