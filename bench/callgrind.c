/* A server under callgrind does the work, and then nothing for as long as the work took. The
 * difference is the work without what the server does by the clock. */

#define _POSIX_C_SOURCE 200809L

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "callgrind.h"

enum { WARM_UP = 300 };

bool callgrindAvailable(void) {
    pid_t pid = fork();
    int status = -1;
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY);
        dup2(null, STDOUT_FILENO);
        dup2(null, STDERR_FILENO);
        execlp("valgrind", "valgrind", "--version", (char *)NULL);
        _exit(EXIT_FAILURE);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

double callgrindCount(const Options *options, const Load *load, const ServerOptions *wanted,
                      const Conditions *conditions, unsigned times) {
    ServerOptions counted = *wanted;
    counted.callgrind = true;
    Server *server = serverStart(options, &counted);
    void *session = load->kind->open(server, load->what, conditions);
    load->kind->run(session, WARM_UP);
    serverCountFromNow(server);
    uint64_t start = nowNs();
    load->kind->run(session, times);
    uint64_t elapsed_ns = nowNs() - start;
    double with = (double)serverCounted(server);
    sleepNs(elapsed_ns);
    double without = (double)serverCounted(server);
    load->kind->close(session);
    serverStop(server);
    return (with - without) / times;
}
