/* Shows the locks of a server, or of all masters of a cluster. */
#ifndef LOCKCTL_LOOK_H
#define LOCKCTL_LOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/url.h"

struct lookOrder {
    const struct url *urls; /* all of them are shown */
    size_t url_count;
    const char *pattern; /* ls: as for MATCH of SCAN */
    bool as_json;
    bool is_once;        /* top: print once, without a screen */
    int64_t interval_ms; /* top */
    int64_t count;       /* top: the maximum number of locks */
    int64_t silence_ms;  /* how long a server may take to reply */
};

/* lockctl ls, and lockctl top. Both return the exit status for lockctl. */
int lsCommand(const struct lookOrder *order);
int topCommand(const struct lookOrder *order);

#endif
