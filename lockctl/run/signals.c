/* See signals.h. The signal handler writes the signal into a pipe, from which the event loop reads
 * it. */
#include "run/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "base/failure.h"

/* Marks a signal that lockctl sends: a lockctl that receives it knows that it was sent to the whole
 * process group. */
#define MARK 0x4c4f434b

struct note {
    int number;
    int is_for_group; /* not a bool: the struct is written without padding */
};

static struct sigaction actions_before[NSIG];
static struct sigaction pipe_before;
static sigset_t mask_before;
static int ends[2] = {-1, -1};
/* The first one is changed by the handler, or while signals are blocked. */
static volatile sig_atomic_t stops_received;
static sig_atomic_t stops_handled;
static struct event *readable;
static signalsReceived *receiver;
static void *receiver_arg;

/* Whether the signal may have a meaning for a command, so that lockctl passes it on. The others
 * stop the process, kill it, are ignored, or report a fault of lockctl itself. */
static bool isReceived(int number) {
    static const int received[] = {
        SIGHUP,  SIGINT,    SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2,  SIGALRM, SIGCONT,
        SIGTSTP, SIGVTALRM, SIGPROF, SIGXCPU, SIGIO,   SIGWINCH, SIGCHLD,
#ifdef SIGPWR
        SIGPWR,
#endif
    };
    for (size_t i = 0; i < sizeof(received) / sizeof(received[0]); i++) {
        if (received[i] == number) {
            return true;
        }
    }
#ifdef SIGRTMIN
    return number >= SIGRTMIN && number < SIGRTMAX;
#else
    return false;
#endif
}

static void takeNote(int number, bool is_for_group) {
    int error = errno;
    const struct note note = {number, is_for_group};
    stops_received += number == SIGTSTP;
    /* Less than PIPE_BUF, so it is written completely or not at all. The pipe is full only if it is
     * not read. */
    if (write(ends[1], &note, sizeof(note)) < 0) {
        errno = error;
    }
    errno = error;
}

/* The kernel sends the signals of keys to the foreground process group, and others, such as that of
 * alarm(), only to this process. When a terminal is closed it signals the session leader. */
static bool isForGroup(int number, const siginfo_t *info) {
    if (info->si_code == SI_QUEUE) {
        return info->si_value.sival_int == MARK;
    }
    switch (number) {
    case SIGINT:
    case SIGQUIT:
    case SIGTSTP:
    case SIGCONT:
    case SIGWINCH:
        return info->si_code > 0;
    case SIGHUP:
        return info->si_code > 0 && getsid(0) != getpid();
    default:
        return false;
    }
}

static void onSignal(int number, siginfo_t *info, void *context) {
    (void)context;
    takeNote(number, isForGroup(number, info));
}

void signalsReceive(void) {
    struct note note;
    while (read(ends[0], &note, sizeof(note)) == (ssize_t)sizeof(note)) {
        stops_handled += note.number == SIGTSTP;
        receiver(receiver_arg, note.number, note.is_for_group != 0);
    }
}

bool signalsStopIsPending(void) {
    return stops_received != stops_handled;
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
    for (int number = 1; number < NSIG; number++) {
        struct sigaction action = {.sa_sigaction = onSignal, .sa_flags = SA_SIGINFO | SA_RESTART};
        sigfillset(&action.sa_mask);
        if (!isReceived(number) || sigaction(number, NULL, &actions_before[number]) != 0) {
            continue;
        }
        /* nohup, or a shell without job control, ignores signals on purpose. */
        if (actions_before[number].sa_handler != SIG_IGN || number == SIGCHLD) {
            sigaction(number, &action, NULL);
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
    sigemptyset(&set);
    for (int number = 1; number < NSIG; number++) {
        if (isReceived(number) && number != SIGCHLD) {
            sigaddset(&set, number);
        }
    }
    for (int number; (number = sigtimedwait(&set, NULL, &at_once)) > 0;) {
        kill(pid, number);
        takeNote(number, true);
    }
}

void signalsSend(pid_t pid, int number) {
    const union sigval mark = {.sival_int = MARK};
    if (sigqueue(pid, number, mark) != 0 && errno == EAGAIN) {
        kill(pid, number); /* the queue is full */
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
    for (int number = 1; number < NSIG; number++) {
        if (isReceived(number)) {
            sigaction(number, &actions_before[number], NULL);
        }
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
