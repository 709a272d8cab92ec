/* A load: work that a server can be made to repeat, so that it can be timed, counted and compared
 * with another load. The kind of load (requests one after another, a lock handed off in a crowd) is
 * defined by its three functions. */

#ifndef BENCH_LOAD_LOAD_H
#define BENCH_LOAD_LOAD_H

#include "machine/server.h"

/* What is the same for every load of a comparison. */
typedef struct Conditions {
    bool aof;       /* with the append-only file */
    bool apart;     /* the servers on a CPU other than the client's: see affinity.h */
    bool alone;     /* one server after another, not alternating: too many connections at once */
    unsigned depth; /* requests sent before the first reply is read; 0 is 1; ignored by crowds */
} Conditions;

typedef struct LoadKind {
    /* Connects and prepares; returns the session, which is the argument of the next two. */
    void *(*open)(const Server *server, const void *what, const Conditions *conditions);
    /* Does the work `times` times and returns when the server has replied to everything. */
    void (*run)(void *session, unsigned times);
    void (*close)(void *session);
} LoadKind;

typedef struct Load {
    const char *name;
    ServerOptions server;
    const LoadKind *kind;
    const void *what; /* a Requests, a Handoff, …: what `kind` expects */
} Load;

#endif
