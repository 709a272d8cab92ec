/* On which CPU the benchmark and its servers run.
 *
 * Waking a thread on another CPU costs more than a whole SET, in a virtual machine five times as
 * much, and on which CPU the scheduler puts a server is random. On one CPU this cost does not
 * occur. Nothing is slower there, because a client that waits for a reply uses no CPU. The
 * drawback: a server on a CPU of its own also has that CPU's caches to itself. A load for which
 * this matters can request it. */

#ifndef BENCH_MACHINE_AFFINITY_H
#define BENCH_MACHINE_AFFINITY_H

#include <stdbool.h>

/* Keeps this process, and the servers started from now on, on the CPU that it runs on. To be
 * called once. */
void affinityTogether(void);

/* Moves the calling process, which will become a server, to another CPU. */
void affinityApart(void);

/* Lets the calling process, which will become a server, run on every CPU that the benchmark was
 * started with. */
void affinityAnywhere(void);

/* True if there is another CPU. */
bool affinityHasAnother(void);

#endif
