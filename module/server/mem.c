/* See mem.h. Uses the server's allocator. */
#include "core/mem.h"

#include "redismodule.h"

#ifdef CHECKED
static size_t live;

size_t memLive(void) {
    return live;
}

static void countLive(const void *memory, int change) {
    live += memory ? (size_t)change : 0;
}
#else
static void countLive(const void *memory, int change) {
    (void)memory, (void)change;
}
#endif

void *memAlloc(size_t size) {
    void *memory = RedisModule_Calloc(1, size);
    countLive(memory, 1);
    return memory;
}

void memFree(void *memory) {
    countLive(memory, -1);
    RedisModule_Free(memory);
}
