/* See command.h. */
#include "run/command.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

#include "base/failure.h"
#include "base/memory.h"
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

/* ---- signals and the end ---- */

void commandSignal(const struct command *command, int number) {
    if (command->pid > 0 && !command->has_ended) {
        kill(command->pid, number);
    }
}

void commandReap(struct command *command) {
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        if (pid == command->pid) {
            command->has_ended = true;
            command->ended_by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
            command->status = command->ended_by ? 128 + command->ended_by : WEXITSTATUS(status);
        }
    }
}

/* ---- remaining processes ---- */

/* Returns the parent of a process, from /proc; 0 if there is no such process. */
static pid_t parentOf(const char *process) {
    char path[300];
    char text[512];
    snprintf(path, sizeof(path), "/proc/%s/stat", process);
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
    if (file) {
        fclose(file);
    }
    text[length] = '\0';
    /* "pid (name) state parent ...", and the name may contain any characters. */
    const char *behind = strrchr(text, ')');
    return behind && strlen(behind) > 4 ? (pid_t)strtol(behind + 4, NULL, 10) : 0;
}

struct process {
    pid_t pid, parent;
    bool is_ours;
};

/* Returns all processes of the machine, `*count` of them; to be freed by free(). */
static struct process *processes(size_t *count) {
    struct process *all = NULL;
    size_t room = 0;
    DIR *folder = opendir("/proc");
    const struct dirent *entry;
    *count = 0;
    while (folder && (entry = readdir(folder))) {
        if (!isdigit((unsigned char)entry->d_name[0])) {
            continue;
        }
        if (*count == room) {
            room = room ? 2 * room : 256;
            all = memoryResize(all, room * sizeof(*all));
        }
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        all[(*count)++] = (struct process){.pid = pid, .parent = parentOf(entry->d_name)};
    }
    if (folder) {
        closedir(folder);
    }
    return all;
}

static bool isOurs(const struct process *all, size_t count, pid_t pid) {
    for (size_t i = 0; i < count; i++) {
        if (all[i].pid == pid) {
            return all[i].is_ours;
        }
    }
    return pid == getpid();
}

/* Marks the children of lockctl and of marked processes. Returns whether it has marked more. */
static bool markMore(struct process *all, size_t count) {
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        bool is_new = !all[i].is_ours && all[i].pid != getpid() &&
                      (all[i].parent == getpid() || isOurs(all, count, all[i].parent));
        all[i].is_ours = all[i].is_ours || is_new;
        found = found || is_new;
    }
    return found;
}

/* Signals all generations at once. To signal each generation only after its parents have ended
 * would take too long. */
bool commandSignalAll(int number) {
    size_t count;
    bool found = false;
    struct process *all = processes(&count);
    while (markMore(all, count)) {
        found = true;
    }
    for (size_t i = 0; i < count; i++) {
        if (all[i].is_ours) {
            kill(all[i].pid, number);
        }
    }
    free(all);
    return found;
}
