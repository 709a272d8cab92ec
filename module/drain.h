/* Working off what outside events have noted: due locks, and grants whose clients died.
 *
 * Runs from the alarm's timer, the only place outside a client's command where the module writes.
 */
#ifndef LOCK_DRAIN_H
#define LOCK_DRAIN_H

#include "redismodule.h"

/* Works the notes off, or sets the alarm to try again when the server may not be written to yet.
 * For alarmConnect. */
void drainRun(RedisModuleCtx *ctx);

#endif
