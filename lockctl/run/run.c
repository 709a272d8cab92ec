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

/* The intervals between searches for processes that a killed command has left behind. They grow,
 * because there may be processes that cannot be killed soon. */
#define SWEEP_MS 10
#define LONGEST_SWEEP_MS 1000

struct run {
    const struct runOrder *order;
    struct event_base *base;
    struct holder *holder;
    struct command command;
    struct alarm kill;  /* the time for SIGKILL: the lock was lost, or processes are left */
    int64_t kill_ms;    /* that time, by clockNow, or 0 */
    int64_t sweep_ms;   /* the interval between searches */
    sigset_t signalled; /* what the command's process group has received */
    int asked_to_end;   /* the last of it that asks the command to end, or 0 */
    int status;
    int stopped_by; /* the signal that ended the wait for the lock, or 0 */
    int key;        /* the last signal of a key of the terminal, SIGINT or SIGQUIT, or 0 */
    bool is_held, is_lost, is_ending, is_over;
    bool has_run; /* the command was started */
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
        holderEnd(run->holder, run->has_run ? HOLDER_KEEP : HOLDER_RELEASE);
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
        run->has_run = failure == 0;
        if (failure) {
            run->status = failure;
            run->command.has_ended = true;
            giveBack(run);
        }
    }
    signalsAllow();
}

/* Returns the signal that has ended the command and was sent to its whole group, or 0. A shell may
 * report the signal that has ended its child. After SIGTERM every end counts, because programs that
 * handle it choose their status. */
static int endingSignal(const struct run *run) {
    int number = run->command.status - 128;
    if (number > 0 && number < NSIG && sigismember(&run->signalled, number) == 1) {
        return number;
    }
    return run->asked_to_end;
}

static enum commandScope scopeOfEnd(const struct run *run) {
    return run->is_lost ? COMMAND_ALL : COMMAND_SESSION;
}

/* Sets the time for SIGKILL, unless an earlier one is set. */
static void killAfter(struct run *run, int64_t ms) {
    int64_t at_ms = clockNow() + ms;
    if (run->kill_ms == 0 || at_ms < run->kill_ms) {
        run->kill_ms = at_ms;
        run->sweep_ms = SWEEP_MS;
        alarmSet(&run->kill, ms);
    }
}

/* The command itself has ended. If it has ended by itself, what it leaves behind runs without the
 * lock. If a signal has ended it, whoever sent that, what is left of it must end first, and after a
 * loss none of its processes may continue. */
static void onCommandEnd(struct run *run) {
    bool has_ended_itself = !run->is_lost && endingSignal(run) == 0 && run->command.ended_by == 0;
    run->status = run->command.status;
    if (has_ended_itself) {
        giveBack(run);
    } else if (!run->is_lost) {
        killAfter(run, run->order->grace_ms);
    }
}

/* Processes that are left may still start others, which are found when their parents end. */
static void endWhatIsLeft(struct run *run) {
    int number = run->is_lost ? SIGTERM : endingSignal(run);
    if (commandEndLeft(&run->command, scopeOfEnd(run), number) == 0) {
        giveBack(run);
    }
}

static void onChild(struct run *run) {
    bool had_ended = run->command.has_ended;
    commandReap(&run->command);
    if (run->command.pid == 0 || !run->command.has_ended || run->is_ending) {
        return;
    }
    if (!had_ended) {
        onCommandEnd(run);
    }
    if (!run->is_ending) {
        endWhatIsLeft(run);
    }
}

/* Passes a signal on to the command's process group. */
static void passOn(struct run *run, int number, bool is_for_group) {
    if (!is_for_group || !commandHasReceived(&run->command, number)) {
        commandSignal(&run->command, number);
    }
    sigaddset(&run->signalled, number);
    bool asks = number == SIGTERM || (!is_for_group && (number == SIGINT || number == SIGQUIT));
    run->asked_to_end = asks ? number : run->asked_to_end;
}

/* ---- the lock ---- */

static void onNotHad(void *arg, int status, const char *why) {
    struct run *run = arg;
    bool is_conflict = status == FAILURE_NOT_HAD;
    if (!is_conflict || !run->order->is_quiet) {
        failureSay("%s: %s", run->order->wish.key, why);
    }
    run->status = is_conflict ? run->order->conflict_status : status;
    stop(run);
}

static void onKill(void *arg) {
    struct run *run = arg;
    size_t count = commandKill(&run->command, scopeOfEnd(run));
    if (count > 0 && run->sweep_ms == SWEEP_MS && !run->is_lost) {
        failureSay("%s: killed what the command has left: %zu process%s", run->order->wish.key,
                   count, count == 1 ? "" : "es");
    }
    if (count > 0) {
        alarmSet(&run->kill, run->sweep_ms);
        run->sweep_ms = run->sweep_ms < LONGEST_SWEEP_MS ? 2 * run->sweep_ms : LONGEST_SWEEP_MS;
    } else if (run->command.has_ended) {
        giveBack(run); /* the last ones have left the session */
    }
}

static void onLost(void *arg, const char *why, int64_t until_ms) {
    struct run *run = arg;
    run->is_lost = true;
    if (!run->command.has_ended) {
        commandSignal(&run->command, SIGTERM);
    } else if (!run->is_ending) {
        commandEndLeft(&run->command, scopeOfEnd(run), SIGTERM);
    }
    int64_t left_ms = until_ms - clockNow();
    int64_t grace_ms = run->order->grace_ms;
    /* If no other client can hold the lock yet, the command must end before one can. A quarter of
     * the time is a reserve for an overloaded machine, on which killing takes time. */
    left_ms -= left_ms / 4;
    killAfter(run, left_ms > 0 && left_ms < grace_ms ? left_ms : grace_ms);
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

static void onSignal(void *arg, int number, bool is_for_group) {
    struct run *run = arg;
    if (number == SIGCHLD) {
        onChild(run);
    } else if (run->command.pid == 0) {
        onSignalBefore(run, number);
    } else {
        passOn(run, number, is_for_group);
        if (is_for_group && (number == SIGINT || number == SIGQUIT)) {
            run->key = number;
        }
        if (number == SIGTSTP) {
            signalsStop(); /* stop like the command, so that the shell notices */
        }
    }
}

/* ---- lockctl run ---- */

/* Ends lockctl by the signal, as if it had not been caught, so that a shell sees which signal it
 * was. Returns where that is not possible: process 1 of a container ignores signals that it does
 * not catch. Then the status shows the signal. */
static int dieBy(int number) {
    const struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigaction(number, &action, NULL);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    raise(number);
    return 128 + number;
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
    sigemptyset(&run.signalled);
    signalsBegin(run.base, onSignal, &run);
    hold(&run);
    signalsEnd();
    commandFree(&run.command);
    alarmFree(&run.kill);
    event_base_free(run.base);
    if (run.stopped_by && run.command.pid == 0) {
        return dieBy(run.stopped_by);
    }
    if (run.key && run.key == run.command.ended_by && run.status == run.command.status) {
        /* Both processes received it. A shell ends its loop only if the process that it waits for
         * has died by the signal of the key. */
        return dieBy(run.key);
    }
    return run.status;
}
