"""A signal to lockctl: the lock is not free before all work that it protects has ended."""

import os
import re
import signal
import subprocess
from signal import SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGSTOP, SIGTERM, SIGUSR1

import pytest

from harness import scaled, wait_for
from harness.proxy import CommandProxy
from runs import AS_A_JOB, LOST, PROGRAM, all_processes, children_of, environment, holders, is_free, is_stopped, lives, wait_free, wait_watched
from terminals import OnTerminal

HOUR = ["--grace", 3600]


@pytest.fixture
def work(tmp_path):
    """work("sleep 600"): the words of a shell that starts this in the background; pid(): its process, once it runs."""

    class Work:
        @staticmethod
        def words(trap, script, outer_trap=":", then="wait"):
            """The script writes its process id when both shells handle signals in this way."""
            inner = f"{trap}; echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; {script}"
            return ["sh", "-c", f"{outer_trap}; sh -c '{inner}' & {then}"]

        @staticmethod
        def pid():
            wait_for((tmp_path / "pid").exists, 20, "the work to begin")
            return int((tmp_path / "pid").read_text())

        @staticmethod
        def finish():
            (tmp_path / "finish").touch()

        ignoring = 'trap "" TERM'
        until_finished = f"while ! test -e {tmp_path}/finish; do sleep 0.01; done"

    return Work


def next_one(run, server):
    """A lockctl that waits for the lock, and ends with status 9 when it has acquired it."""
    return run(server, "k", "sh", "-c", "exit 9")


def wait_ended(pid):
    wait_for(lambda: not lives(pid), what=f"process {pid} to end")


# What a shell has started


@pytest.mark.parametrize("number", [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1], ids=lambda number: number.name)
def test_what_a_script_runs_ends_too(server, run, tmp_path, number):
    # dash and bash do not pass signals on to what they run in the foreground.
    held = run(server, "k", "sh", "-c", f"ulimit -c 0; sleep 601 & echo $! > {tmp_path}/pid; sleep 602; echo never")
    wait_for(lambda: len(sleeps(held)) == 2, 20, "the script to work")
    work = sleeps(held)
    held.tell(number)
    assert held.wait() == 128 + number
    assert not any(map(lives, work))
    assert is_free(server, "k")


@pytest.mark.parametrize("number", [SIGTERM, SIGHUP, SIGUSR1], ids=lambda number: number.name)
def test_what_a_script_starts_at_that_moment_ends_too(server, run, tmp_path, number):
    # Between the search for its processes and the signal it starts others.
    script = f"ulimit -c 0; for i in $(seq 600); do sleep 601 & test $i != 60 || touch {tmp_path}/begun; done; wait"
    held = run(server, *HOUR, "k", "sh", "-c", script)
    wait_for((tmp_path / "begun").exists, 20, "the script to work")
    held.tell(number)
    assert (held.wait(), held.stderr) == (128 + number, "")
    assert held.left() == [] and is_free(server, "k")


def test_what_is_started_to_handle_the_signal_goes_on(server, run, work, tmp_path):
    (tmp_path / "handler").write_text(f"touch {tmp_path}/handling; {work.until_finished}; touch {tmp_path}/handled")
    # The command itself, and then a process that it has left, end while the work still handles the signal.
    trap = f'trap "sh {tmp_path}/handler; exit 0" TERM'
    then = f"sh -c 'trap : TERM; while ! test -e {tmp_path}/handling; do sleep 0.01; done; sleep 0.1' & wait"
    held = run(server, *HOUR, "k", *work.words(trap, "while :; do sleep 0.01; done", then=then))
    pid = work.pid()
    held.tell(SIGTERM)
    wait_for((tmp_path / "handling").exists, what="the work to handle the signal")
    wait_for(lambda: list(children_of(held.pid)) == [pid], what="the others to end before the work")
    work.finish()
    assert held.wait() == 128 + SIGTERM and "lockctl" not in held.stderr
    assert (tmp_path / "handled").exists() and is_free(server, "k")


def sleeps(held):
    return [pid for pid in held.left() if name_of(pid) == "sleep"]


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return ""


@pytest.mark.parametrize("number", [SIGTERM, SIGINT, SIGHUP], ids=lambda number: number.name)
def test_the_lock_is_held_until_the_work_has_ended(server, run, work, number):
    # The work handles the signal: it first finishes what it has begun.
    held = run(server, *HOUR, "k", *work.words(f'trap "" {number.name[3:]} TERM', work.until_finished))
    pid = work.pid()
    waiter = next_one(run, server)
    held.tell(number)
    wait_for(lambda: list(children_of(held.pid)) == [pid], what="the command to end before its work")
    server.let_pass(scaled(500))
    assert len(holders(server, "k")) == 1 and not waiter.has_ended()
    work.finish()
    assert held.wait() == 128 + number
    assert not lives(pid)
    assert waiter.wait() == 9


@pytest.mark.parametrize("number", [SIGTERM, SIGINT, SIGHUP], ids=lambda number: number.name)
def test_what_ignores_the_signal_is_killed_after_grace(server, run, work, number):
    held = run(server, "--grace", scaled(0.3), "k", *work.words(f'trap "" {number.name[3:]} TERM', work.until_finished))
    pid = work.pid()
    held.tell(number)
    assert held.wait() == 128 + number
    assert re.fullmatch(r"lockctl: k: killed what the command has left: \d process(es)?\n", held.stderr)
    assert not lives(pid)
    assert is_free(server, "k")


def test_what_ignores_only_the_signal_gets_sigterm_at_once(server, run):
    # A shell without job control makes what it starts in the background ignore SIGINT.
    held = run(server, *HOUR, "k", "sh", "-c", "sleep 601 & wait")
    wait_for(lambda: len(sleeps(held)) == 1, 20, "the script to work")
    held.tell(SIGINT)
    assert (held.wait(), held.stderr) == (128 + SIGINT, "")
    assert is_free(server, "k")


def test_a_command_that_chooses_its_status_after_sigterm(server, run, work):
    words = work.words(work.ignoring, work.until_finished, outer_trap='trap "exit 3" TERM', then="wait; wait")
    held = run(server, *HOUR, "k", *words)
    pid = work.pid()
    held.tell(SIGTERM)
    wait_for(lambda: list(children_of(held.pid)) == [pid], what="the command to end before its work")
    assert len(holders(server, "k")) == 1
    work.finish()
    assert held.wait() == 3
    assert is_free(server, "k")


def test_a_shell_that_is_killed_alone(server, run, work):
    # As by the kernel when there is no memory left, or by a user who kills the command and not lockctl.
    held = run(server, *HOUR, "k", *work.words(work.ignoring, work.until_finished))
    pid = work.pid()
    [command] = children_of(held.pid)
    os.kill(command, SIGKILL)
    wait_for(lambda: list(children_of(held.pid)) == [pid], what="the command to end before its work")
    assert len(holders(server, "k")) == 1
    work.finish()
    assert held.wait() == 128 + SIGKILL
    assert is_free(server, "k")


def test_what_a_killed_shell_leaves_gets_sigterm(server, run):
    held = run(server, *HOUR, "k", "sh", "-c", "sleep 601; echo never")
    wait_for(lambda: len(sleeps(held)) == 1, 20, "the script to work")
    [command] = children_of(held.pid)
    os.kill(command, SIGKILL)
    assert held.wait() == 128 + SIGKILL
    assert held.left() == [] and is_free(server, "k")


def test_a_group_of_its_own(server, run, tmp_path):
    # timeout makes a process group, in which neither the shell nor lockctl is.
    held = run(server, *HOUR, "k", "sh", "-c", "timeout 900 sleep 601; echo never")
    wait_for(lambda: len(sleeps(held)) == 1, 20, "the script to work")
    [work] = sleeps(held)
    held.tell(SIGTERM)
    assert held.wait() == 128 + SIGTERM
    assert not lives(work) and held.left() == []
    assert is_free(server, "k")


def test_a_command_in_a_group_of_its_own(server, run):
    held = run(server, *HOUR, "k", "timeout", 900, "sh", "-c", "sleep 601; echo never")
    wait_for(lambda: len(sleeps(held)) == 1, 20, "the script to work")
    held.tell(SIGTERM)
    held.wait()
    assert held.left() == []
    assert is_free(server, "k")


def test_a_stopped_command_ends(server, run):
    # It handles the signal, and so only after it has continued.
    held = run(server, *HOUR, "k", "sh", "-c", 'trap "exit 7" TERM; sleep 601; echo never')
    wait_for(lambda: len(sleeps(held)) == 1, 20, "the script to work")
    for pid in held.left():
        os.kill(pid, SIGSTOP)
    wait_for(lambda: all(map(is_stopped, held.left())), what="all to stop")
    held.tell(SIGTERM)
    assert held.wait() == 7
    assert is_free(server, "k")


def test_a_second_signal_reaches_what_is_left(server, run, work, tmp_path):
    trap = f'trap "touch {tmp_path}/first" TERM; trap "exit 0" USR1'
    held = run(server, *HOUR, "k", *work.words(trap, "while :; do sleep 0.01; done"))
    pid = work.pid()
    held.tell(SIGTERM)
    wait_for((tmp_path / "first").exists, what="the work to receive the first signal")
    wait_for(lambda: list(children_of(held.pid)) == [pid], what="the command to end before its work")
    held.tell(SIGUSR1)
    assert held.wait() == 128 + SIGTERM
    assert is_free(server, "k")


def test_a_lock_that_is_lost_meanwhile(server, run, work):
    held = run(server, *HOUR, "--lease", scaled(600), "k", *work.words(work.ignoring, work.until_finished))
    pid = work.pid()
    wait_watched(server, "k")
    held.tell(SIGTERM)
    wait_for(lambda: list(children_of(held.pid)) == [pid], what="the command to end before its work")
    server.control.execute_command("LOCK.FORCE", "k")
    wait_for(lambda: "the lock is lost" in held.stderr, what="lockctl to notice")
    work.finish()
    assert held.wait() == LOST


def test_a_loss_kills_what_is_left_sooner(server, run, work):
    held = run(server, "--grace", scaled(2), "k", *work.words(work.ignoring, work.until_finished))
    pid = work.pid()
    wait_watched(server, "k")
    held.tell(SIGTERM)
    wait_for(lambda: list(children_of(held.pid)) == [pid], what="the command to end before its work")
    server.control.execute_command("LOCK.FORCE", "k")
    assert held.wait() == LOST
    assert not lives(pid)


def test_a_loss_ends_daemons_too(server, run, work, tmp_path):
    # Until then what has left the session, as a daemon does, may go on.
    daemon = f"trap 'touch {tmp_path}/told; exit' TERM; touch {tmp_path}/daemon; while :; do sleep 0.01; done"
    (tmp_path / "script").write_text(daemon)
    held = run(server, *HOUR, "k", *work.words("trap : TERM", f"setsid sh {tmp_path}/script & {work.until_finished}"))
    pid = work.pid()
    wait_for((tmp_path / "daemon").exists, 20, "the daemon to run")
    wait_watched(server, "k")
    held.tell(SIGTERM)
    wait_for(lambda: pid in children_of(held.pid), what="the command to end before its work")
    assert not (tmp_path / "told").exists()
    server.control.execute_command("LOCK.FORCE", "k")
    wait_for((tmp_path / "told").exists, what="the daemon to get SIGTERM")
    work.finish()
    assert held.wait() == LOST


def test_a_lost_lock_ends_what_a_script_runs(server, run, tmp_path):
    # At once, although the shell waits for it before it handles the signal itself.
    script = f'trap "exit 4" TERM; echo > {tmp_path}/begun; sleep 601; exit 5'
    held = run(server, *HOUR, "k", "sh", "-c", script)
    wait_for(lambda: len(sleeps(held)) == 1, 20, "the script to work")
    wait_watched(server, "k")
    server.control.execute_command("LOCK.FORCE", "k")
    assert held.wait() == LOST


# What is not waited for


def test_a_daemon_is_not_waited_for(server, run, tmp_path):
    # setsid: a session of its own.
    script = f"setsid sh -c 'echo $$ > {tmp_path}/new; mv {tmp_path}/new {tmp_path}/pid; exec sleep 601' & wait"
    held = run(server, *HOUR, "k", "sh", "-c", script, leaves=True)
    wait_for((tmp_path / "pid").exists, 20, "the daemon to run")
    daemon = int((tmp_path / "pid").read_text())
    held.tell(SIGTERM)
    assert (held.wait(), held.stderr) == (128 + SIGTERM, "")
    assert is_free(server, "k")
    assert lives(daemon)
    os.kill(daemon, SIGKILL)


def test_what_was_signalled_and_goes_on_may_leave_a_daemon(server, run, witness, tmp_path):
    # SIGHUP often means: read the configuration again. What it leaves when it ends by itself later is not waited for.
    script = f'trap "touch {tmp_path}/signalled" HUP; echo > {tmp_path}/begun; while ! test -e {tmp_path}/go; do sleep 0.01; done; sleep 601 & echo $! > {tmp_path}/pid'
    held = run(server, *HOUR, "k", "sh", "-c", script, leaves=True)
    wait_for((tmp_path / "begun").exists, 20, "the command to run")
    held.tell(SIGHUP)
    wait_for((tmp_path / "signalled").exists, what="the command to receive the signal")
    (tmp_path / "go").touch()
    assert held.wait() == 0
    assert is_free(server, "k")
    assert lives(int((tmp_path / "pid").read_text()))


def test_parents_of_lockctl_get_nothing(server, tmp_path):
    # A script without job control shares its process group with lockctl.
    script = f'{PROGRAM} run k sh -c "touch {tmp_path}/begun; sleep 601" & echo $! > {tmp_path}/pid; wait $!; echo status $?'
    shell = subprocess.Popen(["sh", "-c", script], env=environment(server), stdout=subprocess.PIPE, text=True, start_new_session=True)
    wait_for((tmp_path / "begun").exists, 20, "the command to run")
    os.kill(int((tmp_path / "pid").read_text()), SIGTERM)
    assert shell.communicate(timeout=scaled(30))[0] == "status 143\n"
    assert shell.returncode == 0


# Before the command is the command


def test_a_signal_while_the_command_starts(server, run, tmp_path):
    # At any moment: it ends the wait or the command, and leaves neither processes nor the lock.
    for ms in range(0, 24, 2):
        held = run(server, "k", "sh", "-c", "sleep 601; echo never")
        server.let_pass(ms)
        held.tell(SIGTERM)
        assert held.wait() in (-SIGTERM, 128 + SIGTERM)
        assert held.left() == [] and is_free(server, "k")


# Signals of the kernel


@pytest.mark.as_it_is
def test_an_alarm_that_was_set_before(server, run, tmp_path):
    # perl -e 'alarm 10; exec @ARGV' lockctl ...: the kernel sends it to lockctl alone.
    held = run(server, "k", "sh", "-c", "sleep 601; echo never", before=lambda: signal.setitimer(signal.ITIMER_REAL, scaled(1)))
    assert held.wait() == 128 + signal.SIGALRM
    assert is_free(server, "k")


@pytest.mark.parametrize("number", [signal.SIGXCPU, signal.SIGVTALRM, signal.SIGIO, signal.SIGPWR, signal.SIGRTMIN + 3])
def test_other_signals_that_end_a_process(server, run, number):
    held = run(server, "k", "sh", "-c", "ulimit -c 0; sleep 601; echo never")
    wait_for(lambda: len(sleeps(held)) == 1, 20, "the script to work")
    held.tell(number)
    assert held.wait() == 128 + number
    assert held.left() == [] and is_free(server, "k")


def test_the_terminal_of_a_session_leader_is_closed(server):
    # As with ssh -t host lockctl: only the leader of the session receives SIGHUP.
    leader = OnTerminal([str(PROGRAM), "run", "k", "sh", "-c", "echo begun; sleep 601"], environment(server))
    try:
        leader.see("begun")
        leader.hang_up()
        wait_free(server, "k")
        wait_for(lambda: not [pid for pid, stat in all_processes().items() if stat[3] == leader.pid and stat[0] not in "ZX"], what="all to end")
    finally:
        leader.end()


# Two levels


def test_two_levels_of_lockctl(server, run, witness):
    command = witness(hear=[SIGTERM, SIGUSR1, SIGCONT])
    held = run(server, "outer", PROGRAM, "run", "inner", *command.words)
    command.wait_begun()
    held.tell(SIGTERM)
    command.wait_received(SIGTERM)
    held.tell(SIGUSR1)
    command.wait_received(SIGTERM, SIGUSR1)  # each once
    command.finish(5)
    assert held.wait() == 5
    assert is_free(server, "outer") and is_free(server, "inner")


def test_the_inner_command_in_another_group(server, run):
    held = run(server, "outer", PROGRAM, "run", "inner", "timeout", 900, "sh", "-c", "sleep 601; echo never")
    wait_for(lambda: len(sleeps(held)) == 1, 20, "the script to work")
    held.tell(SIGTERM)
    held.wait()
    assert held.left() == []
    assert is_free(server, "outer") and is_free(server, "inner")
