/* core/mem.h for programs without a server, and mem_libc.h. */
#include "mem_libc.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/mem.h"

static size_t live, live_before_test;

void *memAlloc(size_t size) {
    /* calloc may return NULL for size 0, memAlloc never does. */
    void *memory = calloc(1, size ? size : 1);
    if (!memory) {
        fputs("out of memory\n", stderr);
        abort();
    }
    live++;
    return memory;
}

void memFree(void *memory) {
    if (memory) {
        live--;
    }
    free(memory);
}

size_t memLive(void) {
    return live;
}

int memRecordLive(void **state) {
    (void)state;
    live_before_test = live;
    return 0;
}

int memAssertNothingLeft(void **state) {
    (void)state;
    if (live == live_before_test) {
        return 0;
    }
    fprintf(stderr, "memory: %zu allocations before, %zu after\n", live_before_test, live);
    return -1;
}
