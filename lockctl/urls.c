/* See urls.h. */
#include "urls.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/failure.h"
#include "base/memory.h"

static void add(struct urls *urls, const char *text) {
    size_t size = (urls->count + 1) * sizeof(struct url);
    urls->list = memoryResize(urls->list, size);
    struct url *url = &urls->list[urls->count++];
    const char *mistake = urlParse(url, text);
    if (mistake) {
        failureUsage("--url", mistake);
    }
}

/* Adds all URLs of a text, in which white space separates them. */
static void addAll(struct urls *urls, const char *text) {
    char *copy = memoryPrint("%s", text);
    char *rest = copy;
    for (char *one; (one = strtok_r(rest, " \t\r\n", &rest));) {
        add(urls, one);
    }
    free(copy);
}

static void addFile(struct urls *urls, const char *name) {
    FILE *file = fopen(name, "r");
    if (!file) {
        failureExit(FAILURE_USAGE, "%s: %s", name, strerror(errno));
    }
    char *line = NULL;
    size_t room = 0;
    size_t before = urls->count;
    while (getline(&line, &room, file) >= 0) {
        if (line[0] != '#') {
            addAll(urls, line);
        }
    }
    bool is_read = !ferror(file);
    free(line);
    fclose(file);
    if (!is_read) {
        failureExit(FAILURE_USAGE, "%s: cannot be read", name);
    }
    if (urls->count == before) {
        failureUsage(name, "contains no URL");
    }
}

void urlsTake(struct urls *urls, char *text) {
    if (text[0] == '@') {
        addFile(urls, text + 1);
        return;
    }
    add(urls, text);
    const struct url *url = &urls->list[urls->count - 1];
    if (url->password || url->sentinel_password) {
        memset(text, 'x', strlen(text));
    }
}

void urlsComplete(struct urls *urls) {
    const char *from_environment = getenv("LOCKCTL_URL");
    if (urls->count == 0 && from_environment) {
        addAll(urls, from_environment);
    }
    if (urls->count == 0) {
        add(urls, URLS_DEFAULT);
    }
}

void urlsFree(struct urls *urls) {
    for (size_t i = 0; i < urls->count; i++) {
        urlFree(&urls->list[i]);
    }
    free(urls->list);
    *urls = (struct urls){0};
}
