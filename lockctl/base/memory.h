/* Memory, or the end of the process: there is nothing else to do without it. */
#ifndef LOCKCTL_MEMORY_H
#define LOCKCTL_MEMORY_H

#include <stddef.h>

/* Zeroed; to be freed by free(). */
void *memoryNew(size_t size);

/* As realloc(). */
void *memoryResize(void *old, size_t size);

/* A copy of `length` bytes, with a zero behind; to be freed by free(). */
char *memoryCopy(const char *bytes, size_t length);

/* As printf, into new memory; to be freed by free(). */
char *memoryPrint(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
