"""On a terminal, under a shell with job control, lockctl behaves as flock(1): most tests run with both."""

import os
import shlex
import shutil
import subprocess
import time
from signal import SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGSTOP, SIGTERM, SIGTSTP, SIGUSR1, SIGWINCH

import pytest

from harness import scaled, scaled_ms, wait_for
from harness.proxy import CommandProxy
from runs import LOST, PROGRAM, children_of, environment, holders, is_free, is_stopped, lives
from runs import stat_of, wait_free, wait_waiting, waiting
from terminals import CTRL_BACKSLASH, CTRL_C, CTRL_D, CTRL_Z, OnTerminal, Shell


@pytest.fixture
def open_shell():
    """open_shell(place): a Shell whose lockctl connects to that place."""
    shells = []

    def start(place):
        shells.append(Shell(environment(place)))
        return shells[-1]

    yield start
    for shell in shells:
        shell.end()


@pytest.fixture
def shell(server, open_shell):
    return open_shell(server)


def quoted(*words):
    return shlex.join(map(str, words))


LOCKCTL = quoted(PROGRAM, "run", "k")


class Lockctl:
    """The words on a command line, and whether the lock is held."""

    def __init__(self, server, _):
        self._server, self.words = server, [PROGRAM, "run", "k"]

    def is_held(self):
        return bool(holders(self._server, "k"))


class Flock:
    def __init__(self, _, folder):
        self._file = folder / "lock"
        self.words = [shutil.which("flock"), self._file]

    def is_held(self):
        return subprocess.run(["flock", "-n", self._file, "true"], timeout=scaled(60)).returncode == 1


@pytest.fixture(params=[Lockctl, Flock], ids=["lockctl", "flock"])
def locker(request, server, tmp_path):
    return request.param(server, tmp_path)


def line_of(locker, *words):
    return quoted(*locker.words, *words)


def wait_held(locker, *, is_held=True):
    wait_for(lambda: locker.is_held() == is_held, 20, f"the lock to be {'held' if is_held else 'free'}")


# Keys


@pytest.mark.parametrize("key, status", [(CTRL_C, 130), (CTRL_BACKSLASH, 131)], ids=["Ctrl-C", "Ctrl-Backslash"])
def test_keys_end_both(shell, locker, key, status):
    shell.do("ulimit -c 0")
    shell.say(line_of(locker, "sh", "-c", "echo begun; exec sleep 600"))
    shell.see("begun")
    assert locker.is_held()
    shell.press(key)
    assert shell.status() == status
    wait_held(locker, is_held=False)


def test_a_command_that_catches_it_goes_on(shell, server):
    shell.say(f"{LOCKCTL} sh -c 'trap \"echo caught; exit 5\" INT; echo begun; while :; do sleep 0.01; done'")
    shell.see("begun")
    shell.type(CTRL_C)
    shell.see("caught")
    shell.prompts()
    assert shell.status() == 5
    assert is_free(server, "k")


def test_a_loop_ends_by_one_key(shell, locker):
    # bash continues the loop unless the process that it waits for has died by the signal itself.
    loop = f"for i in 1 2 3; do echo round $i; {line_of(locker, 'sleep', 600)}; echo next; done"
    shell.say(quoted("bash", "-c", loop))
    shell.see("round 1")
    wait_held(locker)
    shell.press(CTRL_C)
    assert "round 2" not in shell.text()
    assert shell.status() == 130


def test_a_pipeline_ends_by_it(shell, locker):
    words = "sh", "-c", "echo begun >&2; exec cat"
    shell.say(f"{line_of(locker, *words)} | {quoted(*words)}")
    for _ in range(2):
        shell.see("begun")
    shell.press(CTRL_C)
    assert shell.status() == 130
    wait_held(locker, is_held=False)


def test_stopped_and_in_the_foreground_again(shell, locker):
    shell.say(line_of(locker, "sh", "-c", "echo begun; exec cat"))
    shell.see("begun")
    shell.type("one\n")
    shell.see("one\r\n")
    job = shell.stop()
    assert is_stopped(job) and all(map(is_stopped, children_of(job)))
    assert locker.is_held()
    shell.fg()
    shell.type("two\n")
    shell.see("two\r\n")
    shell.type(CTRL_D)
    shell.prompts()
    assert shell.status() == 0
    wait_held(locker, is_held=False)


def test_stopped_many_times(shell, locker):
    shell.say(line_of(locker, "sh", "-c", "echo begun; exec cat"))
    shell.see("begun")
    for number in range(5):
        shell.stop()
        shell.fg()
        shell.type(f"line {number}\n")
        shell.see(f"line {number}\r\n")
    shell.press(CTRL_C)
    assert shell.status() == 130


def test_stopped_and_in_the_background(shell, locker, tmp_path):
    # No loop around sleep: a shell that is stopped while it creates a process (vfork) does not appear stopped.
    os.mkfifo(tmp_path / "go")
    go_on = f"echo begun; read go < {tmp_path}/go; touch {tmp_path}/gone; exec sleep 600"
    shell.say(line_of(locker, "sh", "-c", go_on))
    shell.see("begun")
    shell.stop()
    shell.do("bg")
    (tmp_path / "go").write_text("go\n")
    wait_for((tmp_path / "gone").exists, 20, "the command to continue in the background")
    assert locker.is_held()
    shell.fg()
    shell.press(CTRL_C)
    assert shell.status() == 130
    wait_held(locker, is_held=False)


def test_who_reads_in_the_background_stops(shell, locker):
    shell.do(f"{line_of(locker, 'cat')} &")
    [job] = children_of(shell.pid)
    wait_for(lambda: is_stopped(job) and all(map(is_stopped, children_of(job))), 20, "all of the job to stop")
    shell.fg()
    shell.type("one\n")
    shell.see("one\r\n")
    shell.type(CTRL_D)
    shell.prompts()
    assert shell.status() == 0


@pytest.mark.parametrize("script, status", [("true", 0), ("exit 7", 7), ("kill -TERM $$", 143), ("kill -9 $$", 137)])
def test_the_status_that_the_shell_sees(shell, locker, script, status):
    shell.do(line_of(locker, "sh", "-c", script))
    assert shell.status() == status


def test_the_terminal_is_the_commands(shell, locker):
    shell.say(line_of(locker, "sh", "-c", "test -t 0 && test -t 1 && test -t 2 && tty && stty size"))
    assert shell.see(r"(/dev/pts/\d+)\r\n")
    shell.prompts()
    assert shell.status() == 0


def test_the_window_changes(shell, server, locker, witness):
    command = witness(hear=[SIGWINCH, SIGUSR1])
    shell.say(line_of(locker, *command.words))
    command.wait_begun()
    shell.resize(100, 30)
    command.wait_received(SIGWINCH)
    # Once: the next signal that arrives is another one, which lockctl passes on in the same way.
    os.kill(command.pid if isinstance(locker, Flock) else parent_of(command.pid), SIGUSR1)
    command.wait_received(SIGWINCH, SIGUSR1)
    command.finish()
    shell.prompts()


def parent_of(pid):
    return stat_of(pid)[1]


def test_killed_as_a_job(shell, locker, witness):
    command = witness()
    shell.do(f"{line_of(locker, *command.words)} &")
    command.wait_begun()
    shell.do("kill %1")
    shell.do("wait %1")
    wait_for(lambda: not lives(command.pid), what="the command to end")
    wait_held(locker, is_held=False)


def test_hung_up(shell, locker, witness):
    command = witness()
    shell.say(line_of(locker, *command.words))
    command.wait_begun()
    shell.hang_up()
    wait_for(lambda: not lives(command.pid), what="the command to end")
    wait_held(locker, is_held=False)


def test_hung_up_but_nobody_minds(shell, locker, witness):
    command = witness(hear=[SIGUSR1])
    shell.do(f"nohup {line_of(locker, *command.words)} > /dev/null 2>&1 &")
    command.wait_begun()
    shell.hang_up_and_end()
    os.kill(command.pid, SIGUSR1)
    command.wait_received(SIGUSR1)
    assert locker.is_held()
    command.finish()
    wait_held(locker, is_held=False)


def test_stopped_at_any_moment(shell, server):
    # Also between the grant and the command, and before the child has become the command: the shell must always keep
    # its job.
    for ms in range(40):
        shell.say(f"{LOCKCTL} true")
        time.sleep(ms / 2000)  # chooses the moment, and does not wait for a condition
        shell.type(CTRL_Z)
        # Earlier prompts may not be read yet: this word appears when the job has ended or stopped.
        shell.say(f"echo moment {ms}")
        shell.see(f"moment {ms}\r\n")
        while children_of(shell.pid):
            shell.do("fg")
        shell.do("wait")
    assert is_free(server, "k")


# While lockctl waits: without flock


def test_ctrl_c_ends_a_wait(server, shell):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o")
    shell.say(f"{LOCKCTL} echo never")
    wait_waiting(server, "k")
    shell.press(CTRL_C)
    assert shell.status() == 130
    wait_for(lambda: waiting(server, "k") == 0, what="no waiter to be left")
    assert "never" not in shell.text()


def test_a_wait_is_stopped_for_long(server, shell):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o")
    shell.say(f"{PROGRAM} run --timeout {scaled(1):g} k echo at last")
    wait_waiting(server, "k")
    shell.stop()
    server.let_pass(scaled_ms(2500))
    shell.fg()
    server.control.execute_command("LOCK.RELEASE", "k", "o")
    shell.see("at last\r\n")
    shell.prompts()
    assert shell.status() == 0
    assert is_free(server, "k")


# Stopped for longer than a lease


def test_a_session_is_stopped_for_long(make_server, open_shell, witness):
    server = make_server(lock_default_lease=scaled_ms(1500))
    shell = open_shell(server)
    shell.say(f"{LOCKCTL} sh -c 'echo begun; exec cat'")
    shell.see("begun")
    shell.stop()
    server.let_pass(scaled_ms(3000))
    assert len(holders(server, "k")) == 1
    shell.fg()
    shell.type("one\n")
    shell.see("one\r\n")
    shell.type(CTRL_D)
    shell.prompts()
    assert shell.status() == 0
    assert "lost" not in shell.text()


def test_a_lease_is_stopped_for_long(server, shell, witness):
    command = witness("beat", hear=[SIGTERM])
    shell.say(quoted(PROGRAM, "run", "--lease", scaled(1), "--grace", scaled(0.3), "k", *command.words))
    command.wait_begun()
    shell.stop()
    wait_free(server, "k", 20)
    shell.say("fg")  # it may have ended before the test could look
    shell.see("the lock is lost")
    shell.prompts()
    assert shell.status() == LOST
    assert command.heard() == [SIGTERM]
    assert not lives(command.pid)


# Without a shell


def test_a_key_between_the_grant_and_the_command_is_not_lost(server):
    # The terminal signals all foreground processes, and the command does not exist yet.
    with CommandProxy(server.port) as wire:
        renewal = wire.hold("LOCK.RENEW")
        words = [str(PROGRAM), "run", "k", "sh", "-c", "echo begun; exec sleep 600"]
        leader = OnTerminal(words, environment(wire))
        try:
            renewal.wait_arrived()
            os.kill(leader.pid, SIGSTOP)
            wait_for(lambda: is_stopped(leader.pid), what="lockctl to stop")
            # Both have arrived when lockctl continues, and it first reads the reply that permits the start.
            renewal.release()
            renewal.wait_passed()
            leader.type(CTRL_C)
            os.kill(leader.pid, SIGCONT)
            assert leader.wait() in (-SIGINT, 130)
            wait_free(server, "k")
        finally:
            leader.end()


def test_ctrl_z_where_there_is_no_shell_does_nothing(server):
    # As on a terminal that runs nothing else: no process could continue it.
    words = [str(PROGRAM), "run", "k", "sh", "-c", "echo begun; exec cat"]
    leader = OnTerminal(words, environment(server))
    try:
        leader.see("begun")
        leader.type(CTRL_Z)
        leader.type("one\n")
        leader.see("one\r\n")
        assert not is_stopped(leader.pid)
        leader.type(CTRL_D)
        assert leader.wait() == 0
    finally:
        leader.end()


def test_killed_on_a_terminal(server, shell, witness):
    command = witness(hear=[SIGHUP, SIGTSTP])
    shell.say(f"{LOCKCTL} {quoted(*command.words)}")
    command.wait_begun()
    os.kill(parent_of(command.pid), SIGKILL)
    shell.see("Killed")
    shell.prompts()
    assert shell.status() == 137
    wait_for(lambda: not lives(command.pid), what="the command to die with it")
    wait_free(server, "k")
