/* See printable.h. */
#include "base/printable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>
#include <wctype.h>

#include "base/memory.h"

/* Returns the length of the character at `bytes` if it can be printed, otherwise 0. */
static size_t printed(const char *bytes, size_t length, int *width) {
    wchar_t character;
    mbstate_t state = {0};
    size_t used = mbrtowc(&character, bytes, length, &state);
    if (used == 0 || used > length || !iswprint((wint_t)character)) {
        return 0;
    }
    *width = wcwidth(character);
    return *width >= 0 ? used : 0;
}

char *printableText(const char *bytes, size_t length) {
    char *text = memoryNew(length * 4 + 1);
    char *to = text;
    for (size_t i = 0; i < length;) {
        int width;
        size_t used = printed(bytes + i, length - i, &width);
        if (used == 0) {
            to += sprintf(to, "\\x%02x", (unsigned char)bytes[i++]);
            continue;
        }
        if (bytes[i] == '\\') {
            *to++ = '\\';
        }
        memcpy(to, bytes + i, used);
        to += used;
        i += used;
    }
    return text;
}

/* Returns how many bytes of the text fit into `columns`. `*taken` is the number of columns that
 * they take. */
static size_t fitting(const char *text, size_t columns, size_t *taken) {
    size_t at = 0;
    size_t length = strlen(text);
    *taken = 0;
    while (at < length) {
        int width = 1;
        size_t used = printed(text + at, length - at, &width);
        if (*taken + (size_t)width > columns) {
            break;
        }
        *taken += (size_t)width;
        at += used ? used : 1;
    }
    return at;
}

size_t printableWidth(const char *text) {
    size_t taken;
    fitting(text, (size_t)-1 / 2, &taken);
    return taken;
}

char *printableCut(const char *text, size_t columns) {
    size_t taken;
    return memoryCopy(text, fitting(text, columns, &taken));
}

void printableSet(json_t *object, const char *field, const char *bytes, size_t length) {
    json_t *text = json_stringn(bytes, length);
    if (!text) {
        char *shown = printableText(bytes, length);
        char *name = memoryPrint("%s_hex", field);
        char *hex = memoryNew(length * 2 + 1);
        for (size_t i = 0; i < length; i++) {
            sprintf(hex + 2 * i, "%02x", (unsigned char)bytes[i]);
        }
        text = json_string_nocheck(shown);
        json_object_set_new(object, name, json_string(hex));
        free(shown);
        free(name);
        free(hex);
    }
    json_object_set_new(object, field, text);
}
