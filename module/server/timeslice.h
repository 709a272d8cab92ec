/* Time slices limit how long the module keeps the server from serving other clients in one command
 * or one run of a timer.
 *
 * Code that processes a list that may be long begins a time slice, checks after each piece of work
 * whether the time slice has ended, and leaves the rest to the drain. Time slices nest: a grant
 * pass inside the drain is part of the drain's time slice, and does not have one of its own.
 */
#ifndef LOCK_TIMESLICE_H
#define LOCK_TIMESLICE_H

#include <stdbool.h>

/* Begins a time slice, or joins the current one. To be ended with timesliceEnd. */
void timesliceBegin(void);

/* Ends the time slice that the last timesliceBegin has begun, or leaves the one it has joined. */
void timesliceEnd(void);

/* Whether a time slice has begun. timesliceHasEnded and timesliceHasEndedByClock may only be called
 * if one has begun. */
bool timesliceHasBegun(void);

/* Adds `us` to the time used, because the last piece of work costs the server this much more time
 * after the time slice. This is for a reply that the server has to write, which costs much more
 * than the work in the time slice. */
void timesliceCharge(unsigned us);

/* Makes the next timesliceHasEnded read the clock, because the current piece of work may take long.
 * For work that is only one piece in a loop elsewhere, such as a grant of a thousand keys. */
void timeslicePieceIsLong(void);

/* Whether the time of the time slice is used up, so that other clients must be served first. To be
 * called within a time slice, after each piece of work of some µs. Reads the clock only in some of
 * the calls. */
bool timesliceHasEnded(void);

/* As timesliceHasEnded, after a piece of work that may have taken long. Reads the clock in each
 * call. */
bool timesliceHasEndedByClock(void);

#endif
