/* See mem.h. Uses the server's allocator. */
#include "core/mem.h"

#include "redismodule.h"

#ifdef CHECKED
static size_t live;

size_t memLive(void) {
    return live;
}

#define COUNT_LIVE(memory, change) (live += (memory) ? (size_t)(change) : 0)
#else
#define COUNT_LIVE(memory, change) ((void)0)
#endif

void *memAlloc(size_t size) {
    void *memory = RedisModule_Calloc(1, size);
    COUNT_LIVE(memory, 1);
    return memory;
}

void memFree(void *memory) {
    COUNT_LIVE(memory, -1);
    RedisModule_Free(memory);
}
