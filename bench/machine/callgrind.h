/* Instructions instead of time: the figure that no neighbour on the machine moves. */

#ifndef BENCH_MACHINE_CALLGRIND_H
#define BENCH_MACHINE_CALLGRIND_H

#include "machine/server.h"

/* True if valgrind can be run. */
bool callgrindAvailable(void);

/* From now on the instructions of this server, started with `callgrind`, are counted. To be called
 * once. */
void callgrindStart(const Server *server);

/* How many it has run since callgrindStart or the last call of this. */
uint64_t callgrindCounted(Server *server);

#endif
