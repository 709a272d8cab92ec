/* See loop.h. */
#include "server/loop.h"

#include <stddef.h>
#include <stdint.h>

static struct {
    loopCall call;
    bool has_called;
} loop;

static void loopOnIteration(RedisModuleCtx *ctx, RedisModuleEvent event, uint64_t subevent,
                            void *data) {
    (void)event, (void)data;
    loop.has_called = subevent == REDISMODULE_SUBEVENT_EVENTLOOP_BEFORE_SLEEP;
    if (loop.has_called) {
        loop.call(ctx);
    }
}

static void loopSubscribe(RedisModuleCtx *ctx, RedisModuleEventCallback callback) {
    int subscribed = RedisModule_SubscribeToServerEvent(ctx, RedisModuleEvent_EventLoop, callback);
    RedisModule_Assert(subscribed == REDISMODULE_OK); /* Redis 7.0 and all others have it */
}

void loopWatch(RedisModuleCtx *ctx, loopCall call) {
    RedisModule_Assert(!loop.call);
    loop.call = call;
    loop.has_called = true; /* it is not known whether the call was made */
    loopSubscribe(ctx, loopOnIteration);
}

void loopForget(RedisModuleCtx *ctx) {
    RedisModule_Assert(loop.call);
    loop.call = NULL;
    loopSubscribe(ctx, NULL);
}

bool loopIsWatched(void) {
    return loop.call;
}

bool loopHasCalled(void) {
    return loop.has_called;
}
