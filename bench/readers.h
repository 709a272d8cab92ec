/* Who reads in the measurements of read-write locks: 10,000 owners on one lock, or ten on each of as
 * many locks as are wanted. */

#ifndef BENCH_READERS_H
#define BENCH_READERS_H

#include "requests.h"

/* Nobody's lease ends unless it is to. */
#define READERS_HOUR " PX 3600000"

enum {
    READERS_MANY = 10000,
    READERS_FEW = 10,
};

/* Steps that prepare: the first, READERS_MANY times, fills `lock`; the second, N times, fills the
 * first N of {key}. Their owners begin with `r` and with digits. */
extern const Step readersOnOne[];
extern const Step readersOnEach[];

#endif
