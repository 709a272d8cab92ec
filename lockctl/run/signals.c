/* See signals.h. The signal handler writes the signal into a pipe, from which the event loop reads
 * it. */
#include "run/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/failure.h"

/* Signals that may have a meaning for a command. The others stop the process, kill it or are
 * ignored, as usual. */
static const int received_signals[] = {SIGHUP,  SIGINT,  SIGQUIT,  SIGTERM, SIGUSR1, SIGUSR2,
                                       SIGALRM, SIGCONT, SIGWINCH, SIGTSTP, SIGCHLD};
#define RECEIVED_COUNT (sizeof(received_signals) / sizeof(received_signals[0]))

struct note {
    int number;
    int is_from_terminal; /* not a bool: the struct is written without padding */
};

static struct sigaction actions_before[RECEIVED_COUNT];
static struct sigaction pipe_before;
static sigset_t mask_before;
static int ends[2] = {-1, -1};
static struct event *readable;
static signalsReceived *receiver;
static void *receiver_arg;

static void takeNote(int number, bool is_from_terminal) {
    int error = errno;
    const struct note note = {number, is_from_terminal};
    /* Less than PIPE_BUF, so it is written completely or not at all. The pipe is full only if it is
     * not read. */
    if (write(ends[1], &note, sizeof(note)) < 0) {
        errno = error;
    }
    errno = error;
}

static void onSignal(int number, siginfo_t *info, void *context) {
    (void)context;
    takeNote(number, info->si_code > 0);
}

void signalsReceive(void) {
    struct note note;
    while (read(ends[0], &note, sizeof(note)) == (ssize_t)sizeof(note)) {
        receiver(receiver_arg, note.number, note.is_from_terminal != 0);
    }
}

int signalsFd(void) {
    return ends[0];
}

static void onReadable(evutil_socket_t fd, short what, void *arg) {
    (void)fd;
    (void)what;
    (void)arg;
    signalsReceive();
}

static void makePipe(void) {
    if (pipe(ends) != 0) {
        failureExit(FAILURE_SYSTEM, "cannot create a pipe");
    }
    for (int i = 0; i < 2; i++) {
        fcntl(ends[i], F_SETFD, FD_CLOEXEC);
        fcntl(ends[i], F_SETFL, O_NONBLOCK);
    }
}

void signalsBegin(struct event_base *base, signalsReceived *receive, void *arg) {
    receiver = receive;
    receiver_arg = arg;
    makePipe();
    sigprocmask(SIG_SETMASK, NULL, &mask_before);
    for (size_t i = 0; i < RECEIVED_COUNT; i++) {
        struct sigaction action = {.sa_sigaction = onSignal, .sa_flags = SA_SIGINFO | SA_RESTART};
        sigfillset(&action.sa_mask);
        sigaction(received_signals[i], NULL, &actions_before[i]);
        /* nohup, or a shell without job control, ignores signals on purpose. */
        if (actions_before[i].sa_handler != SIG_IGN || received_signals[i] == SIGCHLD) {
            sigaction(received_signals[i], &action, NULL);
        }
    }
    /* If a server is gone, write() fails, and the process must not end. */
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &ignore, &pipe_before);
    readable = event_new(base, ends[0], EV_READ | EV_PERSIST, onReadable, NULL);
    event_add(readable, NULL);
    signalsAllow();
}

void signalsHold(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
}

/* Unblocks SIGCHLD even if lockctl was started with it blocked, because lockctl needs it. */
void signalsAllow(void) {
    sigset_t mask = mask_before;
    sigdelset(&mask, SIGCHLD);
    sigprocmask(SIG_SETMASK, &mask, NULL);
}

void signalsPassOn(pid_t pid) {
    const struct timespec at_once = {0};
    sigset_t set;
    int number;
    sigemptyset(&set);
    for (size_t i = 0; i < RECEIVED_COUNT; i++) {
        if (received_signals[i] != SIGCHLD) {
            sigaddset(&set, received_signals[i]);
        }
    }
    while ((number = sigtimedwait(&set, NULL, &at_once)) > 0) {
        kill(pid, number);
        takeNote(number, true);
    }
}

void signalsStop(void) {
    struct sigaction before;
    const struct sigaction action = {.sa_handler = SIG_DFL};
    sigaction(SIGTSTP, &action, &before);
    raise(SIGTSTP);
    sigaction(SIGTSTP, &before, NULL);
}

void signalsRestore(void) {
    for (size_t i = 0; i < RECEIVED_COUNT; i++) {
        sigaction(received_signals[i], &actions_before[i], NULL);
    }
    sigaction(SIGPIPE, &pipe_before, NULL);
    sigprocmask(SIG_SETMASK, &mask_before, NULL);
}

void signalsEnd(void) {
    signalsRestore();
    event_free(readable);
    close(ends[0]);
    close(ends[1]);
}
