/* What the end of a reader's lease costs, by how many read. */

#ifndef BENCH_LEASEENDS_H
#define BENCH_LEASEENDS_H

#include "bench.h"

/* Prints the rows. `target` is of the ratio of a lock with many readers to locks with few. */
void leaseendsCompare(const Options *options, double target);

#endif
