/* The holds of a plain lock. Called by holds.c; the functions are described in holds.h. All but
 * plainholdsTake need the kind HOLDS_PLAIN. */
#ifndef LOCK_PLAINHOLDS_H
#define LOCK_PLAINHOLDS_H

#include "keys/holds.h"

/* The lock may be free. */
int64_t plainholdsTake(struct holds *holds, const struct holdsGrant *request);
int64_t plainholdsLengthen(struct holds *holds, const struct holdsGrant *request);
int64_t plainholdsRelease(struct holds *holds, RedisModuleString *owner);
int64_t plainholdsRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms);

void plainholdsEach(struct holds *holds, void (*visit)(const struct holder *holder, void *context),
                    void *context);

#endif
