/* The command that runs under the lock. It is a child process in lockctl's own process group, so
 * that it uses the terminal as it would without lockctl. Processes that it leaves behind become
 * children of lockctl, which reaps them, and ends them when the lock is lost. */
#ifndef LOCKCTL_COMMAND_H
#define LOCKCTL_COMMAND_H

#include <stdbool.h>
#include <sys/types.h>

struct command {
    pid_t pid; /* 0 before the start */
    bool has_ended;
    int status;   /* as in a shell: 128 plus the number of the signal that ended it */
    int ended_by; /* that signal, or 0 */
};

/* Starts the command. Signals must be blocked, so that none reaches the child while it still has
 * lockctl's handlers. The child gets the signals that were blocked, and all later ones. When this
 * function returns, signals are unblocked, and may have been handled. Returns 0; or prints an error
 * and returns FAILURE_CANNOT_RUN, FAILURE_NO_COMMAND or FAILURE_SYSTEM. The command is killed when
 * lockctl is killed. */
int commandStart(struct command *command, char **words);

/* Sends the command a signal, if it still runs. */
void commandSignal(const struct command *command, int number);

/* Reaps children that have ended, and stores the status of the command; to be called after
 * SIGCHLD. */
void commandReap(struct command *command);

/* Sends a signal to all remaining processes of the command: itself, its descendants, and those that
 * it has left behind. Returns whether there were any. */
bool commandSignalAll(int number);

#endif
