/* A server that belongs to this run: on the loopback interface, on a free port, in a folder of its
 * own. It ends when this process ends. */

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
    bool apart;          /* on a CPU other than this process's: see affinity.h */
    bool anywhere;       /* on all CPUs, including this process's */
    unsigned io_threads; /* the server's `io-threads`; 0 = its default, none */
    unsigned clients;    /* the most connections it must take; 0 = the server's own default */
} ServerOptions;

typedef struct Server {
    pid_t pid;
    int port;
    char folder[300];
    redisContext *control; /* a connection for requests about the server, not used by a load */
    unsigned counts;       /* how often its instructions have been read */
    struct Server *next;   /* in the list of running servers, to be killed when the run fails */
} Server;

/* Returns when the server replies. If it does not, prints the end of its log and ends the run. */
Server *serverStart(const Options *options, const ServerOptions *wanted);

/* Kills the server and frees `server`. */
void serverStop(Server *server);

/* A new connection; ends the run if it cannot be made. The caller frees it. */
redisContext *serverConnect(const Server *server);

/* The next reply on the connection; ends the run if the connection is lost. The caller frees it. */
redisReply *serverReply(redisContext *connection);

/* Lets this process, and the servers started from now on, have `count` open connections if the
 * system allows it; returns how many they may have. */
unsigned serverRaiseLimit(unsigned count);

#endif
