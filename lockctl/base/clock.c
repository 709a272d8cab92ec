/* See clock.h. */
#include "base/clock.h"

#include <sys/random.h>
#include <time.h>

int64_t clockNow(void) {
    struct timespec now;
#ifdef CLOCK_BOOTTIME
    clock_gettime(CLOCK_BOOTTIME, &now);
#else
    clock_gettime(CLOCK_MONOTONIC, &now);
#endif
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t clockRandom(int64_t most) {
    uint32_t drawn = 0;
    if (getentropy(&drawn, sizeof(drawn)) != 0) {
        drawn = (uint32_t)clockNow() * 2654435761U;
    }
    return (int64_t)(drawn % ((uint64_t)most + 1));
}
