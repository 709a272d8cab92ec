/* Calls a function at the end of each iteration of the server's event loop, just before the server
 * writes replies and sleeps. At that time, all changes by the commands of the iteration are in the
 * replication stream, and all acknowledgements of replicas that have arrived are known.
 *
 * As long as there is no watch, the server calls no function here.
 */
#ifndef LOCK_LOOP_H
#define LOCK_LOOP_H

#include <stdbool.h>

#include "redismodule.h"

/* This function is called in a server event. It may unblock clients and replicate. It must not
 * write keys. It must not end the watch either, because Redis 7.0 reads the subscription once more
 * after the call. */
typedef void (*loopCall)(RedisModuleCtx *ctx);

/* Begins the watch. From now on `call` is called in each iteration. There is only one watch at a
 * time. */
void loopWatch(RedisModuleCtx *ctx, loopCall call);

/* Ends the watch. Must not be called in a server event. */
void loopForget(RedisModuleCtx *ctx);

/* Whether there is a watch. */
bool loopIsWatched(void);

/* Whether the call of this iteration has been made already, or may have been. After the call the
 * server may still run commands that clients have pipelined behind a command that blocked. The next
 * iteration begins only when something happens, so a caller that cannot wait for it must wake the
 * server. */
bool loopHasCalled(void);

#endif
