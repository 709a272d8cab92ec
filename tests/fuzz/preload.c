/* Loaded into the server before AddressSanitizer, so that ASan allocates all memory of the server,
 * including that of the module: the server's calls of jemalloc's own functions become calls of
 * malloc, and modules are opened as ASan requires. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>

/* As jemalloc declares them. */
void *mallocx(size_t size, int flags);
void *rallocx(void *memory, size_t size, int flags);
void dallocx(void *memory, int flags);
void sdallocx(void *memory, size_t size, int flags);

void *mallocx(size_t size, int flags) {
    (void)flags;
    return malloc(size);
}

void *rallocx(void *memory, size_t size, int flags) {
    (void)flags;
    return realloc(memory, size);
}

void dallocx(void *memory, int flags) {
    (void)flags;
    free(memory);
}

void sdallocx(void *memory, size_t size, int flags) {
    (void)size, (void)flags;
    free(memory);
}

/* Valkey opens modules with RTLD_DEEPBIND, with which they would not use ASan's malloc. */
void *dlopen(const char *file, int mode) {
    union {
        void *symbol;
        void *(*function)(const char *, int);
    } next = {dlsym(RTLD_NEXT, "dlopen")};
    return next.function(file, mode & ~RTLD_DEEPBIND);
}
