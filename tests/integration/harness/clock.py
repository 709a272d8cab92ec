"""The wall clock of servers, for tests to set: step(). Their monotonic clock goes on. Or time passes: pass_on() moves
both.

Module timers go by both: the server looks at them when the first should be due by the monotonic clock, and then it
calls all that are due by the wall clock, which it has read before: one that is made meanwhile, by a clock that steps
back just then, is due at once (module/server/timer.h). So that a test knows what it tests, the clock steps between two
rounds of the event loop, unless it is told where in one.
"""

import ctypes
import mmap
import subprocess
import time

from .waiting import scaled_ms, wait_for

SHIM = r"""
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Microseconds to add to the wall clock, and to the monotonic one. */
static volatile long long shift, passed;

/* What the test asks for: so many microseconds from the next round of the event loop on; or from where the time is read
   for the `reads`th time in a round, if it is not 0. And whether that has been done. */
static volatile struct asked {
    long long shift, passed, reads, done;
} *asked;

/* How often it has been read in this round. */
static long long reads;

static void step(void) {
    if (!asked) return;
    shift = asked->shift;
    passed = asked->passed;
    asked->done = 1;
}

static void begin_round(void) {
    reads = 0;
    if (asked && asked->reads == 0) step();
}

static void read_again(void) {
    if (asked && ++reads == asked->reads) step();
}

__attribute__((constructor)) static void begin(void) {
    int fd = open(getenv("CLOCK_ASKED"), O_RDWR);
    void *at = mmap(NULL, sizeof(*asked), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    asked = at == MAP_FAILED ? NULL : at;
    step();
}

int epoll_wait(int fd, struct epoll_event *events, int most, int timeout) {
    int result = (int)syscall(SYS_epoll_pwait, fd, events, most, timeout, NULL, 0);
    begin_round();
    return result;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
    int is_monotonic = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE;
    if (result == 0 && (is_wall || is_monotonic)) {
        if (is_wall) read_again();
        long long micros = time->tv_sec * 1000000LL + time->tv_nsec / 1000 + (is_wall ? shift : passed);
        time->tv_sec = micros / 1000000;
        time->tv_nsec = micros % 1000000 * 1000;
    }
    return result;
}

/* Valkey 9 counts the processor's ticks, unless it cannot find out about them: then it asks for the time. */
static FILE *open_but_cpuinfo(const char *name, const char *path, const char *mode) {
    if (strcmp(path, "/proc/cpuinfo") == 0) return NULL;
    FILE *(*next)(const char *, const char *) = (FILE *(*)(const char *, const char *))dlsym(RTLD_NEXT, name);
    return next(path, mode);
}

FILE *fopen(const char *path, const char *mode) {
    return open_but_cpuinfo("fopen", path, mode);
}

FILE *fopen64(const char *path, const char *mode) {
    return open_but_cpuinfo("fopen64", path, mode);
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}
"""


class Asked(ctypes.Structure):
    """struct asked"""

    _fields_ = [(name, ctypes.c_longlong) for name in ("shift", "passed", "reads", "done")]


NOWHERE = -1  # for `reads`: no round has such a read


class Clock:
    """The clocks of the servers that are started under it."""

    def __init__(self, folder, monkeypatch):
        (folder / "clock.c").write_text(SHIM)
        library, shared = folder / "clock.so", folder / "asked"
        command = ["cc", "-O1", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, folder / "clock.c", "-ldl"]
        subprocess.run(command, check=True)
        shared.write_bytes(bytes(ctypes.sizeof(Asked)))
        with open(shared, "r+b") as file:
            self._asked = Asked.from_buffer(mmap.mmap(file.fileno(), ctypes.sizeof(Asked)))
        self._seconds = self._passed = 0
        monkeypatch.setenv("LD_PRELOAD", str(library))
        monkeypatch.setenv("CLOCK_ASKED", str(shared))

    def step(self, seconds, reads=0):
        """The wall clock is this many seconds away from the true time, from now on; with `reads`, from where the server
        reads it for the given time in a round of its event loop."""
        self._seconds = seconds
        self._ask(reads)

    def _ask(self, reads=0):
        self._asked.reads = NOWHERE  # until the rest is there, as a server may look meanwhile
        self._asked.shift, self._asked.passed = round(self._seconds * 1_000_000), round(self._passed * 1_000_000)
        self._asked.done = 0
        self._asked.reads = reads

    def has_stepped(self):
        """Whether a server has come to where step() was to be seen."""
        return self._asked.done == 1

    def step_for(self, server, seconds):
        """step(), and the server has seen it: Valkey 9 looks at the wall clock once in a millisecond."""
        self.step(seconds)
        wait_for(lambda: abs(server.now_ms() - (time.time() + seconds) * 1000) < 1_000_000, what="the clock to step")

    def pass_on(self, server, seconds):
        """It is this many seconds later than the true time, by both clocks, and the server has looked at its timers."""
        self._passed = seconds
        self.step_and_ring(server, seconds)

    def step_and_ring(self, server, seconds):
        """step(), and the server has looked at its timers: those that are due by then have been called."""
        self.step_for(server, seconds)
        wait_for(self.has_stepped, what="the clock to step")
        rings(server)


def rings(server):
    """The module's timers have been looked at: one that is set now for 1 ms has been called."""
    server.control.execute_command("LOCK.ACQUIRE", "bell", "nobody", "PX", 2**50)
    bell = server.actor("bell")
    for _ in range(2):  # the first may have been called with those that were due
        assert bell.call("LOCK.ACQUIRE", "bell", "bell", "BLOCK", 1) is None
    server.control.delete("bell")
