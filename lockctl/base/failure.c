/* See failure.h. */
#include "base/failure.h"

#include <ctype.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of a line. A pipe that takes anything takes so much at once: PIPE_BUF. */
#define LONGEST 4096
#define PATIENCE_MS 100

/* Names have any bytes, and some of them would be commands for the terminal. */
static char *addShown(char *to, char byte) {
    if (iscntrl((unsigned char)byte)) {
        return to + sprintf(to, "\\x%02x", (unsigned char)byte);
    }
    *to = byte;
    return to + 1;
}

/* Nobody may be reading, and the command has to be ended all the same: so what cannot be written soon is not
 * said. In one write, so that what others write to the same terminal does not come in between. */
static void writeLine(const char *line) {
    struct pollfd place = {.fd = STDERR_FILENO, .events = POLLOUT};
    if (poll(&place, 1, PATIENCE_MS) == 1 && (place.revents & POLLOUT)) {
        ssize_t written = write(STDERR_FILENO, line, strlen(line));
        (void)written; /* there is no other place to say so */
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
