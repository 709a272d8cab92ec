/* Starting, querying and stopping servers. */

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "machine/affinity.h"
#include "machine/server.h"
#include "machine/workspace.h"

enum {
    MAX_ARGS = 48,
    START_TRIES = 3,
    START_SECONDS = 60,
    MAX_LOG = 1200,
    PATH_SIZE = 320,
};

static Server *alive;

static void killAll(void) {
    for (Server *server = alive; server != NULL; server = server->next) {
        kill(server->pid, SIGKILL);
    }
}

static void aliveAdd(Server *server) {
    static bool registered;
    if (!registered) {
        atexit(killAll);
    }
    registered = true;
    server->next = alive;
    alive = server;
}

static void aliveRemove(const Server *server) {
    Server **link = &alive;
    while (*link != server) {
        link = &(*link)->next;
    }
    *link = server->next;
}

/* Another process may take the port between this call and the server's start; serverStart then
 * tries another port. */
static int freePort(void) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd == -1 || bind(fd, (struct sockaddr *)&address, size) == -1 ||
        getsockname(fd, (struct sockaddr *)&address, &size) == -1) {
        die("no free port: %s", strerror(errno));
    }
    close(fd);
    return ntohs(address.sin_port);
}

/* ---- The command line ----------------------------------------------------------------------- */

typedef struct CommandLine {
    char *args[MAX_ARGS];
    unsigned count;
} CommandLine;

static void addArg(CommandLine *line, const char *format, const char *value) {
    char text[512];
    if (line->count == MAX_ARGS - 1) {
        die("MAX_ARGS in server.c is too small");
    }
    snprintf(text, sizeof(text), format, value);
    line->args[line->count++] = strdup(text);
    line->args[line->count] = NULL;
}

static void addPair(CommandLine *line, const char *name, const char *value) {
    addArg(line, "--%s", name);
    addArg(line, "%s", value);
}

static void addNumber(CommandLine *line, const char *name, unsigned value) {
    char text[16];
    snprintf(text, sizeof(text), "%u", value);
    addPair(line, name, text);
}

/* The server program may be a script that replaces itself with the real server: hence the
 * children. */
static void addCallgrind(CommandLine *line, const Server *server) {
    addArg(line, "%s", "valgrind");
    addArg(line, "%s", "--tool=callgrind");
    addArg(line, "%s", "--trace-children=yes");
    addArg(line, "--log-file=%s/valgrind.log", server->folder);
    addArg(line, "--callgrind-out-file=%s/callgrind.out", server->folder);
    addArg(line, "--vgdb-prefix=%s/vgdb", server->folder);
    addArg(line, "%s", "--instr-atstart=no");
}

/* A server that has just started looks for reserved positions from before its start, for as long
 * as it would keep them. Most servers have run for longer than that. */
static void addModule(CommandLine *line, const Options *options) {
    addPair(line, "loadmodule", options->module);
    addPair(line, "lock.fair-reserve", "0");
}

/* Two servers of a comparison differ only in what the measurement requests. No snapshot and no
 * rewriting of the AOF: they would fork in the middle of a slice. */
static void buildCommandLine(CommandLine *line, const Server *server, const Options *options,
                             const ServerOptions *wanted) {
    line->count = 0;
    if (wanted->callgrind) {
        addCallgrind(line, server);
    }
    addArg(line, "%s", options->server);
    addPair(line, "bind", "127.0.0.1");
    addNumber(line, "port", (unsigned)server->port);
    addPair(line, "dir", server->folder);
    addPair(line, "loglevel", "warning");
    addPair(line, "daemonize", "no");
    addPair(line, "save", "");
    addPair(line, "appendonly", wanted->aof ? "yes" : "no");
    addPair(line, "appendfsync", "everysec");
    addNumber(line, "auto-aof-rewrite-percentage", 0);
    addNumber(line, "tcp-backlog", 4096);
    if (wanted->clients > 0) {
        addNumber(line, "maxclients", wanted->clients);
    }
    if (wanted->io_threads > 0) {
        addNumber(line, "io-threads", wanted->io_threads);
    }
    if (wanted->module) {
        addModule(line, options);
    }
}

static void freeCommandLine(CommandLine *line) {
    for (unsigned i = 0; i < line->count; i++) {
        free(line->args[i]);
    }
}

/* ---- The process ---------------------------------------------------------------------------- */

/* The kernel kills the server when the worker ends. Without address randomisation two servers
 * differ in their options, not in their memory addresses. */
static _Noreturn void becomeServer(char *const *args, const char *log,
                                   const ServerOptions *wanted) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (wanted->apart) {
        affinityApart();
    } else if (wanted->anywhere) {
        affinityAnywhere();
    }
    personality(ADDR_NO_RANDOMIZE);
    int in = open("/dev/null", O_RDONLY);
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execvp(args[0], args);
    _exit(127);
}

static bool hasEnded(const Server *server) {
    return waitpid(server->pid, NULL, WNOHANG) == server->pid;
}

/* Waits until the server replies to PING; false if the process ended instead. */
static bool waitUntilReady(Server *server) {
    uint64_t give_up = nowNs() + START_SECONDS * UINT64_C(1000000000);
    while (nowNs() < give_up) {
        server->control = redisConnect("127.0.0.1", server->port);
        redisReply *reply = server->control->err ? NULL : redisCommand(server->control, "PING");
        bool ready = reply != NULL && reply->type == REDIS_REPLY_STATUS;
        if (reply != NULL) {
            freeReplyObject(reply);
        }
        if (ready) {
            return true;
        }
        redisFree(server->control);
        if (hasEnded(server)) {
            return false;
        }
        sleepNs(5000000);
    }
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    return false;
}

static bool tryStart(Server *server, const Options *options, const ServerOptions *wanted) {
    CommandLine line;
    char log[PATH_SIZE];
    snprintf(log, sizeof(log), "%s/server.log", server->folder);
    server->port = freePort();
    buildCommandLine(&line, server, options, wanted);
    server->pid = fork();
    if (server->pid == -1) {
        die("fork: %s", strerror(errno));
    }
    if (server->pid == 0) {
        becomeServer(line.args, log, wanted);
    }
    freeCommandLine(&line);
    return waitUntilReady(server);
}

static _Noreturn void dieWithLog(const Server *server, const Options *options) {
    char path[PATH_SIZE];
    char text[MAX_LOG + 1] = "";
    snprintf(path, sizeof(path), "%s/server.log", server->folder);
    FILE *file = fopen(path, "r");
    if (file != NULL) {
        if (fseek(file, -MAX_LOG, SEEK_END) == -1) {
            rewind(file);
        }
        text[fread(text, 1, MAX_LOG, file)] = '\0';
        fclose(file);
    }
    die("cannot start %s (module: %s)\n%s", options->server, options->module, text);
}

Server *serverStart(const Options *options, const ServerOptions *wanted) {
    Server *server = allocate(sizeof(*server));
    memset(server, 0, sizeof(*server));
    workspaceFolder(server->folder, sizeof(server->folder));
    for (int i = 0; i < START_TRIES; i++) {
        if (!tryStart(server, options, wanted)) {
            continue;
        }
        aliveAdd(server);
        return server;
    }
    dieWithLog(server, options);
}

static void waitForEnd(Server *server) {
    waitpid(server->pid, NULL, 0);
    aliveRemove(server);
    redisFree(server->control);
}

static void serverFree(Server *server) {
    workspaceRemove(server->folder);
    free(server);
}

void serverStop(Server *server) {
    kill(server->pid, SIGKILL);
    waitForEnd(server);
    serverFree(server);
}

/* ---- Connections ---------------------------------------------------------------------------- */

redisContext *serverConnect(const Server *server) {
    redisContext *connection = redisConnect("127.0.0.1", server->port);
    if (connection == NULL) {
        die("out of memory");
    }
    if (connection->err) {
        die("cannot connect: %s", connection->errstr);
    }
    /* A server that inherits more open connections than its limit of clients does not start. */
    fcntl(connection->fd, F_SETFD, FD_CLOEXEC);
    return connection;
}

redisReply *serverReply(redisContext *connection) {
    void *reply = NULL;
    if (redisGetReply(connection, &reply) != REDIS_OK) {
        die("the server has ended: %s", connection->errstr);
    }
    return reply;
}

unsigned serverRaiseLimit(unsigned count) {
    struct rlimit limit;
    struct rlimit wanted = {.rlim_cur = count, .rlim_max = count};
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur >= count) {
        return count;
    }
    if (limit.rlim_max > count) {
        wanted.rlim_max = limit.rlim_max;
    }
    if (setrlimit(RLIMIT_NOFILE, &wanted) == 0) {
        return count;
    }
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return (unsigned)limit.rlim_max;
}
