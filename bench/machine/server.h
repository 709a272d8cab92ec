/* A server of this run's own: on the loopback, on a free port, in a folder of its own, dead when
 * we are. */

#ifndef BENCH_MACHINE_SERVER_H
#define BENCH_MACHINE_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <hiredis/hiredis.h>

#include "base/base.h"

typedef struct ServerOptions {
    bool module;         /* load the module */
    bool aof;            /* append-only file, synced every second */
    bool callgrind;      /* run under valgrind: fifty times slower, every instruction counted */
    bool apart;          /* on another CPU than this process: see affinity.h */
    bool anywhere;       /* on all CPUs, this process's too */
    unsigned io_threads; /* the server's `io-threads`; 0 = its default, none */
    unsigned clients;    /* the most connections it must take; 0 = the server's own default */
} ServerOptions;

typedef struct Server {
    pid_t pid;
    int port;
    char folder[300];
    redisContext *control; /* a connection for questions about the server, none of the load's */
    unsigned counts;       /* how often its instructions have been asked for */
    struct Server *next;   /* of those alive, to be killed when the run fails */
} Server;

/* Returns when the server answers. Dies, showing the end of its log, when it does not. */
Server *serverStart(const Options *options, const ServerOptions *wanted);

/* Kills it and frees `server`. */
void serverStop(Server *server);

/* A new connection; dies when there is none. The caller frees it. */
redisContext *serverConnect(const Server *server);

/* The next reply on the connection; dies if it is lost. The caller frees it. */
redisReply *serverReply(redisContext *connection);

/* Lets this process, and the servers started from now on, have `count` open connections if the
 * system allows; returns how many it may have. */
unsigned serverRaiseLimit(unsigned count);

#endif
