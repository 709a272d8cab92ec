/* The load of many clients. All of them at the same time send a burst of requests each and read the
 * replies: what a server with many busy connections handles. */

#ifndef BENCH_LOAD_BURSTS_H
#define BENCH_LOAD_BURSTS_H

#include "load/load.h"

typedef struct Bursts {
    unsigned clients;
    unsigned depth;          /* how often a client sends the requests in one burst */
    const char *requests[2]; /* see template.h; {key} and {owner} are the client's */
} Bursts;

/* One time: a burst by each client, and all replies to it. */
extern const LoadKind burstsKind;

/* Requests in one time. */
unsigned burstsRequests(const Bursts *bursts);

#endif
