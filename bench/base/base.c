/* The helpers of base.h. */

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/base.h"

void die(const char *format, ...) {
    va_list args;
    fflush(stdout);
    fputs("lockbench: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(EXIT_FAILURE);
}

void *reallocate(void *old, size_t bytes) {
    void *memory = realloc(old, bytes ? bytes : 1);
    if (memory == NULL) {
        die("out of memory");
    }
    return memory;
}

void *allocate(size_t bytes) {
    return reallocate(NULL, bytes);
}

uint64_t nowNs(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t wallUs(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000000u + (uint64_t)now.tv_nsec / 1000u;
}

void sleepNs(uint64_t ns) {
    struct timespec left = {.tv_sec = (time_t)(ns / 1000000000u),
                            .tv_nsec = (long)(ns % 1000000000u)};
    while (nanosleep(&left, &left) == -1 && errno == EINTR) {
    }
}
