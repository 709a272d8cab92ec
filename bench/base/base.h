/* What every file of the benchmark shares: the options of this run, and the few helpers
 * that belong to no other file. */

#ifndef BENCH_BASE_BASE_H
#define BENCH_BASE_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Options {
    const char *server; /* the server's binary, looked for in PATH */
    const char *module; /* the module's file, as an absolute path */
    unsigned files;     /* connections that this process, or a server, may have open */
    unsigned rounds;    /* how often each comparison is repeated; the median is shown */
    bool quick;         /* a smoke test: everything runs, the figures must not be quoted */
    bool callgrind;     /* valgrind is installed */
} Options;

/* Prints the reason on stderr and ends the run with status 1; servers and files are removed. */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* Like malloc and realloc, but they end the run instead of returning NULL. */
void *allocate(size_t bytes);
void *reallocate(void *old, size_t bytes);

/* The monotonic clock, for durations; and the wall clock, to compare with the server's absolute
 * times. */
uint64_t nowNs(void);
uint64_t wallUs(void);

void sleepNs(uint64_t ns);

#endif
