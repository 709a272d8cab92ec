/* The holds of a plain lock: one field, the owner's, and the key's own TTL as the lease. For holds.c, whose
 * functions of the same names say what these do. */
#ifndef LOCK_PLAINHOLDS_H
#define LOCK_PLAINHOLDS_H

#include <stdint.h>

#include "keys/holds.h"

int64_t plainholdsTake(struct holds *holds, const struct holdsRequest *request);
int64_t plainholdsLengthen(struct holds *holds, const struct holdsRequest *request);
int64_t plainholdsRelease(struct holds *holds, RedisModuleString *owner);
int64_t plainholdsRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms);

#endif
