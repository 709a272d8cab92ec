/* The commands by which a wish is asked for, kept, watched and given back. `words` is overwritten; its
 * texts are the wish's. */
#ifndef LOCKCTL_REQUESTS_H
#define LOCKCTL_REQUESTS_H

#include "base/words.h"
#include "hold/wish.h"

/* Asks for it, and waits at the server for up to `block_ms`: 0 = not at all, -1 = for ever. */
void requestAcquire(struct words *words, const struct wish *wish, int64_t block_ms);

/* A new lease from now on, or the binding to this connection. */
void requestRenew(struct words *words, const struct wish *wish);

void requestRelease(struct words *words, const struct wish *wish);

/* Ends the wait. */
void requestCancel(struct words *words, const struct wish *wish);

/* Waits until it is lost. */
void requestWatch(struct words *words, const struct wish *wish);

/* Who holds it. */
void requestInfo(struct words *words, const struct wish *wish);

/* Whether an answer to requestAcquire has a fencing token in it. */
bool requestIsFenced(const struct wish *wish);

#endif
