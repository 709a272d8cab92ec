/* Whether the server has been stalled, or is as slow as if it had been: then it does not know which
 * replicas it has.
 *
 * With min-replicas-to-write a master that has lost its replicas refuses writes. It counts them
 * once a second, in its cron, and relies on that count until the next one. If the process or its
 * machine was stopped, or a command took long, the next count is late: the replicas may have
 * another master by now, and the first commands that the server reads are executed with the old
 * count.
 *
 * All times are unix ms, as are the ends of leases. */
#ifndef LOCK_STALL_H
#define LOCK_STALL_H

#include <stdbool.h>
#include <stdint.h>

/* Begins at `now_ms`: what was before does not count. */
void stallBegin(int64_t now_ms);

/* To be called after each run of the server's cron, of which there are `hz` a second as a rule. */
void stallCron(int64_t now_ms, int hz);

/* One second, and another one for a machine that is shared. */
#define STALL_MS 2000

/* Whether the server may have counted its replicas more than STALL_MS before `now_ms`. */
bool stallAt(int64_t now_ms);

#endif
