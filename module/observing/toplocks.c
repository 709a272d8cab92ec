/* See toplocks.h. */
#include "observing/toplocks.h"

#include <stdint.h>

#include "redismodule.h"

static struct contention sketch;

static struct contentionEvent eventOf(struct lock *lock, int64_t now_us) {
    return (struct contentionEvent){.name = &lock->key.by_name,
                                    .trail = &lock->trail,
                                    .db = lock->key.db,
                                    .waiting = lock->waiting,
                                    .now_us = now_us};
}

void toplocksBegin(struct lock *lock, const struct waiter *waiter) {
    if (waiter->began_us) {
        lock->waiting++;
        const struct contentionEvent event = eventOf(lock, waiter->began_us);
        contentionBegin(&sketch, &event);
    }
}

/* A grant is a hand-off from earlier holders, so that the time until now is how long they held the
 * lock. Readers that are granted together share one hand-off. Permits do not count: they are
 * released one by one, which does not show how long each was held. */
void toplocksEnd(struct lock *lock, struct position *position, bool granted) {
    const struct waiter *waiter = waiterOfPosition(position);
    if (!waiter->began_us) {
        return;
    }
    bool reads = position->mode == MODE_READ;
    bool is_hand_off = granted && position->mode != MODE_SEMAPHORE && !(reads && lock->read_last);
    lock->read_last = granted ? reads : lock->read_last;
    lock->waiting--;
    const struct contentionEvent event = eventOf(lock, timerNow());
    contentionEnd(&sketch, &event, waiter->began_us, is_hand_off);
}

size_t toplocksNow(struct contentionView *top, size_t count) {
    return contentionTop(&sketch, timerNow(), top, count);
}

void toplocksReset(void) {
    contentionReset(&sketch, timerNow());
}

size_t toplocksMemory(void) {
    return contentionMemory(&sketch);
}

void toplocksFree(void) {
    contentionFree(&sketch);
}
