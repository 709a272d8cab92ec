/* See turn.h.
 *
 * A time slice is to stay below a millisecond. What was replicated and replied in it is sent after
 * it. That takes about as long again, and is not counted here unless it is charged.
 */
#include "server/turn.h"

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
} turn;

void turnBegin(void) {
    if (turn.depth++ == 0) {
        turn.pieces = 1; /* the first piece is done, however late it is */
        turn.end_us = RedisModule_MonotonicMicroseconds() + MOST_US;
        turn.charged_us = 0;
        turn.over = false;
    }
}

void turnEnd(void) {
    RedisModule_Assert(turn.depth > 0);
    turn.depth--;
}

bool turnHasBegun(void) {
    return turn.depth > 0;
}

void turnCharge(unsigned us) {
    turn.charged_us += us;
}

void turnPieceIsLong(void) {
    turn.pieces = 0;
}

bool turnIsOverByClock(void) {
    turn.over = turn.over || RedisModule_MonotonicMicroseconds() + turn.charged_us >= turn.end_us;
    return turn.over;
}

bool turnIsOver(void) {
    return turn.pieces++ % PIECES_A_LOOK == 0 ? turnIsOverByClock() : turn.over;
}
