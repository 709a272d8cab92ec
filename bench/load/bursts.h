/* The load of many clients that each send a burst of requests at once and read its replies, all at
 * the same time: what a server with many busy connections does. */

#ifndef BENCH_LOAD_BURSTS_H
#define BENCH_LOAD_BURSTS_H

#include "load/load.h"

typedef struct Bursts {
    unsigned clients;
    unsigned depth;          /* how often a client sends the requests in one burst */
    const char *requests[2]; /* by template.h; {key} and {owner} are the client's */
} Bursts;

/* One time: a burst of each client, and all its replies. */
extern const LoadKind burstsKind;

/* Requests in one time. */
unsigned burstsRequests(const Bursts *bursts);

#endif
