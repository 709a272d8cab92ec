/* Uses callgrind_control to switch the counting on, and valgrind's files to read the totals. */

#define _POSIX_C_SOURCE 200809L

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine/callgrind.h"

/* The output of a child is not needed. */
static void silence(void) {
    int null = open("/dev/null", O_WRONLY);
    dup2(null, STDOUT_FILENO);
    dup2(null, STDERR_FILENO);
}

bool callgrindAvailable(void) {
    pid_t pid = fork();
    int status = -1;
    if (pid == 0) {
        silence();
        execlp("valgrind", "valgrind", "--version", (char *)NULL);
        _exit(EXIT_FAILURE);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* Sends a command to the server's valgrind with callgrind_control. */
static void control(const Server *server, const char *order) {
    char prefix[sizeof(server->folder) + 32];
    char pid[16];
    int status = -1;
    snprintf(prefix, sizeof(prefix), "--vgdb-prefix=%s/vgdb", server->folder);
    snprintf(pid, sizeof(pid), "%ld", (long)server->pid);
    pid_t child = fork();
    if (child == 0) {
        silence();
        execlp("callgrind_control", "callgrind_control", prefix, order, pid, (char *)NULL);
        _exit(EXIT_FAILURE);
    }
    if (child == -1 || waitpid(child, &status, 0) != child || status != 0) {
        die("callgrind_control %s failed", order);
    }
}

/* The total in the last file that callgrind has written. */
static uint64_t readInstructions(const Server *server) {
    char path[sizeof(server->folder) + 32];
    char line[512];
    uint64_t count = 0;
    snprintf(path, sizeof(path), "%s/callgrind.out.%u", server->folder, server->counts);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        die("callgrind left no %s: %s", path, strerror(errno));
    }
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "totals: ", 8) == 0) {
            count = strtoull(line + 8, NULL, 10);
        }
    }
    fclose(file);
    return count;
}

void callgrindStart(const Server *server) {
    control(server, "--instr=on");
}

uint64_t callgrindCounted(Server *server) {
    server->counts++;
    control(server, "--dump");
    return readInstructions(server);
}
