/* The time until which a lease can be relied on. */
#ifndef LOCKCTL_LEASE_H
#define LOCKCTL_LEASE_H

#include <stdint.h>

#include "hold/wish.h"

/* Returns when a lease of `lease_ms` that was requested at `asked_ms`, by clockNow, may expire by
 * the server's clock. The two clocks may drift apart by one percent, and two milliseconds are for
 * their granularity. */
int64_t leaseEnd(int64_t asked_ms, int64_t lease_ms);

/* Returns how long before the end of the lease the user of the holder is notified that it could not
 * be renewed: `grace_ms`, for an orderly end, but at most a third of the lease. */
int64_t leaseNotice(int64_t lease_ms, int64_t grace_ms);

/* Returns how long a lock that was acquired at `acquired_ms`, by clockNow, must still be kept: the
 * rest of `at_least_ms`, or 0. */
int64_t leaseLeft(const struct wish *wish, int64_t acquired_ms);

/* Returns the length of the lease to request now: that of the wish, or leaseLeft if that is longer.
 * So the lock is kept long enough whatever happens to this process, and no request that is executed
 * late makes it end sooner. 0: no lease, a session. */
int64_t leaseWanted(const struct wish *wish, int64_t acquired_ms);

#endif
