/* How long the module may keep the server to itself: one command, one run of a timer.
 *
 * Whoever works through a list that may be long begins a turn, asks after each piece of work
 * whether the turn is over, and leaves the rest noted for the drain. Turns nest: a grant pass
 * inside the drain is part of the drain's turn, not one of its own.
 */
#ifndef LOCK_TURN_H
#define LOCK_TURN_H

#include <stdbool.h>

/* Begins a turn, or joins the one that has begun. To be ended with turnEnd. */
void turnBegin(void);

/* Ends what the last turnBegin has begun. */
void turnEnd(void);

/* Whether one has begun. Without one nobody asks whether it is over. */
bool turnHasBegun(void);

/* What has just been done costs the server so much more after the turn, and counts as if it had
 * been spent: a reply that is to be written, where the turn's own work is little beside it. */
void turnCharge(unsigned us);

/* The piece of work that is being done may take long: turnIsOver, asked next, looks at the clock. For
 * work that loops elsewhere count among others, as a grant of a thousand keys. */
void turnPieceIsLong(void);

/* To be asked after each piece of work, of some µs, within a turn: whether the turn has used up its
 * time, so that others are to speak first. Looks at the clock only now and then. */
bool turnIsOver(void);

/* Likewise, after a piece of work that may have been long: looks at the clock each time. */
bool turnIsOverByClock(void);

#endif
