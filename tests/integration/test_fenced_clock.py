"""Tokens grow when the clock has been set back, too."""

import ctypes
import mmap
import subprocess
import time

import pytest

from harness import wait_for
from model.fenced_scene import TOKEN, begin_to_wait, take

SHIM = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Microseconds to add to the time of day. */
static volatile long long *shift;

__attribute__((constructor)) static void begin(void) {
    int fd = open(getenv("CLOCK_SHIFT"), O_RDONLY);
    void *at = mmap(NULL, sizeof(*shift), PROT_READ, MAP_SHARED, fd, 0);
    shift = at == MAP_FAILED ? NULL : at;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && shift && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long long micros = time->tv_sec * 1000000LL + time->tv_nsec / 1000 + *shift;
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
        monkeypatch.setenv("LD_PRELOAD", str(library))
        monkeypatch.setenv("CLOCK_SHIFT", str(self._file))

    def step(self, seconds):
        """So many seconds away from the true time, from now on."""
        with open(self._file, "r+b") as file, mmap.mmap(file.fileno(), 8) as shared:
            ctypes.c_longlong.from_buffer(shared).value = round(seconds * 1_000_000)

    def step_for(self, server, seconds):
        """step(), and the server has seen it: Valkey 9 looks at the time of day once in a millisecond."""
        self.step(seconds)
        wait_for(lambda: abs(server.now_ms() - (time.time() + seconds) * 1000) < 1_000_000, what="the clock to step")


@pytest.fixture
def clock(tmp_path, monkeypatch):
    return Clock(tmp_path, monkeypatch)


LOSSES = {"nothing": "PING", "release": "LOCK.RELEASE k o", "token": f"DEL {TOKEN}", "everything": "FLUSHALL"}


@pytest.mark.parametrize("lost", LOSSES.values(), ids=LOSSES)
def test_grows_when_the_clock_has_stepped_back(clock, make_server, lost):
    server = make_server()
    client = server.control
    first = take(client)
    clock.step_for(server, -3600)
    client.execute_command(*lost.split())
    client.execute_command("LOCK.FORCE", "k")
    second = take(client)
    assert second > first
    client.execute_command("LOCK.RELEASE", "k", "o")
    clock.step_for(server, -7200)
    client.execute_command(*lost.split() if "RELEASE" not in lost else ["PING"])
    client.execute_command("LOCK.FORCE", "k")
    third = take(client)
    assert third > second
    clock.step_for(server, 0)
    client.execute_command("LOCK.FORCE", "k")
    assert take(client) > third


def test_drain_that_is_to_come_when_the_clock_steps_back_comes(clock, make_server):
    """The server's timers ring by the time of day. While clients are paused the drain asks again and again."""
    server = make_server()
    take(server.control)
    head = begin_to_wait(server.actor, "head", "FENCED")
    waiter = begin_to_wait(server.actor, "w", "FENCED")
    server.control.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
    head.kill_socket()
    wait_for(lambda: server.info("lock")["lock_waiters"] == 1, what="the head to leave")
    clock.step_for(server, -3600)
    server.let_pass(50)  # by now it would have come
    server.control.execute_command("CLIENT", "UNPAUSE")
    server.control.execute_command("FLUSHALL")
    assert waiter.reply() > 0


def test_grows_for_waiters_when_the_clock_has_stepped_back(clock, make_server):
    server = make_server()
    first = take(server.control)
    waiter = begin_to_wait(server.actor, "w", "FENCED")
    clock.step_for(server, -3600)
    server.control.execute_command("FLUSHALL")
    assert waiter.reply() > first
