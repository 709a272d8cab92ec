/* The command that runs under the lock. It is a child process in lockctl's own process group, so
 * that it uses the terminal as it would without lockctl. Processes that it leaves behind become
 * children of lockctl, which reaps them, and ends them when the lock is lost. */
#ifndef LOCKCTL_COMMAND_H
#define LOCKCTL_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "run/processes.h"

struct command {
    pid_t pid; /* 0 before the start */
    bool has_ended;
    int status;             /* as in a shell: 128 plus the number of the signal that ended it */
    int ended_by;           /* that signal, or 0 */
    pid_t group, session;   /* its process group and its session */
    struct processes below; /* when lockctl last looked */
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
 * processes are continued. A process that the command creates at this moment may miss the signal;
 * commandEndLeft ends it. */
void commandSignal(struct command *command, int number);

/* A signal was sent to lockctl's whole process group. Returns whether that is the command's, which
 * so has received it. */
bool commandHasReceived(struct command *command, int number);

/* Reaps children that have ended, and stores the status of the command; to be called after
 * SIGCHLD. */
void commandReap(struct command *command);

/* The signal `number` was sent to the command to end it, or none if that is 0. Sends SIGTERM to
 * what is left of the command and has not received that signal, because it is in another group or
 * was created at that moment, or ignores it. No process gets this SIGTERM twice. Returns how many
 * processes are left. */
size_t commandEndLeft(struct command *command, enum commandScope scope, int number);

/* Sends SIGKILL to the command and to what is left of it. Returns how many processes that were. */
size_t commandKill(struct command *command, enum commandScope scope);

void commandFree(struct command *command);

#endif
