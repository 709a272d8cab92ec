/* The supervising parent and the temporary folder. A separate process does the clean-up because a
 * worker that is killed, or that crashes, cannot do it. */

#define _GNU_SOURCE

#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "machine/workspace.h"

static char root[256];
static volatile sig_atomic_t worker_pid;

static void forward(int sig) {
    if (worker_pid > 0) {
        kill((pid_t)worker_pid, sig);
    }
}

static int removeEntry(const char *path, const struct stat *info, int kind, struct FTW *where) {
    (void)info;
    (void)kind;
    (void)where;
    return remove(path);
}

void workspaceRemove(const char *path) {
    nftw(path, removeEntry, 16, FTW_DEPTH | FTW_PHYS);
}

/* An interrupt from the terminal reaches the whole process group; a signal sent with kill(1)
 * reaches only the supervisor. So the supervisor forwards every signal, and runs until the worker
 * has ended. */
static _Noreturn void superviseWorker(void) {
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = forward;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);

    int status = 0;
    while (waitpid((pid_t)worker_pid, &status, 0) == -1 && errno == EINTR) {
    }
    workspaceRemove(root);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
}

void workspaceSupervise(void) {
    const char *parent = getenv("TMPDIR");
    snprintf(root, sizeof(root), "%s/lockbench-XXXXXX", parent ? parent : "/tmp");
    if (mkdtemp(root) == NULL) {
        die("cannot make a folder in %s: %s", parent ? parent : "/tmp", strerror(errno));
    }

    pid_t pid = fork();
    if (pid == -1) {
        die("fork: %s", strerror(errno));
    }
    if (pid > 0) {
        worker_pid = pid;
        superviseWorker();
    }
    /* The servers are killed in the same way when the worker ends: see serverStart. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
}

void workspaceFolder(char *path, size_t size) {
    static unsigned count;
    snprintf(path, size, "%s/%u", root, count++);
    if (mkdir(path, 0700) == -1) {
        die("cannot make %s: %s", path, strerror(errno));
    }
}
