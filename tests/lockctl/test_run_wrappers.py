"""lockctl in the company of other programs: those that start it, those next to it in a pipeline, and those that it runs."""

import os
import shlex
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from signal import SIGINT, SIGPIPE, SIGTERM

import pytest

from harness import scaled, wait_for
from runs import NOT_HAD, PROGRAM, children_of, environment, holders, is_free, lives, stat_of, wait_waiting
from terminals import CTRL_D, CTRL_Z, Shell

LOCKCTL = f"{shlex.quote(str(PROGRAM))} run"


def bash(server, script, **options):
    """Runs a script of bash to its end."""
    return subprocess.run(
        ["bash", "-c", script], env=environment(server), capture_output=True, text=True, timeout=scaled(60), **options
    )


def pid_in(path):
    wait_for(lambda: path.exists() and path.read_text().endswith("\n"), 20, "a process to run")
    return int(path.read_text())


def note(path):
    """A piece of shell that writes the process id."""
    return f"echo $$ > {path}.new; mv {path}.new {path}"


# Pipelines


def test_whose_reader_has_ended_ends_by_sigpipe(server):
    done = bash(server, f"set -o pipefail; {LOCKCTL} k yes | head -n 1")
    assert (done.returncode, done.stdout, done.stderr) == (128 + SIGPIPE, "y\n", "")
    assert is_free(server, "k")


@pytest.mark.parametrize("script, status", [
    ("echo one | {run} k cat | tr a-z A-Z", 0),
    ("{run} k sh -c 'exit 3' | cat", 3),
    ("{run} k sh -c 'exit 3' | {run} other cat", 3),
    ("true | {run} k sh -c 'exit 4' | cat", 4),
])  # fmt: skip
def test_pipefail_shows_the_status_of_the_command(server, script, status):
    done = bash(server, "set -o pipefail; " + script.format(run=LOCKCTL))
    assert (done.returncode, done.stderr) == (status, "")
    assert is_free(server, "k")


def test_sigpipe_to_lockctl_does_nothing(server, run, witness):
    # It may write into a pipe whose reader has ended, and must still end the command when the lock is lost.
    command = witness()
    held = run(server, "k", *command.words)
    command.wait_begun()
    held.tell(SIGPIPE)
    command.finish(3)
    assert held.wait() == 3


def test_messages_that_nobody_reads(server):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o")
    done = bash(server, f"{{ {LOCKCTL} -n k true; echo $? >&3; }} 3>&1 2>&1 >/dev/null | exec 0<&-; exit 0")
    assert done.returncode == 0
    read, write = os.pipe()
    os.close(read)
    refused = subprocess.run([PROGRAM, "run", "-n", "k", "true"], env=environment(server), stderr=write, timeout=scaled(60))
    os.close(write)
    assert refused.returncode == NOT_HAD


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_what_is_closed(server, closed):
    done = bash(server, f"{LOCKCTL} k sh -c 'exit 6' {closed}")
    assert done.returncode == 6
    assert is_free(server, "k")


@pytest.mark.parametrize("line", ["cat | {run} k cat", "{run} k cat | cat", "{run} k cat | {run} other cat"])
def test_a_pipeline_in_the_foreground_is_stopped_and_continues(server, line):
    shell = Shell(environment(server))
    try:
        shell.say(line.format(run=LOCKCTL))
        for number in range(3):
            shell.type(f"line {number}\n")
            shell.see(f"line {number}\r\n")
            shell.press(CTRL_Z)
            assert len(holders(server, "k")) == 1
            shell.say("fg")
            wait_for(lambda: shell.foreground() != shell.pid, 20, "the job to be in the foreground")
        shell.type(CTRL_D)
        shell.prompts()
        assert shell.status() == 0
        assert is_free(server, "k")
    finally:
        shell.end()


# Programs that start lockctl


def test_timeout_ends_all(server, tmp_path):
    done = bash(server, f"timeout {scaled(1):g} {LOCKCTL} k sh -c '{note(tmp_path / 'pid')}; sleep 601; echo never'")
    assert (done.returncode, done.stdout) == (124, "")
    assert not lives(pid_in(tmp_path / "pid"))
    assert is_free(server, "k")


def test_timeout_in_the_foreground(server, tmp_path):
    # Then only lockctl receives the signal.
    done = bash(server, f"timeout --foreground {scaled(1):g} {LOCKCTL} k sh -c '{note(tmp_path / 'pid')}; sleep 601; echo never'")
    assert (done.returncode, done.stdout) == (124, "")
    assert not lives(pid_in(tmp_path / "pid"))
    assert is_free(server, "k")


def test_timeout_of_a_wait(server):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o")
    assert bash(server, f"timeout {scaled(0.5):g} {LOCKCTL} k echo never").returncode == 124
    wait_waiting(server, "k", 0)


def test_timeout_as_the_command(server):
    done = bash(server, f"{LOCKCTL} k timeout {scaled(0.5):g} sh -c 'sleep 601; echo never'")
    assert (done.returncode, done.stdout) == (124, "")
    assert is_free(server, "k")


def test_nice_and_env(server):
    done = bash(server, f"nice -n 5 env A=b {LOCKCTL} k sh -c 'nice; echo $A; exit 7'")
    assert (done.returncode, done.stdout.split()) == (7, [str(os.nice(0) + 5), "b"])


def test_xargs_runs_one_at_a_time(server, tmp_path):
    work = f"test ! -e {tmp_path}/busy || echo two >> {tmp_path}/log; touch {tmp_path}/busy; sleep 0.01; rm {tmp_path}/busy; echo done >> {tmp_path}/log"
    done = bash(server, f"seq 12 | xargs -P 4 -n 1 {LOCKCTL} k sh -c {shlex.quote(work)} sh")
    assert done.returncode == 0
    assert (tmp_path / "log").read_text() == "done\n" * 12
    assert is_free(server, "k")


def test_xargs_sees_a_status_other_than_0(server):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o")
    assert bash(server, f"seq 2 | xargs -P 2 -n 1 {LOCKCTL} -qn k true").returncode == 123
    assert bash(server, f"seq 2 | xargs -P 2 -n 1 {LOCKCTL} -qn -E 0 k true").returncode == 0


def test_a_script_without_errexit_of_its_own(server):
    done = bash(server, f"set -e; {LOCKCTL} k sh -c 'exit 2'; echo never")
    assert (done.returncode, done.stdout) == (2, "")


# What systemd does


def test_a_control_group_that_is_killed(server, run, tmp_path):
    """KillMode=control-group: each process of the service gets the signal, also those that lockctl passes it on to."""
    script = f'trap "exit 0" TERM; sh -c \'{note(tmp_path / "pid")}; exec sleep 601\' & wait; exit 5'
    held = run(server, "k", "sh", "-c", script)
    work = pid_in(tmp_path / "pid")
    for pid in [held.pid, *held.left()]:
        with suppress(ProcessLookupError):  # the signal that lockctl passes on may be faster
            os.kill(pid, SIGTERM)
    assert held.wait() == 0
    assert not lives(work) and is_free(server, "k")


def test_a_main_process_that_is_killed_first(server, run, tmp_path):
    """KillMode=mixed: only lockctl gets the signal."""
    held = run(server, "k", "sh", "-c", f"sh -c '{note(tmp_path / 'pid')}; exec sleep 601' & wait")
    work = pid_in(tmp_path / "pid")
    held.tell(SIGTERM)
    assert held.wait() == 128 + SIGTERM
    assert not lives(work) and is_free(server, "k")


def test_a_service_that_notifies(server, run, tmp_path):
    """Type=notify with NotifyAccess=all: the command notifies the service manager itself."""
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(path))
        manager.settimeout(scaled(30))
        send = "import os, socket; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.connect(os.environ['NOTIFY_SOCKET']); s.send(b'READY=1')"
        done = run(server, "k", sys.executable, "-c", send, env={"NOTIFY_SOCKET": str(path)})
        assert manager.recv(100) == b"READY=1"
        assert done.wait() == 0


# Commands that daemonize

DAEMON = """
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
with open(sys.argv[1] + ".new", "w") as file: file.write(f"{os.getpid()}\\n")
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(601)
"""


def test_a_command_that_daemonizes(server, run, tmp_path):
    # lockctl cannot know that a daemon protects something: run it in the foreground instead.
    done = run(server, "k", sys.executable, "-c", DAEMON, tmp_path / "pid", leaves=True)
    assert done.wait() == 0
    daemon = pid_in(tmp_path / "pid")
    try:
        assert is_free(server, "k")
        assert lives(daemon)
        wait_for(lambda: stat_of(daemon)[1] != done.pid, what="the daemon to have another parent")
    finally:
        os.kill(daemon, signal.SIGKILL)


def test_a_daemon_ends_when_the_lock_is_lost_before_its_command_ends(server, run, witness, tmp_path):
    command = witness()
    start = f'"$0" -c "$1" {tmp_path}/pid; shift; exec "$@"'
    held = run(server, "k", "sh", "-c", start, sys.executable, DAEMON, *command.words)
    command.wait_begun()
    daemon = pid_in(tmp_path / "pid")
    server.control.execute_command("LOCK.FORCE", "k")
    held.wait()
    assert not lives(daemon)


# Two levels


def test_two_levels_with_the_same_lock_wait(server, run):
    outer = run(server, "k", PROGRAM, "run", "-qn", "k", "true")
    assert outer.wait() == NOT_HAD


def test_the_inner_one_is_stopped_by_ctrl_c(server):
    shell = Shell(environment(server))
    try:
        shell.say(f"{LOCKCTL} outer {LOCKCTL} inner sh -c 'echo begun; exec sleep 601'")
        shell.see("begun")
        shell.press("\x03")
        assert shell.status() == 128 + SIGINT
        assert is_free(server, "outer") and is_free(server, "inner")
    finally:
        shell.end()


def test_a_lost_outer_lock_ends_the_inner_command(server, run, witness):
    command = witness()
    held = run(server, "outer", PROGRAM, "run", "inner", *command.words)
    command.wait_begun()
    server.control.execute_command("LOCK.FORCE", "outer")
    assert held.wait() == 76
    assert not lives(command.pid) and not children_of(held.pid)
    assert is_free(server, "inner")
