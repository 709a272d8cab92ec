/* See memory.h. */
#include "base/memory.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"

static void *given(void *memory) {
    if (!memory) {
        failureExit(FAILURE_SYSTEM, "out of memory");
    }
    return memory;
}

void *memoryNew(size_t size) {
    return given(calloc(1, size));
}

void *memoryResize(void *old, size_t size) {
    return given(realloc(old, size));
}

char *memoryCopy(const char *bytes, size_t length) {
    char *copy = given(malloc(length + 1));
    memcpy(copy, bytes, length);
    copy[length] = '\0';
    return copy;
}

char *memoryPrint(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *text = given(malloc((size_t)length + 1));
    va_start(arguments, format);
    vsnprintf(text, (size_t)length + 1, format, arguments);
    va_end(arguments);
    return text;
}
