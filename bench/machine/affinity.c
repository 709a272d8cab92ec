/* CPU affinity. If it may not be set, the run continues without it, and its figures are less
 * steady. */

#define _GNU_SOURCE

#include <sched.h>

#include "machine/affinity.h"

static cpu_set_t all;    /* the CPUs that this process may use */
static cpu_set_t others; /* the same without the one that it runs on */

void affinityTogether(void) {
    cpu_set_t own;
    int cpu = sched_getcpu();
    if (cpu < 0 || sched_getaffinity(0, sizeof(all), &all) == -1) {
        return;
    }
    others = all;
    CPU_CLR((size_t)cpu, &others);
    CPU_ZERO(&own);
    CPU_SET((size_t)cpu, &own);
    sched_setaffinity(0, sizeof(own), &own);
}

void affinityApart(void) {
    sched_setaffinity(0, sizeof(others), &others);
}

void affinityAnywhere(void) {
    sched_setaffinity(0, sizeof(all), &all);
}

bool affinityHasAnother(void) {
    return CPU_COUNT(&others) > 0;
}
