/* See timeslice.h.
 *
 * A time slice is to stay below a millisecond. What was replicated and replied in it is sent after
 * it. That takes about as long again, and is not counted here unless it is charged.
 */
#include "server/timeslice.h"

#include <stddef.h>
#include <stdint.h>

#include "redismodule.h"

#define MOST_US 600

/* The clock is read once for this many pieces of work. */
#define PIECES_A_LOOK 16

static struct {
    unsigned depth;
    unsigned pieces;
    uint64_t end_us;
    uint64_t charged_us;
    bool over;
} timeslice;

void timesliceBegin(void) {
    if (timeslice.depth++ == 0) {
        timeslice.pieces = 1; /* the first piece is done, however late it is */
        timeslice.end_us = RedisModule_MonotonicMicroseconds() + MOST_US;
        timeslice.charged_us = 0;
        timeslice.over = false;
    }
}

void timesliceEnd(void) {
    RedisModule_Assert(timeslice.depth > 0);
    timeslice.depth--;
}

bool timesliceHasBegun(void) {
    return timeslice.depth > 0;
}

void timesliceCharge(unsigned us) {
    timeslice.charged_us += us;
}

void timeslicePieceIsLong(void) {
    timeslice.pieces = 0;
}

bool timesliceHasEndedByClock(void) {
    timeslice.over = timeslice.over ||
                     RedisModule_MonotonicMicroseconds() + timeslice.charged_us >= timeslice.end_us;
    return timeslice.over;
}

bool timesliceHasEnded(void) {
    return timeslice.pieces++ % PIECES_A_LOOK == 0 ? timesliceHasEndedByClock() : timeslice.over;
}
