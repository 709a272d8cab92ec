/* The iterations of the server's event loop: a call at the end of each, just before the server
 * writes replies and sleeps. By then all that the commands of the iteration have changed is in the
 * replication stream, and the acknowledgements of replicas that have arrived are known.
 *
 * The server calls nothing as long as there is no watch.
 */
#ifndef LOCK_LOOP_H
#define LOCK_LOOP_H

#include <stdbool.h>

#include "redismodule.h"

/* Called in a server event: it may unblock clients and replicate, but it may not write keys, nor
 * end the watch, because Redis 7.0 reads the subscription once more after the call. */
typedef void (*loopCall)(RedisModuleCtx *ctx);

/* Begins the watch: `call` is called in each iteration from now on. There is one watch at a
 * time. */
void loopWatch(RedisModuleCtx *ctx, loopCall call);

/* Ends the watch. Not in a server event. */
void loopForget(RedisModuleCtx *ctx);

/* Whether there is a watch. */
bool loopIsWatched(void);

/* Whether the call of this iteration has been made already, or may have been: the server still runs
 * what clients have pipelined behind a command that blocked. A caller that cannot wait for the next
 * iteration, which comes when something happens, has to wake the server. */
bool loopHasCalled(void);

#endif
