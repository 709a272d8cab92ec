/* The command that runs under the lock. It is a child process in lockctl's own process group, so
 * that it uses the terminal as it would without lockctl. Processes that it leaves behind become
 * children of lockctl, which reaps them, and ends them when the lock is lost. */
#ifndef LOCKCTL_COMMAND_H
#define LOCKCTL_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct command {
    pid_t pid; /* 0 before the start */
    bool has_ended;
    int status;           /* as in a shell: 128 plus the number of the signal that ended it */
    int ended_by;         /* that signal, or 0 */
    pid_t group, session; /* its process group and its session */
};

/* Which processes of the command: those in its process group, those in its session, or also those
 * that have left its session, as daemons do. */
enum commandScope { COMMAND_GROUP, COMMAND_SESSION, COMMAND_ALL };

/* Starts the command. Signals must be blocked, so that none reaches the child while it still has
 * lockctl's handlers. The child gets the signals that were blocked, and all later ones. When this
 * function returns, signals are unblocked, and may have been handled. Returns 0; or prints an error
 * and returns FAILURE_CANNOT_RUN, FAILURE_NO_COMMAND or FAILURE_SYSTEM. The command is killed when
 * lockctl is killed. */
int commandStart(struct command *command, char **words);

/* Sends a signal to the process group of the command: to the command, if it still runs, and to
 * those of its processes that are in its group. The group itself is not signalled, because it is
 * that of lockctl, and often also that of lockctl's parent. If the signal asks to end, stopped
 * processes are continued. */
void commandSignal(struct command *command, int number);

/* Whether the command is in lockctl's process group, and so receives what is sent to that. */
bool commandSharesGroup(const struct command *command);

/* Reaps children that have ended, and stores the status of the command; to be called after
 * SIGCHLD. */
void commandReap(struct command *command);

/* Returns how many processes are left of the command, itself included. */
size_t commandLeft(const struct command *command, enum commandScope scope);

/* The group of the command has received the signal `received`, or none if that is 0: sends SIGTERM
 * to what is left and has not received it, because it is in another group, or ignores it. Returns
 * how many processes are left. */
size_t commandEndLeft(const struct command *command, enum commandScope scope, int received);

/* Sends SIGKILL to the command and to what is left of it. Returns how many processes that were. */
size_t commandKill(const struct command *command, enum commandScope scope);

#endif
