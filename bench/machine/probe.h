/* What a running server has used so far. */

#ifndef BENCH_MACHINE_PROBE_H
#define BENCH_MACHINE_PROBE_H

#include "machine/server.h"

/* CPU time of all of its threads, as the scheduler counts it. Waits a moment first: the scheduler
 * books a thread's time when it leaves the CPU, and the server is still on its way to sleep after
 * its last reply. */
uint64_t probeCpuNs(const Server *server);

/* `used_memory`, once it no longer changes: tables that are being resized have settled. */
uint64_t probeMemory(const Server *server);

/* The number of that name in INFO, also of a module's section; dies when there is none. */
uint64_t probeCounter(const Server *server, const char *field);

/* Name and version, such as "Redis 7.0.15". */
void probeVersion(const Server *server, char *text, size_t size);

#endif
