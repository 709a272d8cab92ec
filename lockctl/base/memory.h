/* Memory allocation. When it fails, the process ends: nothing can be done without memory. */
#ifndef LOCKCTL_MEMORY_H
#define LOCKCTL_MEMORY_H

#include <stddef.h>

/* Returns zeroed memory, to be freed by free(). */
void *memoryNew(size_t size);

/* The same as realloc(). */
void *memoryResize(void *old, size_t size);

/* Returns a copy of `length` bytes, followed by a zero byte; to be freed by free(). */
char *memoryCopy(const char *bytes, size_t length);

/* Prints as printf into new memory; to be freed by free(). */
char *memoryPrint(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
