/* The servers that users name: by -u, in a file, in the environment. */
#ifndef LOCKCTL_URLS_H
#define LOCKCTL_URLS_H

#include <stddef.h>

#include "net/url.h"

#define URLS_DEFAULT "redis://127.0.0.1:6379"

/* None when zeroed. To be freed by urlsFree. */
struct urls {
    struct url *list;
    size_t count;
};

/* Adds what an argument of -u says: a URL, or @FILE. Ends the process, having said why, if that is none. An
 * argument with a password in it is blanked, since ps shows it. */
void urlsTake(struct urls *urls, char *text);

/* If none was named: those of $LOCKCTL_URL, with white space between them, or the default. */
void urlsComplete(struct urls *urls);

void urlsFree(struct urls *urls);

#endif
