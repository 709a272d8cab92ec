/* See waiter.h. */
#include "waits/waiter.h"

#include "core/mem.h"

struct waiter *waiterOfPosition(struct position *position) {
    return LIST_ELEMENT(position->request, struct waiter, request);
}

void waiterFree(struct waiter *waiter) {
    for (size_t i = 0; i < waiter->key_count; i++) {
        RedisModule_FreeString(NULL, waiter->keys[i].name);
    }
    RedisModule_FreeString(NULL, waiter->wants.owner);
    memFree(waiter);
}
