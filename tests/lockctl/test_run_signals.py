"""Signals: each reaches the command once, or ends a wait; the command inherits what lockctl has inherited."""

import os
import resource
import signal
import subprocess
import sys
from signal import SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGPIPE, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP
from signal import SIGUSR1, SIGUSR2, SIGWINCH

import pytest

from harness import scaled, wait_for
from harness.proxy import CommandProxy
from runs import AS_A_JOB, children_of, holders, is_free, is_stopped, lives, stat_of, wait_waiting, waiting

PASSED_ON = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGCONT, SIGTSTP]
ENDING = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM]


def no_core():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


# While the command runs


@pytest.mark.parametrize("number", [*PASSED_ON[:-1], pytest.param(SIGTSTP, marks=pytest.mark.as_it_is)], ids=lambda number: number.name)
def test_each_reaches_the_command_once(server, run, witness, number):
    command = witness(hear=PASSED_ON)
    held = run(server, "k", *command.words, **AS_A_JOB)
    command.wait_begun()
    held.tell(number)
    heard = [number]
    command.wait_received(*heard)
    if number == SIGTSTP:
        wait_for(lambda: is_stopped(held.pid), what="lockctl to stop too")
        held.go_on()
        heard.append(SIGCONT)
        command.wait_received(*heard)
    # Signals keep their order: after another signal, the first one does not arrive a second time.
    last = SIGUSR1 if number == SIGUSR2 else SIGUSR2
    held.tell(last)
    command.wait_received(*heard, last)
    command.finish(3)
    assert (held.wait(), held.stderr) == (3, "")
    assert is_free(server, "k")


def test_many_at_once(server, run, witness):
    wanted = sorted(set(PASSED_ON) - {SIGTSTP, SIGCONT})
    command = witness(hear=PASSED_ON)
    held = run(server, "k", *command.words)
    command.wait_begun()
    held.stop()
    for number in wanted:
        held.tell(number)
    held.go_on()
    wait_for(lambda: len(command.heard()) > len(wanted), what="the command to receive all")
    assert sorted(command.heard()) == sorted([*wanted, SIGCONT])
    command.finish()
    assert held.wait() == 0


@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_the_status_of_who_ends_by_it(server, run, tmp_path, number):
    held = run(server, "k", "sh", "-c", f": > {tmp_path}/begun; exec sleep 600", before=no_core)
    wait_for((tmp_path / "begun").exists, 20, "the command to run")
    held.tell(number)
    assert held.wait() == 128 + number
    assert is_free(server, "k")


def test_where_nobody_could_continue_it_lockctl_does_not_stop(server, run, witness):
    # A session leader, as in a container or a terminal of its own: the kernel ignores SIGTSTP there.
    command = witness(hear=PASSED_ON)
    held = run(server, "k", *command.words)
    command.wait_begun()
    held.tell(SIGTSTP)
    command.wait_received(SIGTSTP)
    held.tell(SIGUSR1)
    command.wait_received(SIGTSTP, SIGUSR1)
    assert not is_stopped(held.pid)
    command.finish()
    assert held.wait() == 0


def test_a_stopped_command_keeps_its_lock(server, run, witness):
    command = witness()
    held = run(server, "--lease", scaled(1.5), "k", *command.words)
    command.wait_begun()
    os.kill(command.pid, SIGSTOP)
    wait_for(lambda: is_stopped(command.pid), what="the command to stop")
    server.let_pass(2 * scaled(1500))
    assert len(holders(server, "k")) == 1
    os.kill(command.pid, SIGCONT)
    command.finish()
    assert (held.wait(), held.stderr) == (0, "")


# What the command inherits

SIGNAL_STATE = ["grep", "-E", "^(Sig[BCIP]|ShdP)", "/proc/self/status"]


def ignore(*numbers):
    return lambda: [signal.signal(number, signal.SIG_IGN) for number in numbers]


def block(*numbers):
    return lambda: signal.pthread_sigmask(signal.SIG_BLOCK, numbers)


STATES = {
    "as usual": lambda: None,
    "nohup": ignore(SIGHUP),
    "in the background of a script": ignore(SIGINT, SIGQUIT),
    "children ignored": ignore(SIGCHLD),
    "pipes ignored": ignore(SIGPIPE),
    "all ignored": ignore(*PASSED_ON, SIGCHLD, SIGPIPE),
    "some blocked": block(SIGUSR1, SIGTERM, SIGPIPE),
    "children blocked": block(SIGCHLD),
    "all blocked": block(*signal.valid_signals()),
}


@pytest.mark.as_it_is
@pytest.mark.parametrize("state", STATES)
def test_signals_are_to_the_command_what_they_were(server, run, state):
    before = STATES[state]
    plain = subprocess.run(SIGNAL_STATE, preexec_fn=before, capture_output=True, text=True, timeout=60)
    done = run(server, "k", *SIGNAL_STATE, before=before)
    assert (done.wait(), done.stdout) == (0, plain.stdout)


def test_what_is_ignored_ends_neither_wait_nor_command(server, run, witness):
    # As with nohup.
    server.control.execute_command("LOCK.ACQUIRE", "k", "o")
    command = witness(hear=[SIGUSR1])
    held = run(server, "k", *command.words, before=ignore(SIGHUP))
    wait_waiting(server, "k")
    held.tell(SIGHUP)
    server.control.execute_command("LOCK.RELEASE", "k", "o")
    command.wait_begun()
    held.tell(SIGHUP)
    held.tell(SIGUSR1)
    command.wait_received(SIGUSR1)
    command.finish()
    assert held.wait() == 0


FDS = [sys.executable, "-ISE", "-c", "import os; print([fd for fd in range(100) if os.path.exists(f'/proc/self/fd/{fd}')])"]


@pytest.mark.as_it_is
def test_no_more_files_are_open(server, run):
    read, write = os.pipe()
    plain = subprocess.run(FDS, stdin=subprocess.DEVNULL, capture_output=True, text=True, pass_fds=[read], timeout=60)
    done = run(server, "--lease", 20, "k", *FDS, pass_fds=[read])
    os.close(read)
    os.close(write)
    assert done.wait() == 0
    assert done.stdout == plain.stdout


@pytest.mark.as_it_is
@pytest.mark.parametrize("closed", [[0], [2], [0, 2]], ids=repr)
def test_a_closed_one_is_closed(server, run, closed):
    def close():
        for fd in closed:
            os.close(fd)

    done = run(server, "k", *FDS, before=close)
    assert (done.wait(), done.stdout) == (0, f"{[fd for fd in range(3) if fd not in closed]}\n")


def test_what_is_written_to_a_file_of_ours_arrives(server, run):
    read, write = os.pipe()
    done = run(server, "k", "bash", "-c", f"echo here >&{write}", pass_fds=[write])
    os.close(write)
    with open(read) as file:
        assert file.read() == "here\n"
    assert done.wait() == 0


def test_standard_input_is_the_commands(server, run):
    done = run(server, "k", "cat", stdin=subprocess.PIPE)
    data = b"".join(b"%d\n" % number for number in range(100_000))
    done.stdin.write(data)
    done.stdin.close()
    assert done.wait() == 0
    assert done.stdout.encode() == data


def test_whose_output_nobody_reads_ends_by_sigpipe(server, run):
    read, write = os.pipe()
    os.close(read)
    done = run(server, "k", "sh", "-c", "echo into nothing; echo; exit 0", stdout=write)
    os.close(write)
    assert done.wait() == 128 + SIGPIPE


# Its children


def test_what_the_command_leaves_is_reaped(server, run, witness, tmp_path):
    command = witness()
    # Its parent ends first, so that it becomes a child of lockctl.
    orphan = f"(sh -c 'echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; exit 9' &)"
    held = run(server, "k", "sh", "-c", f'{orphan}; exec "$@"', "sh", *command.words)
    command.wait_begun()
    wait_for((tmp_path / "pid").exists, what="the orphan to have lived")
    orphans = int((tmp_path / "pid").read_text())
    wait_for(lambda: stat_of(orphans) is None, what="the orphan to be reaped")
    assert list(children_of(held.pid)) == [command.pid]
    command.finish(4)
    assert held.wait() == 4


def test_what_runs_in_the_background_is_not_waited_for(server, run, tmp_path):
    done = run(server, "k", "sh", "-c", f"sleep 600 & echo $! > {tmp_path}/pid; exit 4", leaves=True)
    assert done.wait() == 4
    assert is_free(server, "k")
    assert lives(int((tmp_path / "pid").read_text()))


# While it waits


@pytest.mark.parametrize("kind", [[], ["--fair"], ["--shared"], ["--owner", "me"]], ids=lambda words: " ".join(map(str, words)) or "plain")
@pytest.mark.parametrize("number", ENDING, ids=lambda number: number.name)
def test_a_wait_ends_by_it(server, run, tmp_path, number, kind):
    server.control.execute_command("LOCK.RWWRITE", "k", "o")
    waiter = run(server, *kind, "k", "touch", tmp_path / "started", before=no_core)
    wait_waiting(server, "k")
    waiter.tell(number)
    # As if it had not been caught: a shell that waits sees which signal it was.
    assert waiter.wait() == -number
    wait_for(lambda: waiting(server, "k") == 0, what="no waiter to be left")
    assert [holder["owner"] for holder in holders(server, "k")] == [b"o"]
    server.control.execute_command("LOCK.RELEASE", "k", "o")
    assert is_free(server, "k")
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("number", [SIGWINCH, SIGCONT], ids=lambda number: number.name)
def test_a_wait_does_not_end_by(server, run, number):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o")
    waiter = run(server, "k", "true")
    wait_waiting(server, "k")
    waiter.tell(number)
    waiter.stop()
    waiter.go_on()
    assert waiting(server, "k") == 1
    server.control.execute_command("LOCK.RELEASE", "k", "o")
    assert waiter.wait() == 0


@pytest.mark.as_it_is
def test_a_wait_is_stopped_and_goes_on(server, run):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o")
    waiter = run(server, "k", "true", **AS_A_JOB)
    wait_waiting(server, "k")
    waiter.tell(SIGTSTP)
    wait_for(lambda: is_stopped(waiter.pid), what="lockctl to stop")
    waiter.go_on()
    server.control.execute_command("LOCK.RELEASE", "k", "o")
    assert waiter.wait() == 0


def test_killed_while_it_waits(server, run):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o")
    waiter = run(server, "k", "true")
    wait_waiting(server, "k")
    waiter.tell(SIGKILL)
    assert waiter.wait() == -SIGKILL
    wait_for(lambda: waiting(server, "k") == 0, what="no waiter to be left")


@pytest.mark.parametrize("hold", [[], ["--lease", 600]], ids=["session", "lease"])
@pytest.mark.parametrize("answer", ["LOCK.ACQUIRE", "LOCK.RENEW"])
def test_nothing_is_held_by_who_ends_while_it_is_granted(server, run, tmp_path, answer, hold):
    with CommandProxy(server.port) as wire:
        held = wire.hold(answer)
        waiter = run(wire, *hold, "k", "touch", tmp_path / "started")
        held.wait_arrived()
        assert len(holders(server, "k")) == 1
        waiter.tell(SIGTERM)
        assert waiter.wait() == -SIGTERM
        assert is_free(server, "k")
        assert not (tmp_path / "started").exists()
