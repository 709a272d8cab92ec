/* The error messages of lockctl, and its exit statuses. */
#ifndef LOCKCTL_FAILURE_H
#define LOCKCTL_FAILURE_H

/* Statuses of sysexits.h where one fits; 126 and 127 are those of shells. */
enum failureStatus {
    FAILURE_USAGE = 64,
    FAILURE_UNAVAILABLE = 69, /* no server replied, or the server refused the request */
    FAILURE_SYSTEM = 71,      /* no memory, or no process could be created */
    FAILURE_NOT_HAD = 75,     /* the lock was not acquired within the timeout */
    FAILURE_LOST = 76,        /* the lock was lost while the command ran */
    FAILURE_CANNOT_RUN = 126,
    FAILURE_NO_COMMAND = 127
};

/* Writes "lockctl: ..." and a newline to stderr. */
void failureSay(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, and ends the process with `status`. */
void failureExit(int status, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

/* The same for wrong usage: the status is FAILURE_USAGE, and the message refers to --help. `value`
 * may be NULL. */
void failureUsage(const char *what, const char *value) __attribute__((noreturn));

#endif
