/* Until when a lease can be relied on. */
#ifndef LOCKCTL_LEASE_H
#define LOCKCTL_LEASE_H

#include <stdint.h>

/* When a lease of `lease_ms`, asked for at `asked_ms` by clockNow, may be over by the server's clock: two
 * clocks may run apart by a hundredth, and two milliseconds are for their grain. */
int64_t leaseEnd(int64_t asked_ms, int64_t lease_ms);

/* So long before its end who holds it is told that it could not be renewed: `grace_ms`, to end in good
 * order, but at most a third of the lease. */
int64_t leaseNotice(int64_t lease_ms, int64_t grace_ms);

#endif
