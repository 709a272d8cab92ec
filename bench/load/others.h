/* Keys of others, that expire while something is measured. */

#ifndef BENCH_LOAD_OTHERS_H
#define BENCH_LOAD_OTHERS_H

#include "machine/server.h"

enum { OTHERS = 5000 };

/* Sets so many keys, which expire one after the other all through the next `ms`. */
void othersSet(const Server *server, unsigned ms);

#endif
