/* Allocation as what needs no server sees it.
 *
 * mem.c gives the server's allocator, so that what the module uses counts in `used_memory`; the
 * unit tests link one of their own. Like the server's, neither ever returns NULL: out of memory is
 * the end of the process.
 */
#ifndef LOCK_MEM_H
#define LOCK_MEM_H

#include <stddef.h>

/* `size` bytes, all zero. Freed by memFree. */
void *memAlloc(size_t size);

/* NULL is allowed. */
void memFree(void *memory);

/* How many allocations have not been freed. Of the unit tests and the checking build only. */
size_t memLive(void);

#endif
