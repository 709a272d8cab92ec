/* What a running server has used so far. */

#ifndef BENCH_MACHINE_PROBE_H
#define BENCH_MACHINE_PROBE_H

#include "machine/server.h"

/* CPU time of all threads of the server, as the scheduler counts it. Waits a moment first: the
 * scheduler counts a thread's time when the thread leaves the CPU, and after its last reply the
 * server still runs until it sleeps. */
uint64_t probeCpuNs(const Server *server);

/* `used_memory`, once it no longer changes: resizing of tables has finished. */
uint64_t probeMemory(const Server *server);

/* The number of that name in INFO, also in a module's section; ends the run if there is none. */
uint64_t probeCounter(const Server *server, const char *field);

/* Name and version, such as "Redis 7.0.15". */
void probeVersion(const Server *server, char *text, size_t size);

#endif
