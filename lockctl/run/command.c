/* See command.h. */
#include "run/command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "base/failure.h"
#include "run/signals.h"

/* ---- starting ---- */

/* Makes the child die with lockctl. If SIGKILL kills lockctl, there is no other way to end the
 * child. */
static void dieWith(pid_t parent) {
#ifdef __linux__
    prctl(PR_SET_PDEATHSIG, SIGKILL);
#endif
    if (getppid() != parent) {
        _exit(FAILURE_SYSTEM); /* lockctl was killed before prctl */
    }
}

/* The pipes between lockctl and the child until the child has become the command. */
struct start {
    /* lockctl closes it when all earlier signals were passed on to the child, which may then
     * begin. */
    int begin[2];
    /* The child writes errno if exec fails; a successful exec closes the pipe. */
    int error_pipe[2];
};

/* In the child: becomes the command, or writes the error. */
static void become(char **words, const struct start *start, pid_t parent) {
    char nothing;
    dieWith(parent);
    close(start->begin[1]);
    if (read(start->begin[0], &nothing, 1) != 0) {
        _exit(FAILURE_SYSTEM);
    }
    signalsRestore();
    execvp(words[0], words);
    int error = errno;
    if (write(start->error_pipe[1], &error, sizeof(error)) < 0) {
        _exit(FAILURE_SYSTEM);
    }
    _exit(error == ENOENT ? FAILURE_NO_COMMAND : FAILURE_CANNOT_RUN);
}

/* Waits until there is something to read. Signals are handled meanwhile: Ctrl-Z may stop the child
 * at this moment, and then lockctl must stop too. */
static void waitFor(int fd) {
    struct pollfd fds[2] = {{.fd = fd, .events = POLLIN}, {.fd = signalsFd(), .events = POLLIN}};
    do {
        if (poll(fds, 2, -1) > 0 && fds[1].revents) {
            signalsReceive();
        }
    } while (!fds[0].revents);
}

/* In lockctl: returns 0 when the child has become the command, or was ended by a signal before
 * that. */
static int startResult(int fd, const char *name) {
    int error = 0;
    waitFor(fd);
    if (read(fd, &error, sizeof(error)) != (ssize_t)sizeof(error)) {
        return 0;
    }
    failureSay("%s: %s", name, strerror(error));
    return error == ENOENT ? FAILURE_NO_COMMAND : FAILURE_CANNOT_RUN;
}

static int startChild(struct command *command, char **words, const struct start *start) {
    pid_t parent = getpid();
    command->pid = fork();
    if (command->pid == 0) {
        become(words, start, parent);
    }
    if (command->pid > 0) {
        /* The terminal signals the processes that exist. The child would never receive signals that
         * were sent before the fork. */
        signalsPassOn(command->pid);
    }
    signalsAllow();
    if (command->pid < 0) {
        failureSay("cannot create a process: %s", strerror(errno));
        command->pid = 0;
        return FAILURE_SYSTEM;
    }
    return 0;
}

static bool makePipe(int ends[2]) {
    if (pipe(ends) != 0) {
        failureSay("cannot create a pipe: %s", strerror(errno));
        return false;
    }
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    fcntl(ends[1], F_SETFD, FD_CLOEXEC);
    return true;
}

int commandStart(struct command *command, char **words) {
    struct start start;
    if (!makePipe(start.begin)) {
        return FAILURE_SYSTEM;
    }
    if (!makePipe(start.error_pipe)) {
        close(start.begin[0]);
        close(start.begin[1]);
        return FAILURE_SYSTEM;
    }
#ifdef __linux__
    prctl(PR_SET_CHILD_SUBREAPER, 1);
#endif
    int failure = startChild(command, words, &start);
    close(start.begin[0]);
    close(start.begin[1]);
    close(start.error_pipe[1]);
    failure = failure ? failure : startResult(start.error_pipe[0], words[0]);
    close(start.error_pipe[0]);
    return failure;
}

/* ---- the end ---- */

/* What the command's processes belong to is known until it is reaped. */
static void noteGroup(struct command *command) {
    pid_t group = getpgid(command->pid);
    pid_t session = getsid(command->pid);
    command->group = group > 0 ? group : command->group;
    command->session = session > 0 ? session : command->session;
}

void commandReap(struct command *command) {
    int status;
    pid_t pid;
    if (command->pid > 0 && !command->has_ended) {
        noteGroup(command);
    }
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == command->pid) {
            command->has_ended = true;
            command->ended_by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
            command->status = command->ended_by ? 128 + command->ended_by : WEXITSTATUS(status);
        }
    }
}

/* ---- signals ---- */

static bool isIn(const struct command *command, const struct process *process,
                 enum commandScope scope) {
    switch (scope) {
    case COMMAND_GROUP:
        return process->group == command->group;
    case COMMAND_SESSION:
        return process->session == command->session;
    case COMMAND_ALL:
        return true;
    }
    return false;
}

/* Whether a process that is stopped must continue to handle the signal: it is one that asks it to
 * end. */
static bool asksToEnd(int number) {
    return number == SIGTERM || number == SIGINT || number == SIGQUIT || number == SIGHUP;
}

static void sendOne(struct process *process, int number) {
    if (number == SIGCONT && signalsStopIsPending()) {
        return; /* Ctrl-Z after `fg` has stopped it again, and will stop lockctl */
    }
    signalsSend(process->pid, number);
    processNote(process, number);
    if (process->state == 'T' && asksToEnd(number)) {
        kill(process->pid, SIGCONT);
    }
}

/* Calls `act` for the command, if it still runs, and for those of its processes that are in its
 * group. Returns whether the command was found. */
static bool forGroup(struct command *command, void (*act)(struct process *, int), int number) {
    bool found = false;
    if (!command->has_ended) {
        noteGroup(command);
    }
    processesUpdate(&command->below);
    for (size_t i = 0; i < command->below.count; i++) {
        struct process *process = &command->below.all[i];
        bool is_command = process->pid == command->pid && !command->has_ended;
        found = found || is_command;
        if (is_command || isIn(command, process, COMMAND_GROUP)) {
            act(process, number);
        }
    }
    return found;
}

void commandSignal(struct command *command, int number) {
    if (command->pid == 0) {
        return;
    }
    if (!forGroup(command, sendOne, number) && !command->has_ended) {
        signalsSend(command->pid, number); /* without /proc */
    }
}

bool commandHasReceived(struct command *command, int number) {
    if (command->pid == 0 || getpgid(command->pid) != getpgrp()) {
        return false;
    }
    forGroup(command, processNote, number);
    return true;
}

/* Calls `act` for what is left of the command in this scope; returns how many processes that
 * were. */
static size_t forEachLeft(struct command *command, enum commandScope scope,
                          void (*act)(struct process *, int), int number) {
    size_t found = 0;
    processesUpdate(&command->below);
    for (size_t i = 0; i < command->below.count; i++) {
        if (isIn(command, &command->below.all[i], scope)) {
            found++;
            act(&command->below.all[i], number);
        }
    }
    return found;
}

static void endOne(struct process *process, int number) {
    bool has_received =
        number != 0 && processHasReceived(process, number) && !processIgnores(process, number);
    if (!has_received && !processHasReceived(process, SIGTERM)) {
        sendOne(process, SIGTERM);
    }
}

size_t commandEndLeft(struct command *command, enum commandScope scope, int number) {
    return forEachLeft(command, scope, endOne, number);
}

static void killOne(struct process *process, int number) {
    kill(process->pid, number);
}

/* All generations at once. To kill each generation only after its parents have ended would take too
 * long. */
size_t commandKill(struct command *command, enum commandScope scope) {
    if (command->pid > 0 && !command->has_ended) {
        kill(command->pid, SIGKILL); /* finding the others takes time on a busy machine */
    }
    return forEachLeft(command, scope, killOne, SIGKILL);
}

void commandFree(struct command *command) {
    free(command->below.all);
}
