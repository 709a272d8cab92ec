/* Whether the server has stood still, or is as slow as if it had: then it does not know which
 * replicas it has.
 *
 * By min-replicas-to-write a master that has lost its replicas refuses writes. It counts them once
 * a second, by its cron, and believes that count until the next one. When it has been stopped, or
 * its machine has been, or a command has kept it busy, that second was a long one: the replicas may
 * have another master by now, and the first commands that it reads are served by the old count.
 *
 * All times are unix ms, as that is what leases end by. */
#ifndef LOCK_STANDSTILL_H
#define LOCK_STANDSTILL_H

#include <stdbool.h>
#include <stdint.h>

/* What was before `now_ms` does not matter. */
void standstillBegin(int64_t now_ms);

/* The server's cron, which is called `hz` times a second as a rule, has done its work. */
void standstillCron(int64_t now_ms, int hz);

/* A second, and as much again for a machine that others use too. */
#define STANDSTILL_MS 2000

/* Whether the server may have counted its replicas more than STANDSTILL_MS before `now_ms`. */
bool standstillAt(int64_t now_ms);

#endif
