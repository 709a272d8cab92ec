/* See run.h. */
#include "run/run.h"

#include <event2/event.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/alarm.h"
#include "base/clock.h"
#include "base/failure.h"
#include "hold/holder.h"
#include "run/command.h"
#include "run/signals.h"

/* The interval between searches for processes that a killed command has left behind. */
#define SWEEP_MS 10

struct run {
    const struct runOrder *order;
    struct event_base *base;
    struct holder *holder;
    struct command command;
    struct alarm kill; /* the time for SIGKILL, after the lock was lost */
    int status;
    int stopped_by; /* the signal that ended the wait for the lock, or 0 */
    int key;        /* the last signal from a key of the terminal, SIGINT or SIGQUIT, or 0 */
    bool is_held, is_lost, is_ending, is_over;
};

static void stop(struct run *run) {
    run->is_over = true;
    event_base_loopbreak(run->base);
}

/* ---- the command ---- */

static void giveBack(struct run *run) {
    if (!run->is_ending) {
        run->is_ending = true;
        alarmStop(&run->kill);
        holderEnd(run->holder);
    }
}

static void setVariables(const struct run *run, const char *token) {
    setenv("LOCK_KEY", run->order->wish.key, 1);
    setenv("LOCK_OWNER", run->order->wish.owner, 1);
    if (token) {
        setenv("LOCK_TOKEN", token, 1);
    } else {
        unsetenv("LOCK_TOKEN"); /* an outer lockctl may have set it, for another lock */
    }
}

/* A signal that lockctl received before the command exists was meant for the wait, and ends it. */
static void onHeld(void *arg, const char *token) {
    struct run *run = arg;
    run->is_held = true;
    signalsHold();
    signalsReceive();
    if (!run->is_ending) {
        setVariables(run, token);
        int failure = commandStart(&run->command, run->order->words);
        if (failure) {
            run->status = failure;
            run->command.has_ended = true;
            giveBack(run);
        }
    }
    signalsAllow();
}

/* The command itself has ended. After a loss none of its processes may continue. */
static void onCommandEnd(struct run *run) {
    run->status = run->command.status;
    if (!run->is_lost || !commandSignalAll(SIGTERM)) {
        giveBack(run);
    }
}

static void onChild(struct run *run) {
    bool had_ended = run->command.has_ended;
    commandReap(&run->command);
    if (run->command.pid == 0 || !run->command.has_ended) {
        return;
    }
    if (!had_ended) {
        onCommandEnd(run);
    } else if (run->is_lost && !commandSignalAll(0)) {
        giveBack(run);
    }
}

/* ---- the lock ---- */

static void onNotHad(void *arg, int status, const char *why) {
    struct run *run = arg;
    failureSay("%s: %s", run->order->wish.key, why);
    run->status = status;
    stop(run);
}

static void onKill(void *arg) {
    struct run *run = arg;
    /* First the command itself: finding the others takes time on a busy machine. */
    commandSignal(&run->command, SIGKILL);
    if (commandSignalAll(SIGKILL)) {
        alarmSet(&run->kill, SWEEP_MS);
    }
}

static void onLost(void *arg, const char *why, int64_t until_ms) {
    struct run *run = arg;
    run->is_lost = true;
    commandSignal(&run->command, SIGTERM);
    commandSignal(&run->command, SIGCONT); /* a stopped process does not handle SIGTERM */
    int64_t left_ms = until_ms - clockNow();
    int64_t grace_ms = run->order->grace_ms;
    /* If no other client can hold the lock yet, the command must end before one can. A quarter of
     * the time is a reserve for an overloaded machine, on which killing takes time. */
    left_ms -= left_ms / 4;
    alarmSet(&run->kill, left_ms > 0 && left_ms < grace_ms ? left_ms : grace_ms);
    failureSay("%s: the lock is lost: %s", run->order->wish.key, why);
}

static void onEnd(void *arg, bool was_held) {
    struct run *run = arg;
    if (run->is_held && !was_held) {
        if (!run->is_lost) {
            failureSay("%s: the lock was lost before the command ended", run->order->wish.key);
        }
        run->status = FAILURE_LOST;
    }
    stop(run);
}

static const struct holderWatch holder_watch = {onHeld, onNotHad, onLost, onEnd};

/* ---- signals ---- */

static void onSignalBefore(struct run *run, int number) {
    if (number == SIGTSTP && run->is_held && !run->is_ending) {
        raise(number); /* stays blocked until the command exists, which must stop too */
    } else if (number == SIGTSTP) {
        signalsStop(); /* Ctrl-Z: stop, so that the shell notices */
    } else if (number != SIGCONT && number != SIGWINCH && !run->is_ending) {
        run->stopped_by = number;
        giveBack(run);
    }
}

static void onSignal(void *arg, int number, bool is_from_terminal) {
    struct run *run = arg;
    if (number == SIGCHLD) {
        onChild(run);
    } else if (run->command.pid == 0) {
        onSignalBefore(run, number);
    } else {
        if (!is_from_terminal) {
            commandSignal(&run->command, number);
        } else if (number == SIGINT || number == SIGQUIT) {
            run->key = number;
        }
        if (number == SIGTSTP) {
            signalsStop(); /* stop like the command, so that the shell notices */
        }
    }
}

/* ---- lockctl run ---- */

/* Ends lockctl by the signal, as if it had not been caught, so that a shell sees which signal it
 * was. */
static void dieBy(int number) {
    const struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigaction(number, &action, NULL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    raise(number);
}

static struct event_base *newBase(void) {
    struct event_config *config = event_config_new();
    event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER);
    struct event_base *base = event_base_new_with_config(config);
    event_config_free(config);
    if (!base) {
        failureExit(FAILURE_SYSTEM, "cannot create an event loop");
    }
    return base;
}

static void hold(struct run *run) {
    char *why = NULL;
    run->holder = holderNew(run->base, run->order->urls, run->order->url_count, &run->order->wish,
                            run->order->grace_ms, &holder_watch, run, &why);
    if (!run->holder) {
        failureSay("%s", why);
        free(why);
        run->status = FAILURE_USAGE;
        return;
    }
    holderBegin(run->holder);
    while (!run->is_over) {
        event_base_dispatch(run->base);
    }
    holderFree(run->holder);
}

int runCommand(const struct runOrder *order) {
    struct run run = {.order = order, .base = newBase()};
    alarmInit(&run.kill, run.base, onKill, &run);
    signalsBegin(run.base, onSignal, &run);
    hold(&run);
    signalsEnd();
    alarmFree(&run.kill);
    event_base_free(run.base);
    if (run.stopped_by && run.command.pid == 0) {
        dieBy(run.stopped_by);
    } else if (run.key && run.key == run.command.ended_by && run.status == run.command.status) {
        /* Both processes received it. A shell ends its loop only if the process that it waits for
         * has died by the signal of the key. */
        dieBy(run.key);
    }
    return run.status;
}
