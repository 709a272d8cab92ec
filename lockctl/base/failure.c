/* See failure.h. */
#include "base/failure.h"

#include <ctype.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The longest line. A pipe that is writable accepts this much at once: PIPE_BUF. */
#define LONGEST 4096
#define PATIENCE_MS 100

/* Names may contain any bytes, and some bytes would control the terminal. */
static char *addShown(char *to, char byte) {
    if (iscntrl((unsigned char)byte)) {
        return to + sprintf(to, "\\x%02x", (unsigned char)byte);
    }
    *to = byte;
    return to + 1;
}

/* Drops a line that cannot be written soon: it may have no reader, and lockctl must still be able
 * to end the command. Uses one write, so that output of other processes does not interrupt the
 * line. */
static void writeLine(const char *line) {
    struct pollfd place = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&place, 1, PATIENCE_MS) == 1 && (place.revents & POLLOUT)) {
        ssize_t written = write(STDERR_FILENO, line, strlen(line));
        (void)written; /* there is nowhere to report a failure */
    }
}

static void say(const char *format, va_list arguments) {
    char text[LONGEST / 4];
    vsnprintf(text, sizeof(text), format, arguments);
    char line[LONGEST];
    char *to = line + sprintf(line, "lockctl: ");
    for (const char *from = text; *from && to < line + LONGEST - 6; from++) {
        to = addShown(to, *from);
    }
    *to++ = '\n';
    *to = '\0';
    writeLine(line);
}

void failureSay(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
}

void failureExit(int status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    say(format, arguments);
    va_end(arguments);
    exit(status);
}

void failureUsage(const char *what, const char *value) {
    failureExit(FAILURE_USAGE, "%s%s%s; see lockctl --help", what, value ? ": " : "",
                value ? value : "");
}
