/* See options.h. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/failure.h"
#include "base/memory.h"

/* The text of what the Makefile has read from the file VERSION. */
#define TEXT(version) #version
#define TEXT_OF(version) TEXT(version)

#define DEFAULT_GRACE_MS 5000
#define DEFAULT_SILENCE_MS 5000
#define DEFAULT_LEASE_MS 10000
#define LONGEST_S 1e9
#define LONGEST_OWNER 512

static const char usage[] =
    "usage: lockctl run [options] KEY [--] command [argument ...]\n"
    "       lockctl ls [-u URL ...] [--json] [pattern]\n"
    "       lockctl top [-u URL ...] [--once] [--json] [--interval t] [--count n]\n"
    "\n"
    "run: runs the command while it holds the lock KEY.\n"
    "  -w, --wait t       wait for the lock at most t; 0 = try once (default: no limit)\n"
    "  -n, --nonblock     the same as --wait 0\n"
    "  -E, --conflict-exit-code n\n"
    "                     the exit status if the lock was not acquired in time (default: 75)\n"
    "  -q, --quiet        no message if the lock was not acquired in time\n"
    "  -l, --lease t      hold the lock with a lease of t, which is renewed\n"
    "      --session      hold the lock while connected (the default with one server)\n"
    "      --at-least t   keep the lock until t after it was acquired, also when the command\n"
    "                     ends sooner; with a lease of 10 s unless -l sets another\n"
    "  -f, --fair         first come, first served\n"
    "  -s, --shared       share the lock with others that use --shared\n"
    "  -x, --exclusive    do not share it (the default)\n"
    "      --semaphore n  take one of n permits\n"
    "      --replicas n   hold the lock only after n replicas have acknowledged it\n"
    "      --owner name   the name of the owner (default: a unique name)\n"
    "      --grace t      the time until SIGKILL, when the lock is lost or a signal has ended the\n"
    "                     command (default: 5 s)\n"
    "      --timeout t    a server that does not reply for so long is gone (default: 5 s)\n"
    "  exit status: that of the command; 75 the lock was not acquired in time, 76 it was lost,\n"
    "  69 no server replied, 64 wrong usage, 126 and 127 the command cannot be run\n"
    "  A time t is in seconds, or has a unit: 500ms, 90s, 10m, 2h, 1d.\n"
    "ls: lists the locks that are held. top: shows the locks that have waiters.\n"
    "\n"
    "  -u, --url URL      redis://, rediss://, valkey://, valkeys://, unix://,\n"
    "                     redis+sentinel://master@host,host, redis+cluster://host,host;\n"
    "                     @FILE: a file with URLs. With run, three or more are independent\n"
    "                     servers, and a majority must grant the lock\n"
    "                     (default: $LOCKCTL_URL, " URLS_DEFAULT ")\n"
    "  -h, --help         -V, --version\n";

/* ---- values ---- */

/* Returns the milliseconds of a unit, or 0 if there is no such unit. */
static double unitOf(const char *text) {
    static const struct {
        const char *name;
        double ms;
    } units[] = {{"", 1000}, {"ms", 1}, {"s", 1000}, {"m", 60e3}, {"h", 3600e3}, {"d", 86400e3}};
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(text, units[i].name) == 0) {
            return units[i].ms;
        }
    }
    return 0;
}

/* Reads a duration, such as 90, 1.5h or 500ms. */
static int64_t millisecondsOf(const char *option, const char *text) {
    size_t length = strspn(text, "0123456789.");
    char *end;
    double number = strtod(text, &end);
    double unit_ms = unitOf(text + length);
    if (length == 0 || end != text + length || unit_ms == 0 ||
        number * unit_ms > LONGEST_S * 1000) {
        failureUsage(option, "must be a duration, such as 90, 500ms, 10m, 2h or 1d");
    }
    return (int64_t)(number * unit_ms + 0.5);
}

static int64_t numberOf(const char *option, const char *text) {
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (end == text || *end || errno || number < 1 || number > INT32_MAX) {
        failureUsage(option, "must be a whole number, 1 or more");
    }
    return number;
}

static int statusOf(const char *option, const char *text) {
    size_t length = strspn(text, "0123456789");
    long number = strtol(text, NULL, 10);
    if (length == 0 || length > 3 || text[length] || number > 255) {
        failureUsage(option, "must be a whole number from 0 to 255");
    }
    return (int)number;
}

/* ---- options ---- */

enum {
    OPT_SESSION = 256,
    OPT_AT_LEAST,
    OPT_SEMAPHORE,
    OPT_REPLICAS,
    OPT_OWNER,
    OPT_GRACE,
    OPT_TIMEOUT,
    OPT_JSON,
    OPT_ONCE,
    OPT_INTERVAL,
    OPT_COUNT
};

static const struct option run_options[] = {{"url", required_argument, NULL, 'u'},
                                            {"wait", required_argument, NULL, 'w'},
                                            {"nonblock", no_argument, NULL, 'n'},
                                            {"conflict-exit-code", required_argument, NULL, 'E'},
                                            {"quiet", no_argument, NULL, 'q'},
                                            {"lease", required_argument, NULL, 'l'},
                                            {"at-least", required_argument, NULL, OPT_AT_LEAST},
                                            {"session", no_argument, NULL, OPT_SESSION},
                                            {"fair", no_argument, NULL, 'f'},
                                            {"shared", no_argument, NULL, 's'},
                                            {"exclusive", no_argument, NULL, 'x'},
                                            {"semaphore", required_argument, NULL, OPT_SEMAPHORE},
                                            {"replicas", required_argument, NULL, OPT_REPLICAS},
                                            {"owner", required_argument, NULL, OPT_OWNER},
                                            {"grace", required_argument, NULL, OPT_GRACE},
                                            {"timeout", required_argument, NULL, OPT_TIMEOUT},
                                            {"help", no_argument, NULL, 'h'},
                                            {"version", no_argument, NULL, 'V'},
                                            {0}};

static const struct option look_options[] = {{"url", required_argument, NULL, 'u'},
                                             {"json", no_argument, NULL, OPT_JSON},
                                             {"once", no_argument, NULL, OPT_ONCE},
                                             {"interval", required_argument, NULL, OPT_INTERVAL},
                                             {"count", required_argument, NULL, OPT_COUNT},
                                             {"timeout", required_argument, NULL, OPT_TIMEOUT},
                                             {"help", no_argument, NULL, 'h'},
                                             {"version", no_argument, NULL, 'V'},
                                             {0}};

/* Handles an option that all subcommands have; returns whether it was one. */
static bool takeCommon(struct options *options, int option, char *value) {
    switch (option) {
    case 'u':
        urlsTake(&options->urls, value);
        return true;
    case OPT_TIMEOUT:
        options->look.silence_ms = options->run.wish.silence_ms =
            millisecondsOf("--timeout", value);
        if (options->look.silence_ms == 0) {
            failureUsage("--timeout", "must be more than 0");
        }
        return true;
    case 'h':
        fputs(usage, stdout);
        exit(0);
    case 'V':
        puts("lockctl " TEXT_OF(LOCK_VERSION));
        exit(0);
    default:
        return false;
    }
}

static void setKind(struct wish *wish, enum wishKind kind) {
    if (wish->kind != WISH_PLAIN && wish->kind != kind) {
        failureUsage("--fair, --shared and --semaphore exclude each other", NULL);
    }
    wish->kind = kind;
}

/* As with flock(1), the last one of -s and -x counts. */
static void setExclusive(struct wish *wish) {
    if (wish->kind == WISH_SEMAPHORE) {
        failureUsage("--exclusive and --semaphore exclude each other", NULL);
    }
    wish->kind = wish->kind == WISH_SHARED ? WISH_PLAIN : wish->kind;
}

static void takeRunOption(struct options *options, int option, char *value, bool *is_session) {
    struct wish *wish = &options->run.wish;
    switch (option) {
    case 'w':
        wish->wait_ms = millisecondsOf("--wait", value);
        break;
    case 'l':
        wish->lease_ms = millisecondsOf("--lease", value);
        if (wish->lease_ms < 100) {
            failureUsage("--lease", "must be at least 0.1 seconds");
        }
        break;
    case 'n':
        wish->wait_ms = 0;
        break;
    case 'E':
        options->run.conflict_status = statusOf("--conflict-exit-code", value);
        break;
    case 'q':
        options->run.is_quiet = true;
        break;
    case OPT_AT_LEAST:
        wish->at_least_ms = millisecondsOf("--at-least", value);
        break;
    case OPT_SESSION:
        *is_session = true;
        break;
    case 'f':
        setKind(wish, WISH_FAIR);
        break;
    case 's':
        setKind(wish, WISH_SHARED);
        break;
    case 'x':
        setExclusive(wish);
        break;
    case OPT_SEMAPHORE:
        setKind(wish, WISH_SEMAPHORE);
        wish->limit = numberOf("--semaphore", value);
        break;
    case OPT_REPLICAS:
        wish->replicas = numberOf("--replicas", value);
        break;
    case OPT_OWNER:
        wish->owner = value;
        break;
    case OPT_GRACE:
        options->run.grace_ms = millisecondsOf("--grace", value);
        break;
    default:
        exit(FAILURE_USAGE); /* getopt has printed an error */
    }
}

static void takeLookOption(struct options *options, int option, const char *value) {
    bool is_top = options->task == OPTIONS_TOP;
    if (option == OPT_JSON) {
        options->look.as_json = true;
    } else if (option == OPT_ONCE && is_top) {
        options->look.is_once = true;
    } else if (option == OPT_INTERVAL && is_top) {
        options->look.interval_ms = millisecondsOf("--interval", value);
        if (options->look.interval_ms < 100) {
            failureUsage("--interval", "must be at least 0.1 seconds");
        }
    } else if (option == OPT_COUNT && is_top) {
        options->look.count = numberOf("--count", value);
    } else if (option == '?') {
        exit(FAILURE_USAGE);
    } else {
        failureUsage("this option is only for top", NULL);
    }
}

/* ---- checks and defaults ---- */

/* A unique name: the host, the process and 128 random bits. */
static char *newOwner(void) {
    char host[65] = "";
    unsigned char random[16];
    gethostname(host, sizeof(host) - 1);
    if (getentropy(random, sizeof(random)) != 0) {
        failureExit(FAILURE_SYSTEM, "cannot get random numbers");
    }
    char hex[33];
    for (size_t i = 0; i < sizeof(random); i++) {
        snprintf(hex + 2 * i, 3, "%02x", random[i]);
    }
    return memoryPrint("%s:%ld:%s", host, (long)getpid(), hex);
}

static void checkMajority(struct options *options, bool is_session) {
    struct wish *wish = &options->run.wish;
    if (options->urls.count == 2) {
        failureUsage("two servers have no majority if one of them fails: give one URL, or three",
                     NULL);
    }
    if (is_session || wish->kind == WISH_FAIR || wish->kind == WISH_SEMAPHORE || wish->replicas) {
        failureUsage(
            "--session, --fair, --semaphore and --replicas need one server, not a majority", NULL);
    }
    if (wish->lease_ms == 0) {
        wish->lease_ms = DEFAULT_LEASE_MS;
    }
}

static void checkAtLeast(struct wish *wish, bool is_session) {
    if (is_session) {
        failureUsage("--at-least needs a lease, not --session: a session ends with its connection",
                     NULL);
    }
    if (wish->owner) {
        failureUsage("--at-least and --owner exclude each other: the same owner acquires it again",
                     NULL);
    }
    if (wish->lease_ms == 0) {
        wish->lease_ms = DEFAULT_LEASE_MS;
    }
}

static void completeRun(struct options *options, bool is_session) {
    struct wish *wish = &options->run.wish;
    if (is_session && wish->lease_ms > 0) {
        failureUsage("--session and --lease exclude each other", NULL);
    }
    if (wish->at_least_ms > 0) {
        checkAtLeast(wish, is_session);
    }
    if (options->urls.count > 1) {
        checkMajority(options, is_session);
    }
    if (!wish->owner) {
        wish->owner = options->own_owner = newOwner();
        wish->is_own_owner = true;
    }
    if (!*wish->owner || strlen(wish->owner) > LONGEST_OWNER) {
        failureUsage("--owner", "must be 1 to 512 bytes long");
    }
    options->run.urls = options->urls.list;
    options->run.url_count = options->urls.count;
}

/* ---- parsing ---- */

static void readRun(struct options *options, int argc, char **argv) {
    bool is_session = false;
    int option;
    /* '+': the words after the key belong to the command. */
    while ((option = getopt_long(argc, argv, "+u:w:nE:ql:fsxhV", run_options, NULL)) >= 0) {
        if (!takeCommon(options, option, optarg)) {
            takeRunOption(options, option, optarg, &is_session);
        }
    }
    if (optind >= argc) {
        failureUsage("run: no lock given", NULL);
    }
    options->run.wish.key = argv[optind++];
    if (optind < argc && strcmp(argv[optind], "--") == 0) {
        optind++;
    }
    if (optind >= argc) {
        failureUsage("run: no command given", NULL);
    }
    options->run.words = argv + optind;
    urlsComplete(&options->urls);
    completeRun(options, is_session);
}

static void readLook(struct options *options, int argc, char **argv) {
    int option;
    while ((option = getopt_long(argc, argv, "u:hV", look_options, NULL)) >= 0) {
        if (!takeCommon(options, option, optarg)) {
            takeLookOption(options, option, optarg);
        }
    }
    if (options->task == OPTIONS_LS && optind < argc) {
        options->look.pattern = argv[optind++];
    }
    if (optind < argc) {
        failureUsage("unexpected argument", argv[optind]);
    }
    urlsComplete(&options->urls);
    options->look.urls = options->urls.list;
    options->look.url_count = options->urls.count;
}

/* Makes getopt start again with another list of words. */
static void restartGetopt(void) {
#ifdef __GLIBC__
    optind = 0;
#else
    optreset = 1;
    optind = 1;
#endif
}

static enum optionsTask taskOf(const char *word) {
    if (strcmp(word, "run") == 0) {
        return OPTIONS_RUN;
    }
    if (strcmp(word, "ls") == 0) {
        return OPTIONS_LS;
    }
    if (strcmp(word, "top") == 0) {
        return OPTIONS_TOP;
    }
    failureUsage("no such subcommand", word);
}

void optionsRead(struct options *options, int argc, char **argv) {
    *options = (struct options){
        .run = {.grace_ms = DEFAULT_GRACE_MS,
                .conflict_status = FAILURE_NOT_HAD,
                .wish = {.wait_ms = -1, .silence_ms = DEFAULT_SILENCE_MS}},
        .look = {.interval_ms = 1000, .count = 20, .silence_ms = DEFAULT_SILENCE_MS}};
    int option;
    while ((option = getopt_long(argc, argv, "+u:hV", run_options, NULL)) >= 0) {
        if (!takeCommon(options, option, optarg)) {
            failureUsage("only -u, -h and -V may precede the subcommand", NULL);
        }
    }
    if (optind >= argc) {
        fputs(usage, stderr);
        exit(FAILURE_USAGE);
    }
    options->task = taskOf(argv[optind]);
    int taken = optind;
    static char name[] = "lockctl";
    argv[taken] = name; /* the program name in the error messages of getopt */
    restartGetopt();
    if (options->task == OPTIONS_RUN) {
        readRun(options, argc - taken, argv + taken);
    } else {
        readLook(options, argc - taken, argv + taken);
    }
}

void optionsFree(struct options *options) {
    urlsFree(&options->urls);
    free(options->own_owner);
}
