/* The load of one client that repeats the same few requests, each time for the next of several
 * keys. */

#ifndef BENCH_LOAD_REQUESTS_H
#define BENCH_LOAD_REQUESTS_H

#include "load/load.h"

typedef struct Step {
    const char *request; /* template.h lists its placeholders; STEPS_END ends an array of steps */
    const char *reply;   /* the only correct one, "nil" for null; NULL = anything but an error */
} Step;

#define STEPS_END \
    { NULL, NULL }

typedef struct Requests {
    /* Sent before the load, `prepare_times` times, {n} counting from 0; NULL = nothing. */
    const Step *prepare;
    unsigned prepare_times;
    /* One time of the load; {n} counts from 0 to keys - 1, then from 0 again. */
    const Step *steps;
    unsigned keys;  /* 0 = REQUESTS_KEYS */
    unsigned depth; /* instead of the depth in the conditions; 0 = that depth */
} Requests;

enum { REQUESTS_KEYS = 64 };

extern const LoadKind requestsKind;

/* Sends the steps `times` times, pipelined, on a connection of its own, {n} counting from 0. Ends
 * the run on a wrong reply. */
void requestsPrepare(const Server *server, const Step *steps, unsigned times);

#endif
