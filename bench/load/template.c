/* Placeholders are expanded once and in advance: while a load runs, the bytes only have to be
 * sent. */

#define _POSIX_C_SOURCE 200809L

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "load/scripts.h"
#include "load/template.h"

enum {
    MAX_ARGS = 64,
    MAX_TEXT = 4096,
};

typedef struct Text {
    char bytes[MAX_TEXT];
    size_t length;
} Text;

/* What the placeholders are replaced with. */
typedef struct Source {
    redisContext *connection;
    unsigned key;
    unsigned owner;
} Source;

static void append(Text *text, const char *bytes, size_t length) {
    if (text->length + length >= MAX_TEXT) {
        die("a request is too long: %s", text->bytes);
    }
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
    text->bytes[text->length] = '\0';
}

static void appendPlaceholder(Text *text, const Source *source, const char *name) {
    char value[64];
    if (strcmp(name, "n") == 0) {
        snprintf(value, sizeof(value), "%u", source->key);
    } else if (strcmp(name, "key") == 0) {
        snprintf(value, sizeof(value), "lock:%08u", source->key);
    } else if (strcmp(name, "owner") == 0) {
        snprintf(value, sizeof(value), "7c9e6679-7425-40de-944b-%012u", source->owner);
    } else if (strncmp(name, "sha:", 4) == 0) {
        scriptsLoad(source->connection, name + 4, value, sizeof(value));
    } else {
        die("no such placeholder: {%s}", name);
    }
    append(text, value, strlen(value));
}

static void fill(Text *filled, const Source *source, const char *text) {
    filled->length = 0;
    filled->bytes[0] = '\0';
    while (*text != '\0') {
        char name[32];
        size_t plain = strcspn(text, "{");
        append(filled, text, plain);
        text += plain;
        if (*text == '\0') {
            break;
        }
        size_t length = strcspn(text, "}");
        if (text[length] == '\0' || length > sizeof(name)) {
            die("bad placeholder: %s", text);
        }
        snprintf(name, sizeof(name), "%.*s", (int)length - 1, text + 1);
        appendPlaceholder(filled, source, name);
        text += length + 1;
    }
}

Message templateExpand(redisContext *connection, const char *text, unsigned key, unsigned owner) {
    const Source source = {connection, key, owner};
    const char *args[MAX_ARGS];
    int count = 0;
    Text filled;
    char *rest = NULL;
    fill(&filled, &source, text);
    for (char *word = strtok_r(filled.bytes, " ", &rest); word != NULL;
         word = strtok_r(NULL, " ", &rest)) {
        if (count >= MAX_ARGS) {
            die("a request has too many arguments: %s", text);
        }
        args[count++] = word;
    }
    Message message = {0};
    int size = redisFormatCommandArgv(&message.bytes, count, args, NULL);
    if (size < 0) {
        die("cannot format %s", text);
    }
    message.size = (size_t)size;
    return message;
}

void templateQueue(redisContext *connection, const char *text, unsigned key, unsigned owner) {
    Message message = templateExpand(connection, text, key, owner);
    redisAppendFormattedCommand(connection, message.bytes, message.size);
    redisFreeCommand(message.bytes);
}
