/* The time until which a lease can be relied on. */
#ifndef LOCKCTL_LEASE_H
#define LOCKCTL_LEASE_H

#include <stdint.h>

/* Returns when a lease of `lease_ms` that was requested at `asked_ms`, by clockNow, may expire by
 * the server's clock. The two clocks may drift apart by one percent, and two milliseconds are for
 * their granularity. */
int64_t leaseEnd(int64_t asked_ms, int64_t lease_ms);

/* Returns how long before the end of the lease the user of the holder is notified that it could not
 * be renewed: `grace_ms`, for an orderly end, but at most a third of the lease. */
int64_t leaseNotice(int64_t lease_ms, int64_t grace_ms);

#endif
