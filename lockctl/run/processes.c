/* See processes.h. */
#include "run/processes.h"

#include <ctype.h>
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

struct list {
    struct process *all;
    size_t count, room;
};

/* Reads a file of a process as text; returns whether there is one. */
static bool readFile(char *text, size_t size, const char *process, const char *name) {
    char path[300];
    snprintf(path, sizeof(path), "/proc/%s/%s", process, name);
    FILE *file = fopen(path, "r");
    size_t length = file ? fread(text, 1, size - 1, file) : 0;
    if (file) {
        fclose(file);
    }
    text[length] = '\0';
    return length > 0;
}

/* Reads "pid (name) state parent group session ...", in which the name may contain any
 * characters. */
static bool readProcess(struct process *process, const char *name) {
    char text[512];
    const char *behind = readFile(text, sizeof(text), name, "stat") ? strrchr(text, ')') : NULL;
    if (!behind || strlen(behind) < 4) {
        return false;
    }
    char *next;
    *process = (struct process){.pid = (pid_t)strtol(name, NULL, 10), .state = behind[2]};
    process->parent = (pid_t)strtol(behind + 3, &next, 10);
    process->group = (pid_t)strtol(next, &next, 10);
    process->session = (pid_t)strtol(next, &next, 10);
    return true;
}

static void add(struct list *list, const struct process *process) {
    if (list->count == list->room) {
        list->room = list->room ? 2 * list->room : 256;
        list->all = memoryResize(list->all, list->room * sizeof(*list->all));
    }
    list->all[list->count++] = *process;
}

/* In another PID namespace the numbers of /proc would be those of other processes. */
static bool isOurProc(void) {
    char target[32] = "";
    return readlink("/proc/self", target, sizeof(target) - 1) > 0 &&
           strtol(target, NULL, 10) == (long)getpid();
}

static struct list everyProcess(void) {
    struct list list = {0};
    DIR *folder = isOurProc() ? opendir("/proc") : NULL;
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        struct process process;
        if (isdigit((unsigned char)entry->d_name[0]) && readProcess(&process, entry->d_name)) {
            add(&list, &process);
        }
    }
    if (folder) {
        closedir(folder);
    }
    return list;
}

static int comparePids(const void *one, const void *other) {
    pid_t a = ((const struct process *)one)->pid;
    pid_t b = ((const struct process *)other)->pid;
    return (a > b) - (a < b);
}

static const struct process *find(const struct process *sorted, size_t count, pid_t pid) {
    const struct process wanted = {.pid = pid};
    return count > 0 ? bsearch(&wanted, sorted, count, sizeof(wanted), comparePids) : NULL;
}

/* What a process has received that was not there before is not known. If it has a parent in its
 * group, that one is responsible for it: it may have started it to handle the signal. */
static uint64_t inherited(const struct list *below, const struct process *process) {
    const struct process *parent = find(below->all, below->count, process->parent);
    return parent && parent->group == process->group ? parent->received : 0;
}

/* Moves the children of this process, and of those in `below`, from `rest` to `below`. Returns
 * whether there were any. */
static bool moveChildren(struct list *below, struct list *rest, const struct processes *before) {
    size_t kept = 0;
    struct list found = {0};
    for (size_t i = 0; i < rest->count; i++) {
        struct process *process = &rest->all[i];
        if (process->parent == getpid() || find(below->all, below->count, process->parent)) {
            const struct process *known = find(before->all, before->count, process->pid);
            process->received = known ? known->received : inherited(below, process);
            add(&found, process);
        } else {
            rest->all[kept++] = *process;
        }
    }
    rest->count = kept;
    for (size_t i = 0; i < found.count; i++) {
        add(below, &found.all[i]);
    }
    free(found.all);
    if (found.count > 0) {
        qsort(below->all, below->count, sizeof(*below->all), comparePids);
    }
    return found.count > 0;
}

/* What has ended counts until here, because its children are found by it. */
static void removeEnded(struct list *list) {
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (list->all[i].state != 'Z' && list->all[i].state != 'X') {
            list->all[kept++] = list->all[i];
        }
    }
    list->count = kept;
}

void processesUpdate(struct processes *below) {
    struct list rest = everyProcess();
    struct list found = {0};
    while (moveChildren(&found, &rest, below)) {
    }
    free(rest.all);
    removeEnded(&found);
    free(below->all);
    *below = (struct processes){found.all, found.count};
}

static uint64_t bitOf(int number) {
    return (uint64_t)1 << (number - 1);
}

void processNote(struct process *process, int number) {
    process->received |= bitOf(number);
}

bool processHasReceived(const struct process *process, int number) {
    return process->received & bitOf(number);
}

bool processIgnores(const struct process *process, int number) {
    char name[32];
    char text[4096];
    snprintf(name, sizeof(name), "%ld", (long)process->pid);
    const char *field =
        readFile(text, sizeof(text), name, "status") ? strstr(text, "\nSigIgn:") : NULL;
    uint64_t ignored = field ? strtoull(field + strlen("\nSigIgn:"), NULL, 16) : 0;
    return ignored & bitOf(number);
}
