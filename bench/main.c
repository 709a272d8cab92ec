/* lockbench: what the module costs, each figure compared with something that is well known.
 *
 * To add a measurement: a file measure/<name>.c with one function, its prototype in
 * measure/measure.h, a row below. */

#define _GNU_SOURCE

#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "base/table.h"
#include "machine/affinity.h"
#include "machine/callgrind.h"
#include "machine/probe.h"
#include "machine/server.h"
#include "machine/workspace.h"
#include "measure/measure.h"

enum {
    MAX_FILES = 40000,
    DEFAULT_ROUNDS = 5,
    MAX_ROUNDS = 1000,
    QUICK_ROUNDS = 2,
};

static const Measurement measurements[] = {
    {"self", "the same on both sides: how much noise there is", selfMeasure},
    {"pair", "an uncontended acquire and release", pairMeasure},
    {"handoff", "from one holder to the next, by number of waiters", handoffMeasure},
    {"fair", "the same in a fair queue, and leaving the queue", fairMeasure},
    {"rw", "readers: a pair, and each step by number of readers", rwMeasure},
    {"semaphore", "a pair, by number of other owners that hold permits", semaphoreMeasure},
    {"deadlock", "the search for cycles, by length of the chain of waits", deadlockMeasure},
    {"multikey", "a multi-key lock against locks of its keys, and with modes", multikeyMeasure},
    {"memory", "what a held lock takes", memoryMeasure},
    {"idle", "what a module that is loaded and idle costs other commands", idleMeasure},
    {"wake", "how soon a waiter is granted the lock, while other keys expire", wakeMeasure},
    {"session", "the end of a connection that holds a lock, and renewing while it is open",
     sessionMeasure},
    {"latch", "notifying the waiters of a latch that it is open", latchMeasure},
    {"watch", "how soon an owner is notified that it has lost a lock", watchMeasure},
    {"replicas", "a grant that a replica has to acknowledge", replicasMeasure},
    {"iothreads", "what the server's I/O threads change", iothreadsMeasure},
    {"delay", "the delayed queue: pushing, delivering, lateness, memory", delayMeasure},
};

enum { MEASUREMENTS = sizeof(measurements) / sizeof(*measurements) };

static void usage(FILE *out) {
    fprintf(out, "usage: lockbench [--rounds N] [--quick] [measurement ...]\n"
                 "       lockbench --list\n"
                 "environment: SERVER  the server's binary (redis-server)\n"
                 "             MODULE  the module (./lock.so)\n");
}

static void list(void) {
    for (unsigned i = 0; i < MEASUREMENTS; i++) {
        printf("%-10s %s\n", measurements[i].name, measurements[i].summary);
    }
}

static const Measurement *find(const char *name) {
    for (unsigned i = 0; i < MEASUREMENTS; i++) {
        if (strcmp(measurements[i].name, name) == 0) {
            return &measurements[i];
        }
    }
    return NULL;
}

static unsigned parseRounds(const char *text) {
    char *end = NULL;
    unsigned long rounds = strtoul(text, &end, 10);
    if (*text == '\0' || *end != '\0' || rounds < 1 || rounds > MAX_ROUNDS) {
        die("bad number of rounds: %s", text);
    }
    return (unsigned)rounds;
}

/* Returns the index of the first measurement's name in argv. */
static int parse(int argc, char **argv, Options *options) {
    static const struct option known[] = {
        {"rounds", required_argument, NULL, 'r'},
        {"quick", no_argument, NULL, 'q'},
        {"list", no_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    for (int option; (option = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (option) {
        case 'r':
            options->rounds = parseRounds(optarg);
            break;
        case 'q':
            options->quick = true;
            break;
        case 'l':
            list();
            exit(EXIT_SUCCESS);
        case 'h':
            usage(stdout);
            exit(EXIT_SUCCESS);
        default:
            usage(stderr);
            exit(EXIT_FAILURE);
        }
    }
    if (options->rounds == 0) {
        options->rounds = options->quick ? QUICK_ROUNDS : DEFAULT_ROUNDS;
    }
    for (int i = optind; i < argc; i++) {
        if (find(argv[i]) == NULL) {
            die("no such measurement: %s (--list names them)", argv[i]);
        }
    }
    return optind;
}

static const char *environmentOr(const char *name, const char *fallback) {
    const char *value = getenv(name);
    return value != NULL && *value != '\0' ? value : fallback;
}

/* The server changes to a folder of its own before it loads the module, so the module's path has
 * to be absolute. The server's name is not changed, because the binary decides by its name that it
 * is to run as a server. */
static void findFiles(Options *options) {
    static char module[PATH_MAX];
    options->server = environmentOr("SERVER", "redis-server");
    const char *path = environmentOr("MODULE", "./lock.so");
    if (realpath(path, module) == NULL) {
        die("no module at %s: run make, or set MODULE", path);
    }
    options->module = module;
}

static void printWhere(const Options *options) {
    char version[64];
    const ServerOptions plain = {0};
    Server *server = serverStart(options, &plain);
    probeVersion(server, version, sizeof(version));
    serverStop(server);
    printf("\n%s, %ld cores, %s, %u round%s%s\n", version, sysconf(_SC_NPROCESSORS_ONLN),
           options->callgrind ? "instructions by callgrind" : "no valgrind, so no instructions",
           options->rounds, options->rounds == 1 ? "" : "s",
           options->quick ? ", QUICK: a smoke test, not to be quoted" : "");
    if (tableMissed() > 0) {
        printf("%u target%s MISSED\n", tableMissed(), tableMissed() == 1 ? "" : "s");
    }
}

int main(int argc, char **argv) {
    Options options = {0};
    int first = parse(argc, argv, &options);
    findFiles(&options);
    workspaceSupervise();
    options.files = serverRaiseLimit(MAX_FILES);
    affinityTogether();
    options.callgrind = callgrindAvailable();
    for (int i = first; i < argc; i++) {
        find(argv[i])->run(&options);
    }
    for (unsigned i = 0; first == argc && i < MEASUREMENTS; i++) {
        measurements[i].run(&options);
    }
    printWhere(&options);
    return EXIT_SUCCESS;
}
