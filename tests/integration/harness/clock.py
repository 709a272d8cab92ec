"""The wall clock of servers, for tests to set: step(). Their monotonic clock is not changed by it. advance() lets time
pass: it moves both clocks.

Module timers depend on both. The server checks them when the first one should be due by the monotonic clock, and then
calls all that are due by the wall clock, which it has read before. If the clock steps back just then, a timer that is
created in the meantime is due at once (module/server/timer.h). So that a test knows what it tests, the clock steps
between two iterations of the event loop, unless the test names a place within an iteration.
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

/* What the test asks for: the microseconds to add from the next iteration of the event loop on; or, if `reads` is not
   0, from where the time is read for the `reads`th time in an iteration. And whether that has been done. */
static volatile struct asked {
    long long shift, passed, reads, done;
} *asked;

/* How often the time has been read in this iteration. */
static long long reads;

static void step(void) {
    if (!asked) return;
    shift = asked->shift;
    passed = asked->passed;
    asked->done = 1;
}

static void begin_iteration(void) {
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
    begin_iteration();
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

/* Valkey 9 counts the processor's ticks. If it cannot find out their frequency, it calls clock_gettime. */
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


NOWHERE = -1  # for `reads`: no iteration has such a read


class Clock:
    """The clocks of the servers that are started while it exists."""

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
        """Sets the wall clock this many seconds away from the true time, from now on; with `reads`, from where the
        server reads the clock for the `reads`th time in an iteration of its event loop."""
        self._seconds = seconds
        self._ask(reads)

    def _ask(self, reads=0):
        self._asked.reads = NOWHERE  # until the other fields are set: a server may read them in the meantime
        self._asked.shift, self._asked.passed = round(self._seconds * 1_000_000), round(self._passed * 1_000_000)
        self._asked.done = 0
        self._asked.reads = reads

    def has_stepped(self):
        """Whether a server has reached the place where step() was to take effect."""
        return self._asked.done == 1

    def step_for(self, server, seconds):
        """step(), and waits until the server has seen it: Valkey 9 reads the wall clock once in a millisecond."""
        self.step(seconds)
        wait_for(lambda: abs(server.now_ms() - (time.time() + seconds) * 1000) < 1_000_000, what="the clock to step")

    def advance(self, server, seconds):
        """Sets both clocks this many seconds later than the true time, and waits until the server has checked its
        timers."""
        self._passed = seconds
        self.step_and_run_timers(server, seconds)

    def step_and_run_timers(self, server, seconds):
        """step(), and waits until the server has checked its timers: those that are due by then have been called."""
        self.step_for(server, seconds)
        wait_for(self.has_stepped, what="the clock to step")
        wait_for_timers(server)


def wait_for_timers(server):
    """Waits until the server has checked the module's timers: one that is set now for 1 ms has been called."""
    server.control.execute_command("LOCK.ACQUIRE", "bell", "nobody", "PX", 2**50)
    bell = server.actor("bell")
    for _ in range(2):  # the first may have been called with those that were due
        assert bell.call("LOCK.ACQUIRE", "bell", "bell", "BLOCK", 1) is None
    server.control.delete("bell")
