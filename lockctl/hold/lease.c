/* See lease.h. */
#include "hold/lease.h"

#define DRIFT_PERCENT 1
#define GRAIN_MS 2

int64_t leaseEnd(int64_t asked_ms, int64_t lease_ms) {
    return asked_ms + lease_ms - lease_ms * DRIFT_PERCENT / 100 - GRAIN_MS;
}

int64_t leaseNotice(int64_t lease_ms, int64_t grace_ms) {
    int64_t third = lease_ms / 3;
    return grace_ms < third ? grace_ms : third;
}
