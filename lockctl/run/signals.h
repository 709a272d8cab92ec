/* Receives signals in the event loop, each once, and loses none. The command inherits the state of
 * signals that lockctl inherited. */
#ifndef LOCKCTL_SIGNALS_H
#define LOCKCTL_SIGNALS_H

#include <event2/event.h>
#include <stdbool.h>
#include <sys/types.h>

/* `is_from_terminal`: the kernel has sent the signal, to the whole foreground process group of the
 * terminal, so also to the command. Otherwise a process has sent it, to lockctl. */
typedef void signalsReceived(void *arg, int number, bool is_from_terminal);

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
 * gets them as from the terminal, because they need not be passed on again. */
void signalsPassOn(pid_t pid);

/* Calls `receive` now for the signals that have arrived. `receive` itself must not call this. */
void signalsReceive(void);

/* A file descriptor that is readable when a signal has arrived. */
int signalsFd(void);

/* Stops this process as SIGTSTP does: it does not stop where no process could continue it. Returns
 * when it continues. */
void signalsStop(void);

/* Frees what signalsBegin created. */
void signalsEnd(void);

#endif
