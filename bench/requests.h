/* The load of one client that sends the same few requests over and over, each time for the next of
 * several keys. */

#ifndef BENCH_REQUESTS_H
#define BENCH_REQUESTS_H

#include "load.h"

typedef struct Step {
    const char *request; /* template.h says what may stand in it; NULL ends an array of steps */
    const char *reply;   /* the only right one, "nil" for null; NULL = anything but an error */
} Step;

typedef struct Requests {
    /* Sent before the load, `prepare_times` times, {n} counting from 0; NULL = nothing. */
    const Step *prepare;
    unsigned prepare_times;
    /* One time of the load; {n} goes round from 0 to keys - 1. */
    const Step *steps;
    unsigned keys;  /* 0 = REQUESTS_KEYS */
    unsigned depth; /* instead of the conditions'; 0 = theirs */
} Requests;

enum { REQUESTS_KEYS = 64 };

extern const LoadKind requestsKind;

#endif
