/* What every file of the benchmark shares: the options of this run, the shape of a measurement,
 * and the few helpers that have no better home. */

#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Options {
    const char *server; /* the server's binary, looked for in PATH */
    const char *module; /* the module's file, as an absolute path */
    unsigned files;     /* connections that this process, or a server, may have open */
    unsigned rounds;    /* how often each comparison is repeated: its median counts */
    bool quick;         /* a smoke test: everything runs, no figure is worth quoting */
    bool callgrind;     /* valgrind is installed */
} Options;

typedef struct Measurement {
    const char *name;
    const char *summary;
    void (*run)(const Options *options);
} Measurement;

/* One function for each row of the table in main.c. */
void deadlockMeasure(const Options *options);
void fairMeasure(const Options *options);
void idleMeasure(const Options *options);
void handoffMeasure(const Options *options);
void memoryMeasure(const Options *options);
void pairMeasure(const Options *options);
void rwMeasure(const Options *options);
void selfMeasure(const Options *options);
void sessionMeasure(const Options *options);
void severalMeasure(const Options *options);
void wakeMeasure(const Options *options);

/* Says why on stderr and ends the run with status 1; servers and files go with it. */
void die(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

/* As malloc and realloc, but they die instead of returning NULL. */
void *allocate(size_t bytes);
void *reallocate(void *old, size_t bytes);

/* Monotonic, for durations; and the wall clock, for comparing with the server's absolute times. */
uint64_t nowNs(void);
uint64_t wallUs(void);

void sleepNs(uint64_t ns);

#endif
