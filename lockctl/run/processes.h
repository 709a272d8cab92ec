/* The processes that the command has started, directly or not, from /proc. They are descendants of
 * lockctl: those whose parents have ended become its children, because it is a subreaper. */
#ifndef LOCKCTL_PROCESSES_H
#define LOCKCTL_PROCESSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct process {
    pid_t pid, parent, group, session;
    char state;        /* as in /proc: 'T' = stopped */
    uint64_t received; /* the signals that were noted, bit n - 1 for signal n */
};

/* Sorted by pid. Zeroed, it is empty; `all` is to be freed by free(). */
struct processes {
    struct process *all;
    size_t count;
};

/* Finds all descendants of this process that have not ended. Those that were there before keep the
 * signals that they have received; new ones have those of the parent that is in their group, if it
 * has not ended. There are none where /proc is missing, or shows another PID namespace. */
void processesUpdate(struct processes *below);

void processNote(struct process *process, int number);

bool processHasReceived(const struct process *process, int number);

/* Whether the process ignores the signal. */
bool processIgnores(const struct process *process, int number);

#endif
