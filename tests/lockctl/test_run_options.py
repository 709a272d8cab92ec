"""Options as flock(1) has them, what is said when the lock was not acquired, and durations."""

import subprocess

import pytest

from harness import scaled
from runs import NOT_HAD, UNAVAILABLE, USAGE, holders, is_free, wait_waiting

NOTICE = "lockctl: k: another client holds the lock\n"


@pytest.fixture
def taken(server):
    """A server on which another client holds the lock."""
    server.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", 3_600_000)
    return server


TRIES = {"nonblock": ["--nonblock"], "n": ["-n"], "wait 0": ["--wait", 0], "wait": ["-w", "50ms"]}


@pytest.mark.parametrize("tries", TRIES)
def test_the_status_of_a_conflict(taken, run, tmp_path, tries):
    for words, status in ([], NOT_HAD), (["-E", 9], 9), (["--conflict-exit-code=0"], 0), (["-E", "255"], 255):
        refused = run(taken, *TRIES[tries], *words, "k", "touch", tmp_path / "started")
        assert (refused.wait(), refused.stderr) == (status, NOTICE)
        quiet = run(taken, *TRIES[tries], *words, "--quiet", "k", "touch", tmp_path / "started")
        assert (quiet.wait(), quiet.stdout, quiet.stderr) == (status, "", "")
    assert not (tmp_path / "started").exists()


def test_a_deadlock_is_a_conflict(server, run, witness):
    one, two = server.actor("one"), witness()
    assert one.call("LOCK.ACQUIRE", "k1", "a", "PX", 600_000) == 1
    held = run(server, "--owner", "b", "k2", *two.words)
    two.wait_begun()
    one.send("LOCK.ACQUIRE", "k2", "a", "BLOCK", 0)
    one.wait_blocked()
    assert run(server, "-q", "-E", 9, "--owner", "b", "k1", "true").wait() == 9
    two.finish()
    assert held.wait() == 0
    assert one.reply() == 1


def test_other_statuses_and_messages_stay(server, run):
    words = ["-q", "-E", 9, "-n"]
    down = run("redis://127.0.0.1:1", *words, "--timeout", "200ms", "k", "true")
    assert down.wait() == UNAVAILABLE and "127.0.0.1:1" in down.stderr
    assert run(server, *words, "k", "sh", "-c", "exit 75").wait() == 75
    assert run(server, *words, "k", "sh", "-c", "exit 7").wait() == 7


@pytest.mark.parametrize("words, mode", [
    ([], b"exclusive"), (["-x"], b"exclusive"), (["--exclusive"], b"exclusive"), (["-s"], b"read"),
    (["-s", "-x"], b"exclusive"), (["-x", "-s"], b"read"), (["-f", "-x"], b"exclusive"),
])  # fmt: skip
def test_shared_and_exclusive(server, run, witness, words, mode):
    command = witness()
    held = run(server, *words, "k", *command.words)
    command.wait_begun()
    assert [holder["mode"] for holder in holders(server, "k")] == [mode]
    command.finish()
    assert held.wait() == 0


def test_the_words_of_flock(server, run, tmp_path):
    """A line for flock(1) works with `lockctl run` in the place of `flock`."""
    for words, shell in (
        (["-n", "-E", "9"], "exit 3"),
        (["-w", "5"], "exit 4"),
        (["-x", "--nonblock"], "exit 5"),
        (["-s", "-w", "0.5", "--conflict-exit-code", "8"], "exit 6"),
    ):
        flock = subprocess.run(["flock", *words, tmp_path / "lock", "sh", "-c", shell], timeout=60)
        assert run(server, *words, "lock", "sh", "-c", shell).wait() == flock.returncode


# Durations


@pytest.mark.parametrize("text, ms", [
    ("90", 90_000), ("90s", 90_000), ("10m", 600_000), ("2h", 7_200_000), ("1d", 86_400_000), ("500ms", 500),
    ("1.5h", 5_400_000), ("0.25", 250), (".5s", 500), ("1.", 1000),
])  # fmt: skip
def test_durations(server, run, witness, text, ms):
    command = witness()
    server.control.config_set("slowlog-log-slower-than", 0)
    held = run(server, "--lease", text, "k", *command.words)
    command.wait_begun()
    # What was requested: a busy machine may have lost the shortest lease by now.
    sent = [entry["command"].decode().split() for entry in server.control.slowlog_get(128)]
    [acquisition] = [words for words in sent if words[0].upper() == "LOCK.ACQUIRE"]
    assert acquisition[acquisition.index("PX") + 1] == str(ms)
    command.finish()
    held.wait()


@pytest.mark.parametrize("text", ["", "s", "2 h", "2H", "2hours", "1h30m", "-1", "+1", "0x10", "1e3", "inf", "nan", "1.2.3", ".", " 1", "99999999999999999999d"])
def test_what_is_no_duration(server, run, text):
    for option in "--wait", "--lease", "--at-least", "--grace", "--timeout":
        refused = run(server, option, text, "k", "true")
        assert refused.wait() == USAGE
        assert refused.stderr == f"lockctl: {option}: must be a duration, such as 90, 500ms, 10m, 2h or 1d; see lockctl --help\n"
    assert is_free(server, "k")


@pytest.mark.parametrize("text", ["", "-1", "256", "1000", "x", "9x", " 9", "0x9"])
def test_what_is_no_status(server, run, text):
    refused = run(server, "-E", text, "k", "true")
    assert refused.wait() == USAGE
    assert "--conflict-exit-code: must be a whole number from 0 to 255" in refused.stderr


def test_each_unit_of_a_wait_is_what_it_says(taken, run):
    waiter = run(taken, "--wait", "2h", "k", "true")
    wait_waiting(taken, "k")
    refused = run(taken, "--wait", "20ms", "k", "true")
    assert refused.wait() == NOT_HAD
    taken.control.execute_command("LOCK.RELEASE", "k", "o")
    assert waiter.wait() == 0


def test_exclusive_and_semaphore_exclude_each_other(server, run):
    assert run(server, "--semaphore", 2, "-x", "k", "true").wait() == USAGE
