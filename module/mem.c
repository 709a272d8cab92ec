/* See mem.h: the server's allocator. */
#include "mem.h"

#include "redismodule.h"

void *memAlloc(size_t size) {
    return RedisModule_Calloc(1, size);
}

void memFree(void *memory) {
    RedisModule_Free(memory);
}
