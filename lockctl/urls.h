/* The servers that the user names: with -u, in a file, in the environment. */
#ifndef LOCKCTL_URLS_H
#define LOCKCTL_URLS_H

#include <stddef.h>

#include "net/url.h"

#define URLS_DEFAULT "redis://127.0.0.1:6379"

/* Empty when zeroed. To be freed by urlsFree. */
struct urls {
    struct url *list;
    size_t count;
};

/* Adds the URL of an argument of -u, or those of @FILE. If it is not valid, prints an error and
 * ends the process. Blanks an argument that contains a password, because ps shows it. */
void urlsTake(struct urls *urls, char *text);

/* If no URL was given, adds those of $LOCKCTL_URL, in which white space separates them, or the
 * default. */
void urlsComplete(struct urls *urls);

void urlsFree(struct urls *urls);

#endif
