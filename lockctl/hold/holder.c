/* See holder.h. */
#include "hold/holder.h"

#include "base/memory.h"
#include "hold/redlock.h"
#include "hold/single.h"

struct holder *holderNew(struct event_base *base, const struct url *urls, size_t count,
                         const struct wish *wish, int64_t grace_ms, const struct holderWatch *watch,
                         void *arg, char **why) {
    if (count == 1) {
        return singleNew(base, urls, wish, grace_ms, watch, arg, why);
    }
    return redlockNew(base, urls, count, wish, grace_ms, watch, arg, why);
}

void holderFree(struct holder *holder) {
    holder->free(holder);
}

void holderBegin(struct holder *holder) {
    holder->begin(holder);
}

void holderEnd(struct holder *holder, enum holderEnd how) {
    holder->end(holder, how);
}
