/* Receives signals in the event loop, each once, and loses none. The command inherits the state of
 * signals that lockctl inherited. */
#ifndef LOCKCTL_SIGNALS_H
#define LOCKCTL_SIGNALS_H

#include <event2/event.h>
#include <stdbool.h>
#include <sys/types.h>

/* `is_for_group`: the signal was sent to the whole process group of lockctl, so also to a command
 * in that group: by a key of the terminal, or by another lockctl, whose command this lockctl is.
 * Otherwise it was sent to lockctl, as far as that can be known. */
typedef void signalsReceived(void *arg, int number, bool is_for_group);

/* From now on `receive` is called for signals. Signals that were ignored when lockctl started stay
 * ignored. */
void signalsBegin(struct event_base *base, signalsReceived *receive, void *arg);

/* Restores the state before signalsBegin: in lockctl, or, after fork(), in the child that becomes
 * the command. */
void signalsRestore(void);

/* Blocks all signals, until signalsRestore or signalsAllow. */
void signalsHold(void);
void signalsAllow(void);

/* While signals are blocked: sends the pending ones to the child `pid` too, as if it had existed
 * when they were sent. The child must still block them, so that it receives none twice. `receive`
 * gets them as for the group, because they need not be passed on again. */
void signalsPassOn(pid_t pid);

/* Sends a signal to one process of the group, and marks it as sent to the whole group. */
void signalsSend(pid_t pid, int number);

/* Calls `receive` now for the signals that have arrived. `receive` itself must not call this. */
void signalsReceive(void);

/* Whether SIGTSTP has arrived, and `receive` was not called for it yet. */
bool signalsStopIsPending(void);

/* A file descriptor that is readable when a signal has arrived. */
int signalsFd(void);

/* Stops this process as SIGTSTP does: it does not stop where no process could continue it. Returns
 * when it continues. */
void signalsStop(void);

/* Frees what signalsBegin created. */
void signalsEnd(void);

#endif
