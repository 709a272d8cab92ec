/* Looking at the locks of a server, or of all masters of a cluster. */
#ifndef LOCKCTL_LOOK_H
#define LOCKCTL_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/url.h"

struct lookOrder {
    const struct url *urls; /* each is looked at */
    size_t url_count;
    const char *pattern; /* ls: as SCAN's MATCH */
    bool as_json;
    bool is_once;        /* top: once, and not as a screen */
    int64_t interval_ms; /* top */
    int64_t count;       /* top: how many locks at most */
    int64_t silence_ms;  /* for how long a server may say nothing */
};

/* lockctl ls, and lockctl top: each returns what lockctl is to exit with. */
int lsCommand(const struct lookOrder *order);
int topCommand(const struct lookOrder *order);

#endif
