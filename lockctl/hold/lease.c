/* See lease.h. */
#include "hold/lease.h"

#include "base/clock.h"

#define DRIFT_PERCENT 1
#define GRAIN_MS 2

int64_t leaseEnd(int64_t asked_ms, int64_t lease_ms) {
    return asked_ms + lease_ms - lease_ms * DRIFT_PERCENT / 100 - GRAIN_MS;
}

int64_t leaseNotice(int64_t lease_ms, int64_t grace_ms) {
    int64_t third = lease_ms / 3;
    return grace_ms < third ? grace_ms : third;
}

int64_t leaseLeft(const struct wish *wish, int64_t acquired_ms) {
    int64_t left_ms = wish->at_least_ms - (clockNow() - acquired_ms);
    return left_ms > 0 ? left_ms : 0;
}

int64_t leaseWanted(const struct wish *wish, int64_t acquired_ms) {
    int64_t left_ms = leaseLeft(wish, acquired_ms);
    return wish->lease_ms > left_ms ? wish->lease_ms : left_ms;
}
