/* lockctl run: a command that runs while a lock is held. */
#ifndef LOCKCTL_RUN_H
#define LOCKCTL_RUN_H

#include <stddef.h>
#include <stdint.h>

#include "hold/wish.h"
#include "net/url.h"

struct runOrder {
    const struct url *urls;
    size_t url_count;
    struct wish wish;
    int64_t grace_ms; /* from the first signal to the last when the lock was lost */
    char **words;     /* the command, with a NULL behind */
};

/* Does it, and returns what lockctl is to exit with. */
int runCommand(const struct runOrder *order);

#endif
