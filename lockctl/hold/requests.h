/* The commands that acquire, renew, watch and release the lock of a wish. `words` is overwritten;
 * its texts belong to the wish. */
#ifndef LOCKCTL_REQUESTS_H
#define LOCKCTL_REQUESTS_H

#include "base/words.h"
#include "hold/wish.h"

/* Requests the lock with a lease of `lease_ms`; 0: binds it to the connection. Waits at the server
 * for up to `block_ms`: 0 = does not wait, -1 = no limit. */
void requestAcquire(struct words *words, const struct wish *wish, int64_t lease_ms,
                    int64_t block_ms);

/* Starts a new lease of `lease_ms` now; 0: binds the hold to this connection. */
void requestRenew(struct words *words, const struct wish *wish, int64_t lease_ms);

/* Releases the lock, or, if `keep_ms` is above 0, makes it end that much later by its lease. */
void requestRelease(struct words *words, const struct wish *wish, int64_t keep_ms);

/* Ends the wait. */
void requestCancel(struct words *words, const struct wish *wish);

/* Waits until the lock is lost. */
void requestWatch(struct words *words, const struct wish *wish);

/* Requests the holders. */
void requestInfo(struct words *words, const struct wish *wish);

/* Whether the reply to requestAcquire contains a fencing token. */
bool requestIsFenced(const struct wish *wish);

#endif
