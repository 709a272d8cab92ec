/* Whether the server has been stalled, or is as slow as if it had been. In both cases it does not
 * know which replicas it has.
 *
 * With min-replicas-to-write a master that has lost its replicas refuses writes. The server counts
 * its replicas once a second, in its cron, and uses that count until the next one. If the process
 * or its machine was stopped, or a command took long, the next count is late. The replicas may have
 * another master by then, but the server executes the first commands that it reads with the old
 * count.
 *
 * All times are unix ms, as are the ends of leases. */
#ifndef LOCK_STALL_H
#define LOCK_STALL_H

#include <stdbool.h>
#include <stdint.h>

/* Begins at `now_ms`. Times before that are not considered. */
void stallBegin(int64_t now_ms);

/* To be called after each run of the server's cron. Normally the cron runs `hz` times a second. */
void stallCron(int64_t now_ms, int hz);

/* One second between two counts, and another second because the machine may be shared. */
#define STALL_MS 2000

/* Whether the server may have counted its replicas more than STALL_MS before `now_ms`. */
bool stallAt(int64_t now_ms);

#endif
