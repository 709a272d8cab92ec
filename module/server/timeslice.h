/* Time slices: how long the module may keep the server to itself, in one command or one run of a
 * timer.
 *
 * Code that works through a list that may be long begins a time slice, asks after each piece of
 * work whether it has ended, and leaves the rest to the drain. Time slices nest: a grant pass
 * inside the drain is part of the drain's time slice, and does not have one of its own.
 */
#ifndef LOCK_TIMESLICE_H
#define LOCK_TIMESLICE_H

#include <stdbool.h>

/* Begins a time slice, or joins the current one. To be ended with timesliceEnd. */
void timesliceBegin(void);

/* Ends what the last timesliceBegin has begun. */
void timesliceEnd(void);

/* Whether a time slice has begun. Only then timesliceHasEnded and timesliceHasEndedByClock may be
 * called. */
bool timesliceHasBegun(void);

/* Adds `us` to the time used: what has just been done costs the server that much more after the
 * time slice. This is for a reply that is to be written, next to which the work in the time slice
 * is small. */
void timesliceCharge(unsigned us);

/* The current piece of work may take long: the next timesliceHasEnded reads the clock. For work
 * that is one piece among others in a loop elsewhere, such as a grant of a thousand keys. */
void timeslicePieceIsLong(void);

/* Whether the time slice has used up its time, so that other clients are to be served first. To be
 * called after each piece of work, of some µs, within a time slice. Reads the clock only at some of
 * the calls. */
bool timesliceHasEnded(void);

/* The same, after a piece of work that may have been long: reads the clock at each call. */
bool timesliceHasEndedByClock(void);

#endif
