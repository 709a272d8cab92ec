/* Instructions instead of time: the figure that no neighbour on the machine moves. */

#ifndef BENCH_CALLGRIND_H
#define BENCH_CALLGRIND_H

#include "load.h"

/* True if valgrind can be run. */
bool callgrindAvailable(void);

/* Instructions that the server runs for one time of the load. */
double callgrindCount(const Options *options, const Load *load, const ServerOptions *wanted,
                      const Conditions *conditions, unsigned times);

#endif
