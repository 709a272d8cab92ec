/* Memory allocation, also for code that needs no server.
 *
 * In the module, mem.c uses the server's allocator, so that the module's memory is included in
 * `used_memory`. The unit tests link another allocator. Both never return NULL. If there is no
 * memory, the process ends, as with the server's allocator.
 */
#ifndef LOCK_MEM_H
#define LOCK_MEM_H

#include <stddef.h>

/* Allocates `size` bytes, all zero. To be freed with memFree. */
void *memAlloc(size_t size);

/* Frees this memory; does nothing if it is NULL. */
void memFree(void *memory);

/* How many allocations have not been freed. Only in the unit tests and the checking build. */
size_t memLive(void);

#endif
