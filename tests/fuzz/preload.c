/* Loaded into the server in front of AddressSanitizer, so that all of the server's memory, and with
 * it the module's, is ASan's: its own use of jemalloc's interface becomes malloc, and modules are
 * opened as ASan needs it. */
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

/* Valkey opens modules with RTLD_DEEPBIND, by which they would miss ASan's malloc. */
void *dlopen(const char *file, int mode) {
    union {
        void *symbol;
        void *(*function)(const char *, int);
    } next = {dlsym(RTLD_NEXT, "dlopen")};
    return next.function(file, mode & ~RTLD_DEEPBIND);
}
