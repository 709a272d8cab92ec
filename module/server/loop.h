/* The turns of the server's event loop: what is called at the end of each, just before the server
 * writes replies and sleeps. By then whatever the turn's commands have changed is in the stream to
 * the replicas, and what replicas have acknowledged is known.
 *
 * The server calls for nothing as long as nobody watches.
 */
#ifndef LOCK_LOOP_H
#define LOCK_LOOP_H

#include <stdbool.h>

#include "redismodule.h"

/* Called in an event of the server's: it may unblock clients and replicate, but not write keys, nor
 * end the watch, as Redis 7.0 looks at it once more afterwards. */
typedef void (*loopCall)(RedisModuleCtx *ctx);

/* `call` is called in each turn from now on. */
void loopWatch(RedisModuleCtx *ctx, loopCall call);

/* No more; not in a server event. */
void loopForget(RedisModuleCtx *ctx);

bool loopIsWatched(void);

/* Whether this turn's call has been made already, or may have been: the server still runs what
 * clients have sent behind a command that blocked. Who cannot wait until the next turn, which comes
 * when something happens, has the server woken. */
bool loopHasCalled(void);

#endif
