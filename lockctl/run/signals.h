/* Signals, heard in the event loop, each once and none lost. What the command inherits is as if lockctl had
 * never touched it. */
#ifndef LOCKCTL_SIGNALS_H
#define LOCKCTL_SIGNALS_H

#include <event2/event.h>
#include <stdbool.h>
#include <sys/types.h>

/* `is_from_terminal`: the kernel has sent it, and to all of the terminal's foreground process group, the
 * command among them. Otherwise a process has sent it, to this one. */
typedef void signalsHeard(void *arg, int number, bool is_from_terminal);

/* From now on `heard` is told of signals. Those that were ignored when lockctl began stay so. */
void signalsBegin(struct event_base *base, signalsHeard *heard, void *arg);

/* As they were before signalsBegin: of the process, or, after fork(), of the command to be. */
void signalsRestore(void);

/* Holds all signals back, until signalsRestore or signalsAllow. */
void signalsHold(void);
void signalsAllow(void);

/* While they are held back: those that have come meanwhile go to the child `pid` too, as if it had been there
 * all the time. The child must hold them back yet, so that it hears none twice. They are heard here as from the
 * terminal: there is nothing more to be passed on. */
void signalsPassOn(pid_t pid);

/* `heard` is told now of what has come so far. Not from within `heard`. */
void signalsHear(void);

/* Readable when there is something to hear. */
int signalsFd(void);

/* Stops this process as SIGTSTP does: not at all where nobody could continue it. Returns when it goes on. */
void signalsStop(void);

/* Frees what signalsBegin made. */
void signalsEnd(void);

#endif
