/* The clock, and random pauses. */
#ifndef LOCKCTL_CLOCK_H
#define LOCKCTL_CLOCK_H

#include <stdint.h>

/* The time in milliseconds, for deadlines and durations. The clock cannot be set, and it also
 * counts while the machine is suspended, as a lease does. */
int64_t clockNow(void);

/* A random number from 0 to `most`, for pauses. */
int64_t clockRandom(int64_t most);

#endif
