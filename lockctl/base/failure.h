/* How lockctl says that something went wrong, and the statuses that it ends with. */
#ifndef LOCKCTL_FAILURE_H
#define LOCKCTL_FAILURE_H

/* Those of sysexits.h where it has one that fits; 126 and 127 are the shells'. */
enum failureStatus {
    FAILURE_USAGE = 64,
    FAILURE_UNAVAILABLE = 69, /* no server answers, or it refuses */
    FAILURE_SYSTEM = 71,      /* no memory, no process */
    FAILURE_NOT_HAD = 75,     /* somebody else had the lock all the time */
    FAILURE_LOST = 76,        /* the lock was lost while the command ran */
    FAILURE_CANNOT_RUN = 126,
    FAILURE_NO_COMMAND = 127
};

/* Writes "lockctl: ..." and a newline to stderr. */
void failureSay(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Likewise, and ends the process with `status`. */
void failureExit(int status, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

/* Likewise for what users have written, with FAILURE_USAGE and where to read on. `value` may be NULL. */
void failureUsage(const char *what, const char *value) __attribute__((noreturn));

#endif
