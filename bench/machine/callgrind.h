/* Instructions instead of time: a figure that other processes on the machine do not change. */

#ifndef BENCH_MACHINE_CALLGRIND_H
#define BENCH_MACHINE_CALLGRIND_H

#include "machine/server.h"

/* True if valgrind can be run. */
bool callgrindAvailable(void);

/* From now on the instructions of this server, started with `callgrind`, are counted. To be called
 * once. */
void callgrindStart(const Server *server);

/* How many instructions the server has run since callgrindStart or the last call of this. */
uint64_t callgrindCounted(Server *server);

#endif
