/* A load: something that a server can be made to do over and over, so that it can be timed,
 * counted and set against another. What kind of load it is (requests one after another, a lock
 * handed off in a crowd) only its three functions know. */

#ifndef BENCH_LOAD_LOAD_H
#define BENCH_LOAD_LOAD_H

#include "machine/server.h"

/* What is the same for every load of a comparison. */
typedef struct Conditions {
    bool aof;   /* with the append-only file */
    bool apart; /* the servers on another CPU than the client: see affinity.h */
    bool alone; /* one server after another, not in turns: too many connections for all at once */
    unsigned depth; /* requests sent before the first reply is read; 0 is 1; crowds ignore it */
} Conditions;

typedef struct LoadKind {
    /* Connects and prepares; the session that it returns is the next two's argument. */
    void *(*open)(const Server *server, const void *what, const Conditions *conditions);
    /* Does it `times` times and returns when the server has answered everything. */
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
