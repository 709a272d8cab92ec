/* The holds of a plain lock. Called by holds.c, which says what each function means; all but
 * plainholdsTake need the shape HOLDS_PLAIN. */
#ifndef LOCK_PLAINHOLDS_H
#define LOCK_PLAINHOLDS_H

#include "keys/holds.h"

/* The lock may be free. */
int64_t plainholdsTake(struct holds *holds, const struct holdsRequest *request);
int64_t plainholdsLengthen(struct holds *holds, const struct holdsRequest *request);
int64_t plainholdsRelease(struct holds *holds, RedisModuleString *owner);
int64_t plainholdsRenew(struct holds *holds, RedisModuleString *owner, int64_t lease_ms);

void plainholdsEach(struct holds *holds, void (*visit)(const struct holder *holder, void *context),
                    void *context);

#endif
