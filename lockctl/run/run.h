/* lockctl run: a command that runs while a lock is held. */
#ifndef LOCKCTL_RUN_H
#define LOCKCTL_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "hold/wish.h"
#include "net/url.h"

struct runOrder {
    const struct url *urls;
    size_t url_count;
    struct wish wish;
    int64_t grace_ms;    /* until SIGKILL, for what must end */
    int conflict_status; /* the exit status if the lock was not acquired in time */
    bool is_quiet;       /* no message then */
    char **words;        /* the command, terminated by NULL */
};

/* Runs the command, and returns the exit status for lockctl. */
int runCommand(const struct runOrder *order);

#endif
