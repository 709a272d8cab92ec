/* CPU affinity. Where it may not be set, the run goes on without: its figures are less steady,
 * that is all. */

#define _GNU_SOURCE

#include <sched.h>

#include "machine/affinity.h"

static cpu_set_t others; /* those that we may use, without our own */

void affinityTogether(void) {
    cpu_set_t own;
    int cpu = sched_getcpu();
    if (cpu < 0 || sched_getaffinity(0, sizeof(others), &others) == -1) {
        return;
    }
    CPU_CLR((size_t)cpu, &others);
    CPU_ZERO(&own);
    CPU_SET((size_t)cpu, &own);
    sched_setaffinity(0, sizeof(own), &own);
}

void affinityApart(void) {
    sched_setaffinity(0, sizeof(others), &others);
}

bool affinityHasAnother(void) {
    return CPU_COUNT(&others) > 0;
}
