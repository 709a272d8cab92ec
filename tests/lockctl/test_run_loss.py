"""The lock is lost: the command gets SIGTERM, its remaining processes SIGKILL after --grace, and the status is 76."""

import os
import subprocess
import time
from signal import SIGHUP, SIGINT, SIGKILL, SIGSTOP, SIGTERM, SIGUSR1

import pytest

from harness import scaled, scaled_ms, wait_for
from harness.proxy import CommandProxy
from runs import LOST, holders, info, is_free, is_stopped, lives, wait_free, wait_waiting, wait_watched

DEAF = [SIGTERM, SIGHUP, SIGINT]
HOLDS = {"session": [], "lease": ["--lease", scaled(60)]}

TAKEN = {
    "forced": ["LOCK.FORCE", "k"],
    "deleted": ["DEL", "k"],
    "flushed": ["FLUSHALL"],
    "overwritten": ["SET", "k", "text"],
    "renamed": ["RENAME", "k", "elsewhere"],
    "over": ["PEXPIRE", "k", "1"],
    "swapped": ["SWAPDB", "0", "1"],
}


@pytest.mark.parametrize("hold", HOLDS)
@pytest.mark.parametrize("how", TAKEN)
def test_taken_away(server, run, witness, how, hold):
    command = witness()
    held = run(server, *HOLDS[hold], "k", *command.words)
    command.wait_begun()
    wait_watched(server, "k")
    server.control.execute_command(*TAKEN[how])
    assert held.wait() == LOST
    assert held.stderr == "lockctl: k: the lock is lost: another client may hold it now\n"
    assert not lives(command.pid)


@pytest.mark.parametrize("kind", [["--fair"], ["--shared"], ["--semaphore", 2]], ids=lambda words: words[0])
def test_taken_away_of_any_kind(server, run, witness, kind):
    command = witness()
    held = run(server, *kind, "k", *command.words)
    command.wait_begun()
    wait_watched(server, "k")
    server.control.execute_command("LOCK.FORCE", "k")
    assert held.wait() == LOST


def test_somebody_elses_is_not_touched(server, run, witness):
    command = witness(hear=DEAF)
    held = run(server, "--grace", scaled(0.3), "k", *command.words)
    command.wait_begun()
    wait_watched(server, "k")
    other = server.actor("other")
    other.send("LOCK.ACQUIRE", "k", "other", "BLOCK", 0)
    wait_waiting(server, "k")
    server.control.execute_command("LOCK.FORCE", "k")
    assert other.reply() == 1
    assert held.wait() == LOST
    assert [holder["owner"] for holder in holders(server, "k")] == [b"other"]


def test_what_is_lost_is_not_released_once_more(server, run, witness):
    # A client with the same owner name holds the lock now, and continues.
    command = witness(hear=DEAF)
    held = run(server, "--owner", "me", "--grace", scaled(0.3), "k", *command.words)
    command.wait_begun()
    wait_watched(server, "k")
    server.control.execute_command("LOCK.FORCE", "k")
    command.wait_received(SIGTERM)
    assert server.control.execute_command("LOCK.ACQUIRE", "k", "me") == 1
    assert held.wait() == LOST
    assert [holder["owner"] for holder in holders(server, "k")] == [b"me"]


# What becomes of the command


def test_a_command_that_ends_itself_has_the_time(server, run, tmp_path):
    # The background process says that it has begun: before its exec it would have the shell's handler, and lose the signal.
    child = f'sh -c "touch {tmp_path}/begun; exec sleep 600"'
    script = f"trap 'sleep 0.2; echo put away > {tmp_path}/done; exit 0' TERM; {child} & wait"
    held = run(server, "--grace", 600, "k", "sh", "-c", script)
    wait_for((tmp_path / "begun").exists, 20, "the command to run")
    wait_watched(server, "k")
    server.control.execute_command("LOCK.FORCE", "k")
    # Not 0, which is the status of the command; and what the command has left in the background ends too.
    assert held.wait() == LOST
    assert (tmp_path / "done").read_text() == "put away\n"


def test_a_deaf_one_is_killed_with_its_descendants(server, run, witness):
    grace = scaled(0.5)
    command = witness("beat", hear=DEAF, depth=3)
    held = run(server, "--grace", grace, "k", *command.words)
    command.wait_begun()
    wait_watched(server, "k")
    began = time.time() * 1000
    server.control.execute_command("LOCK.FORCE", "k")
    assert held.wait() == LOST
    assert command.heard() == [SIGTERM]
    assert not any(map(lives, command.pids))
    assert max(command.beats()) > began + 0.8 * grace * 1000, "it had its grace time"


def test_no_grace(server, run, witness):
    command = witness(hear=DEAF, depth=1)
    held = run(server, "--grace", 0, "k", *command.words)
    command.wait_begun()
    wait_watched(server, "k")
    server.control.execute_command("LOCK.FORCE", "k")
    assert held.wait() == LOST
    assert not any(map(lives, command.pids))


def test_a_deaf_orphan_is_killed(server, run, witness):
    # The command itself ends at once; a process that it has started does not.
    command = witness(hear=DEAF)
    held = run(server, "--grace", scaled(0.3), "k", "sh", "-c", '("$@" &); exec sleep 600', "sh", *command.words)
    command.wait_begun()
    wait_watched(server, "k")
    server.control.execute_command("LOCK.FORCE", "k")
    assert held.wait() == LOST
    assert command.heard() == [SIGTERM]
    assert not lives(command.pid)


def test_a_stopped_one_hears_of_it(server, run, witness):
    command = witness()
    held = run(server, "--grace", 600, "k", *command.words)
    command.wait_begun()
    wait_watched(server, "k")
    os.kill(command.pid, SIGSTOP)
    wait_for(lambda: is_stopped(command.pid), what="the command to stop")
    server.control.execute_command("LOCK.FORCE", "k")
    assert held.wait() == LOST


def test_signals_are_passed_on_still(server, run, witness):
    command = witness(hear=[*DEAF, SIGUSR1])
    held = run(server, "--grace", 600, "k", *command.words)
    command.wait_begun()
    wait_watched(server, "k")
    server.control.execute_command("LOCK.FORCE", "k")
    command.wait_received(SIGTERM)
    held.tell(SIGUSR1)
    command.wait_received(SIGTERM, SIGUSR1)
    command.finish()
    assert held.wait() == LOST


# The command is ended even if the messages of lockctl are not read


def test_nobody_reads_what_it_says(server, run, witness):
    read, write = os.pipe()
    os.set_blocking(write, False)
    try:
        while os.write(write, b"x" * 4096):
            pass
    except BlockingIOError:
        os.set_blocking(write, True)
    command = witness(hear=DEAF)
    held = run(server, "--grace", scaled(0.3), "k", *command.words, stderr=write)
    command.wait_begun()
    wait_watched(server, "k")
    server.control.execute_command("LOCK.FORCE", "k")
    os.close(write)
    wait_for(lambda: not lives(command.pid), 10, "the command to be killed")
    assert held.wait() == LOST
    os.close(read)


@pytest.mark.as_it_is
@pytest.mark.parametrize("closed", [[2], [0, 1, 2]], ids=repr)
def test_it_has_nowhere_to_say_it(server, run, witness, closed):
    def close():
        for fd in closed:
            os.close(fd)

    command = witness(hear=[SIGUSR1])
    held = run(server, "k", *command.words, before=close)
    command.wait_begun()
    wait_watched(server, "k")
    server.control.execute_command("LOCK.FORCE", "k")
    assert held.wait() == LOST
    assert command.heard() == []


def test_whoever_read_what_it_says_is_gone(server, run, witness):
    read, write = os.pipe()
    os.close(read)
    command = witness()
    held = run(server, "k", *command.words, stderr=write)
    os.close(write)
    command.wait_begun()
    wait_watched(server, "k")
    server.control.execute_command("LOCK.FORCE", "k")
    assert held.wait() == LOST


# lockctl itself is stopped, or killed


def test_its_lease_is_over_while_it_is_stopped(server, run, witness):
    command = witness("beat", hear=DEAF)
    held = run(server, "--lease", scaled(1.5), "--grace", scaled(0.3), "k", *command.words)
    command.wait_begun()
    other = server.actor("other")
    other.send("LOCK.ACQUIRE", "k", "other", "BLOCK", 0)
    wait_waiting(server, "k")
    held.stop()
    assert other.reply(30) == 1
    assert command.heard() == []
    held.go_on()
    assert held.wait() == LOST
    assert SIGTERM in command.heard()
    assert not lives(command.pid)
    assert [holder["owner"] for holder in holders(server, "k")] == [b"other"]


def test_a_session_lives_while_lockctl_is_stopped(make_server, run, witness):
    # The server renews the session, so a command that was stopped with Ctrl-Z for a long time may continue.
    server = make_server(lock_default_lease=scaled_ms(1500))
    command = witness("beat", hear=DEAF)
    held = run(server, "k", *command.words)
    command.wait_begun()
    held.stop()
    server.let_pass(scaled_ms(2000))
    assert len(holders(server, "k")) == 1
    held.go_on()
    command.wait_beat()
    command.finish()
    assert (held.wait(), held.stderr) == (0, "")
    assert command.heard() == []


@pytest.mark.parametrize("hold", ["session", "lease"])
def test_killed(server, run, witness, hold):
    lease_ms = scaled_ms(4000)
    command = witness("beat", hear=DEAF)
    held = run(server, *(["--lease", lease_ms / 1000] if hold == "lease" else []), "k", *command.words)
    command.wait_begun()
    other = server.actor("other")
    other.send("LOCK.ACQUIRE", "k", "other", "BLOCK", 0)
    wait_waiting(server, "k")
    [holder] = holders(server, "k")
    held.tell(SIGKILL)
    assert held.wait() == -SIGKILL
    wait_for(lambda: not lives(command.pid), what="the command to die with it")
    begun = server.now_ms()
    assert other.reply(30) == 1
    # With a session: a second after the connection has closed, and not after the 30 s of its lease. With a lease of
    # four seconds: after the rest of it.
    assert server.now_ms() - begun < (scaled_ms(10_000) if hold == "session" else holder["pttl"] + scaled_ms(2000))
    assert max(command.beats()) < server.now_ms()


def test_killed_with_a_child_left(server, run, witness):
    # This process continues, which lockctl cannot prevent; the lock is released all the same.
    command = witness(hear=DEAF, depth=1)
    held = run(server, "k", *command.words, leaves=True)
    command.wait_begun()
    held.tell(SIGKILL)
    held.wait()
    wait_for(lambda: not lives(command.pid), what="the command to die with it")
    wait_free(server, "k")


# The last moments


def test_lost_before_it_is_released(server, run, witness):
    # The watch cannot report the loss.
    with CommandProxy(server.port) as wire:
        watch = wire.hold("LOCK.WATCH")
        command = witness()
        held = run(wire, "k", *command.words)
        command.wait_begun()
        server.control.execute_command("LOCK.FORCE", "k")
        watch.wait_arrived()
        command.finish()
        assert held.wait() == LOST
        assert held.stderr == "lockctl: k: the lock was lost before the command ended\n"


@pytest.mark.parametrize("hold", HOLDS)
def test_released_and_the_answer_is_lost(server, run, hold):
    with CommandProxy(server.port) as wire:
        wire.cut("LOCK.RELEASE", reply=0)
        done = run(wire, *HOLDS[hold], "k", "sh", "-c", "exit 5")
        assert (done.wait(), done.stderr) == (5, "")
        assert wire.has_cut()
        assert is_free(server, "k")


def test_of_two_holds_one_is_released_though_the_answer_is_lost(server, run):
    server.control.execute_command("LOCK.ACQUIRE", "k", "me", "PX", 600_000)
    server.control.execute_command("LOCK.ACQUIRE", "k", "me", "PX", 600_000)
    with CommandProxy(server.port) as wire:
        wire.cut("LOCK.RELEASE", reply=0)
        done = run(wire, "--owner", "me", "--lease", 600, "k", "sh", "-c", "exit 5")
        assert done.wait() == 5
        assert wire.has_cut()
    assert [holder["holds"] for holder in holders(server, "k")] == [2]


def test_grant_that_has_expired_when_its_reply_arrives_starts_nothing(server, run, tmp_path):
    lease = scaled(1.5)
    with CommandProxy(server.port) as wire:
        renewal = wire.hold("LOCK.RENEW")
        late = run(wire, "--lease", lease, "--wait", 0, "k", "touch", tmp_path / "started")
        renewal.wait_arrived()
        late.stop()
        renewal.release()
        other = server.actor("other")
        other.send("LOCK.ACQUIRE", "k", "other", "PX", 600_000, "BLOCK", 0)
        assert other.reply(30) == 1
        late.go_on()
        assert late.wait() != 0
        assert not (tmp_path / "started").exists()
        assert info(server, "k")["holders"][0][b"owner"] == b"other"


def test_output_of_the_command_is_not_mixed_up(server, run):
    # Messages of lockctl go to standard error only.
    done = run(server, "k", "sh", "-c", "echo out; echo err >&2", stdin=subprocess.DEVNULL)
    assert (done.wait(), done.stdout, done.stderr) == (0, "out\n", "err\n")
