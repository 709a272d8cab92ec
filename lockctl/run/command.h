/* The command that runs under the lock, as a child process in lockctl's own process group, so that the
 * terminal is its own as without lockctl. What its processes leave behind becomes lockctl's to reap, and, when
 * the lock is lost, to end. */
#ifndef LOCKCTL_COMMAND_H
#define LOCKCTL_COMMAND_H

#include <stdbool.h>
#include <sys/types.h>

struct command {
    pid_t pid; /* 0 before it was started */
    bool has_ended;
    int status;   /* as a shell tells it: 128 and the signal's number if one has ended it */
    int ended_by; /* that signal, or 0 */
};

/* Starts it, while signals are held back, so that none comes to the child when it still has lockctl's handlers.
 * The child gets all of them, and all that come from then on; they are not held back any more when this returns,
 * and may have been heard. Returns 0, or FAILURE_CANNOT_RUN, FAILURE_NO_COMMAND or FAILURE_SYSTEM, having said
 * why. Is killed when lockctl is. */
int commandStart(struct command *command, char **words);

/* Sends it a signal, if it still runs. */
void commandSignal(const struct command *command, int number);

/* Takes note of children that have ended; to be called after SIGCHLD. */
void commandReap(struct command *command);

/* Sends a signal to all that is left of it: itself, what it has started, and what it has left behind. Returns
 * whether there was anything. */
bool commandSignalAll(int number);

#endif
