"""The time of day of servers, for tests to move. Their monotonic clock goes on as it is.

Module timers go by both: the server looks at them when the first should be due by the monotonic clock, and then it
calls all that are due by the time of day, which it has read before: one that is made meanwhile, by a clock that steps
back just then, is due at once, again and again, until that time has come again. So the clock steps between two rounds
of the event loop.
"""

import ctypes
import mmap
import subprocess
import time

from .waiting import scaled_ms, wait_for

SHIM = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Microseconds to add to the time of day: those that the test asks for, and those of this round of the event loop. */
static volatile long long *asked, shift;

static void step(void) {
    if (asked) shift = *asked;
}

__attribute__((constructor)) static void begin(void) {
    int fd = open(getenv("CLOCK_SHIFT"), O_RDONLY);
    void *at = mmap(NULL, sizeof(*asked), PROT_READ, MAP_SHARED, fd, 0);
    asked = at == MAP_FAILED ? NULL : at;
    step();
}

int epoll_wait(int fd, struct epoll_event *events, int most, int timeout) {
    int result = (int)syscall(SYS_epoll_pwait, fd, events, most, timeout, NULL, 0);
    step();
    return result;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long long micros = time->tv_sec * 1000000LL + time->tv_nsec / 1000 + shift;
        time->tv_sec = micros / 1000000;
        time->tv_nsec = micros % 1000000 * 1000;
    }
    return result;
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


class Clock:
    """The time of day of the servers that are started under it."""

    def __init__(self, folder, monkeypatch):
        (folder / "clock.c").write_text(SHIM)
        library, self._file = folder / "clock.so", folder / "shift"
        command = ["cc", "-O1", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, folder / "clock.c"]
        subprocess.run(command, check=True)
        self._file.write_bytes(bytes(8))
        self._seconds = 0
        monkeypatch.setenv("LD_PRELOAD", str(library))
        monkeypatch.setenv("CLOCK_SHIFT", str(self._file))

    def step(self, seconds):
        """So many seconds away from the true time, from now on."""
        self._seconds = seconds
        with open(self._file, "r+b") as file, mmap.mmap(file.fileno(), 8) as shared:
            ctypes.c_longlong.from_buffer(shared).value = round(seconds * 1_000_000)

    def step_for(self, server, seconds):
        """step(), and the server has seen it: Valkey 9 looks at the time of day once in a millisecond."""
        self.step(seconds)
        wait_for(lambda: abs(server.now_ms() - (time.time() + seconds) * 1000) < 1_000_000, what="the clock to step")

    def step_and_ring(self, server, seconds):
        """step(), and the server has looked at its timers: those that are over by then have been called."""
        here, bell = self._seconds, server.actor("bell")
        server.control.execute_command("LOCK.ACQUIRE", "bell", "nobody", "PX", 2**50)
        while True:
            bell.send("LOCK.ACQUIRE", "bell", "bell", "BLOCK", scaled_ms(500))
            bell.wait_blocked()
            self.step(seconds)
            if not bell.has_reply():
                break
            bell.reply()  # too late: it was over before the step
            self.step(here)
        assert bell.reply() is None
