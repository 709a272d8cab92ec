/* Unrelated keys that expire during a measurement. */

#ifndef BENCH_LOAD_OTHERS_H
#define BENCH_LOAD_OTHERS_H

#include "machine/server.h"

enum { OTHERS = 5000 };

/* Sets OTHERS keys, which expire one after the other during the next `ms`. */
void othersSet(const Server *server, unsigned ms);

#endif
