/* On which CPU the benchmark and its servers run.
 *
 * Waking a thread on another CPU costs more than a whole SET, in a virtual machine five times as
 * much, and where the scheduler puts which server is luck. On one CPU nobody pays it, and since a
 * client that waits for its server's reply does nothing, nobody waits longer. What is lost is that
 * a server on a CPU of its own also has that CPU's caches to itself; where that counts, a load can
 * ask for it. */

#ifndef BENCH_MACHINE_AFFINITY_H
#define BENCH_MACHINE_AFFINITY_H

#include <stdbool.h>

/* Keeps this process, and the servers started from now on, on the CPU that it is on. To be called
 * once. */
void affinityTogether(void);

/* Moves the calling process, a server to be, to another CPU. */
void affinityApart(void);

/* Lets the calling process, a server to be, run on every CPU that this one was started with. */
void affinityAnywhere(void);

/* True if there is another CPU. */
bool affinityHasAnother(void);

#endif
