"""lockctl as process 1 of a container, whose default action for a signal is nothing: a PID namespace of its own."""

import os
import signal
import subprocess
from signal import SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, SIGUSR1

import pytest

from harness import scaled, wait_for
from runs import NO_COMMAND, PROGRAM, all_processes, children_of, environment, holders, is_free, lives, wait_free, wait_waiting, waiting

NAMESPACE = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
ENDING = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, signal.SIGUSR2, signal.SIGALRM]


def may_unshare():
    try:
        return subprocess.run([*NAMESPACE, "true"], capture_output=True, timeout=60).returncode == 0
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not may_unshare(), reason="needs permission to create PID namespaces")


class Container:
    def __init__(self, server, *words, namespace=NAMESPACE):
        self._process = subprocess.Popen(
            [*namespace, PROGRAM, "run", *map(str, words)],
            env=environment(server),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        wait_for(lambda: self._process.poll() is not None or self._is_lockctl(), 20, "lockctl to run")

    def _is_lockctl(self):
        self.pid = next(iter(children_of(self._process.pid)), None)
        try:
            return self.pid and os.path.samefile(f"/proc/{self.pid}/exe", PROGRAM)
        except OSError:
            return False

    def tell(self, number):
        os.kill(self.pid, number)

    def end(self):
        """The exit status as a container's runtime sees it, and what was written to stderr."""
        _, text = self._process.communicate(timeout=scaled(30))
        return self._process.returncode, text

    def left(self):
        return [pid for pid, stat in all_processes().items() if stat[3] == self._process.pid and stat[0] not in "ZX"]

    def kill(self):
        for pid in self.left():
            os.kill(pid, SIGKILL)
        self._process.communicate()


@pytest.fixture
def contain(server):
    made = []

    def start(*words, **options):
        made.append(Container(server, *words, **options))
        return made[-1]

    yield start
    for one in made:
        one.kill()


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_a_wait_that_a_signal_ends_has_not_succeeded(server, contain, tmp_path, number):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o")
    waiter = contain("k", "touch", tmp_path / "started")
    wait_waiting(server, "k")
    waiter.tell(number)
    assert waiter.end() == (128 + number, "")
    wait_for(lambda: waiting(server, "k") == 0, what="no waiter to be left")
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_a_command_that_a_signal_ends(server, contain, tmp_path, number):
    held = contain("k", "sh", "-c", f"ulimit -c 0; touch {tmp_path}/begun; sleep 601; echo never")
    wait_for((tmp_path / "begun").exists, 20, "the command to run")
    held.tell(number)
    assert held.end() == (128 + number, "")
    assert held.left() == [] and is_free(server, "k")


def test_the_status_is_the_commands(server, contain):
    assert contain("k", "sh", "-c", "exit 7").end() == (7, "")
    assert contain("k", "sh", "-c", "kill -9 $$").end() == (137, "")
    assert contain("k", "no such command").end()[0] == NO_COMMAND
    assert is_free(server, "k")


def test_orphans_are_reaped(server, contain, tmp_path):
    held = contain("k", "sh", "-c", f"for i in 1 2 3; do (sh -c 'exit 0' &); done; touch {tmp_path}/begun; exec sleep 601")
    wait_for((tmp_path / "begun").exists, 20, "the command to run")
    wait_for(lambda: len(children_of(held.pid)) == 1, what="the orphans to be reaped")
    held.tell(SIGTERM)
    assert held.end() == (143, "")


def test_work_that_ignores_the_signal_holds_the_lock(server, contain, tmp_path):
    inner = f'trap "" TERM; touch {tmp_path}/begun; while ! test -e {tmp_path}/finish; do sleep 0.01; done'
    held = contain("--grace", 3600, "k", "sh", "-c", f"sh -c '{inner}' & wait")
    wait_for((tmp_path / "begun").exists, 20, "the work to begin")
    command = next(iter(children_of(held.pid)))
    held.tell(SIGTERM)
    wait_for(lambda: not lives(command), what="the command to end before its work")
    server.let_pass(scaled(300))
    assert len(holders(server, "k")) == 1
    (tmp_path / "finish").touch()
    assert held.end() == (143, "")


def test_the_lock_is_free_when_the_container_is_killed(server, contain, tmp_path):
    held = contain("k", "sh", "-c", f"touch {tmp_path}/begun; sleep 601")
    wait_for((tmp_path / "begun").exists, 20, "the command to run")
    held.tell(SIGKILL)
    held.end()
    wait_for(lambda: held.left() == [], what="the kernel to end the container")
    wait_free(server, "k")


def test_another_namespace_is_in_proc(server, contain, tmp_path):
    # The numbers in /proc are not those that kill() uses: then only the command is signalled.
    without = [word for word in NAMESPACE if word != "--mount-proc"]
    held = contain("k", "sh", "-c", f"touch {tmp_path}/begun; exec sleep 601", namespace=without)
    wait_for((tmp_path / "begun").exists, 20, "the command to run")
    held.tell(SIGTERM)
    assert held.end() == (143, "")
    assert is_free(server, "k")
