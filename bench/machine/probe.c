/* Reading /proc and INFO. */

#define _POSIX_C_SOURCE 200809L

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/probe.h"

enum {
    SETTLE_NS = 1000000,
    MEMORY_STEP_NS = 150000000,
    MEMORY_STEPS = 60,
    MEMORY_EQUAL = 5,
};

/* ---- CPU ------------------------------------------------------------------------------------ */

/* The first of three numbers in the thread's schedstat. A thread that has ended since the folder
 * was read counts as 0. */
static uint64_t threadCpuNs(const char *tasks, const char *thread) {
    char path[320];
    char line[96] = "";
    snprintf(path, sizeof(path), "%s/%s/schedstat", tasks, thread);
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return 0;
    }
    if (fgets(line, sizeof(line), file) == NULL) {
        line[0] = '\0';
    }
    fclose(file);
    return strtoull(line, NULL, 10);
}

uint64_t probeCpuNs(const Server *server) {
    char tasks[48];
    uint64_t ns = 0;
    sleepNs(SETTLE_NS);
    snprintf(tasks, sizeof(tasks), "/proc/%ld/task", (long)server->pid);
    DIR *folder = opendir(tasks);
    if (folder == NULL) {
        die("the server has ended: %s: %s", tasks, strerror(errno));
    }
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        if (entry->d_name[0] != '.') {
            ns += threadCpuNs(tasks, entry->d_name);
        }
    }
    closedir(folder);
    if (ns == 0) {
        die("this kernel has no schedstat");
    }
    return ns;
}

/* ---- INFO ----------------------------------------------------------------------------------- */

/* Copies the field's value, or returns false if INFO has no such field. */
static bool infoField(const Server *server, const char *field, char *value, size_t size) {
    char start[64];
    redisReply *reply = redisCommand(server->control, "INFO everything");
    if (reply == NULL || reply->str == NULL) {
        die("INFO: %s", server->control->errstr);
    }
    snprintf(start, sizeof(start), "\n%s:", field);
    const char *found = strstr(reply->str, start);
    if (found != NULL) {
        found += strlen(start);
        snprintf(value, size, "%.*s", (int)strcspn(found, "\r\n"), found);
    }
    freeReplyObject(reply);
    return found != NULL;
}

uint64_t probeCounter(const Server *server, const char *field) {
    char text[32];
    if (!infoField(server, field, text, sizeof(text))) {
        die("INFO has no %s", field);
    }
    return strtoull(text, NULL, 10);
}

static uint64_t usedMemory(const Server *server) {
    return probeCounter(server, "used_memory");
}

/* A table that is being resized is in memory twice, and the server resizes it in small steps. It is
 * finished when several readings in a row are equal. */
uint64_t probeMemory(const Server *server) {
    uint64_t last = usedMemory(server);
    for (int step = 0, equal = 0; step < MEMORY_STEPS && equal < MEMORY_EQUAL; step++) {
        sleepNs(MEMORY_STEP_NS);
        uint64_t now = usedMemory(server);
        equal = now == last ? equal + 1 : 0;
        last = now;
    }
    return last;
}

/* Valkey also reports the version of Redis that it is compatible with. */
void probeVersion(const Server *server, char *text, size_t size) {
    char version[32];
    if (infoField(server, "valkey_version", version, sizeof(version))) {
        snprintf(text, size, "Valkey %s", version);
    } else if (infoField(server, "redis_version", version, sizeof(version))) {
        snprintf(text, size, "Redis %s", version);
    } else {
        snprintf(text, size, "unknown server");
    }
}
