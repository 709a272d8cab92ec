/* The processes that the command has started, directly or not, from /proc. They are descendants of
 * lockctl: those whose parents have ended become its children, because it is a subreaper. */
#ifndef LOCKCTL_PROCESSES_H
#define LOCKCTL_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct process {
    pid_t pid, parent, group, session;
    char state; /* as in /proc: 'T' = stopped */
};

/* Returns all descendants of this process that have not ended, `*count` of them; to be freed by
 * free(). There are none where /proc is missing, or shows another PID namespace. */
struct process *processesBelow(size_t *count);

/* Whether the process ignores the signal. */
bool processIgnores(const struct process *process, int number);

#endif
