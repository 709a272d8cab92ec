/* Working off what has been noted: due locks, grants whose clients died, and waits that are to be
 * searched from.
 *
 * Runs from the alarm's timer, the only position outside a client's command where the module writes.
 */
#ifndef LOCK_DRAIN_H
#define LOCK_DRAIN_H

#include "redismodule.h"

/* Works the notes off, or sets the alarm to try again when the server may not be written to yet.
 * For alarmConnect. */
void drainRun(RedisModuleCtx *ctx);

#endif
