/* Time. */
#ifndef LOCKCTL_CLOCK_H
#define LOCKCTL_CLOCK_H

#include <stdint.h>

/* For deadlines and durations, in milliseconds: by a clock that nobody sets, and which goes on while the
 * machine is suspended, as a lease does. */
int64_t clockNow(void);

/* A random number from 0 to `most`, for pauses. */
int64_t clockRandom(int64_t most);

#endif
