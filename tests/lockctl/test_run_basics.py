"""A command runs while the lock is held: its status, its environment, and the state of the lock on the server."""

import os
import socket
import time

import pytest

from harness import scaled, wait_for
from runs import CANNOT_RUN, NO_COMMAND, NOT_HAD, PROGRAM, holders, info, is_free, wait_waiting, wait_watched, waiting

LEASE = ["--lease", f"{scaled(30):g}"]


# The status


@pytest.mark.parametrize(
    "script, status",
    [
        ("true", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -TERM $$", 128 + 15),
        ("kill -KILL $$", 128 + 9),
        ("kill -USR1 $$", 128 + 10),
    ],
)
def test_the_status_is_the_commands(server, run, script, status):
    done = run(server, "k", "sh", "-c", script)
    assert (done.wait(), done.stderr) == (status, "")
    assert is_free(server, "k")


def test_what_is_not_there(server, run):
    done = run(server, "k", "no-such-command-anywhere")
    assert done.wait() == NO_COMMAND
    assert done.stderr == "lockctl: no-such-command-anywhere: No such file or directory\n"
    assert is_free(server, "k")


def test_what_is_no_program(server, run, tmp_path):
    file = tmp_path / "file"
    file.write_text("#!/bin/sh\n")
    done = run(server, "k", file)
    assert done.wait() == CANNOT_RUN
    assert done.stderr == f"lockctl: {file}: Permission denied\n"
    assert is_free(server, "k")


def test_a_program_without_an_interpreter_is_a_script(server, run, tmp_path):
    # As with execvp(), and so with flock.
    file = tmp_path / "file"
    file.write_text("exit 3\n")
    file.chmod(0o755)
    assert run(server, "k", file).wait() == 3


def test_words_arrive_as_they_are(server, run):
    words = ["", "a b", "-w", "--", "*", "$HOME", "\\", "new\nline", b"\xff"]
    done = run(server, "k", "--", "printf", "[%s]", *words)
    assert done.wait() == 0
    expected = b"".join(b"[%s]" % os.fsencode(word) for word in words)
    assert done.stdout.encode() == expected.decode(errors="replace").encode()


# What the command sees


def test_variables(server, run, witness):
    command = witness()
    held = run(server, "k", *command.words)
    seen = command.wait_begun().variables
    assert seen["LOCK_KEY"] == b"k"
    [holder] = holders(server, "k")
    assert seen["LOCK_OWNER"] == holder["owner"]
    assert holder["owner"].startswith(f"{socket.gethostname()}:{held.pid}:".encode())
    assert int(seen["LOCK_TOKEN"]) == info(server, "k")["token"]
    command.finish()
    assert held.wait() == 0


@pytest.mark.parametrize("kind", [[], ["--fair"]], ids=["plain", "fair"])
def test_tokens_grow(server, run, kind):
    tokens = []
    for _ in range(3):
        done = run(server, *kind, "k", "sh", "-c", "echo $LOCK_TOKEN")
        assert done.wait() == 0
        tokens.append(int(done.stdout))
    assert tokens[0] < tokens[1] < tokens[2]


@pytest.mark.parametrize("kind", [["--shared"], ["--semaphore", 2]], ids=["shared", "semaphore"])
def test_no_token_where_the_lock_has_none(server, run, kind):
    # Not even the token of an outer lockctl.
    done = run(server, *kind, "k", "sh", "-c", "echo ${LOCK_TOKEN-none}", env={"LOCK_TOKEN": "7"})
    assert (done.wait(), done.stdout) == (0, "none\n")


def test_nested(server, run, witness):
    command = witness()
    outer = run(server, "--fair", "outer", PROGRAM, "run", "--shared", "inner", *command.words)
    seen = command.wait_begun().variables
    assert seen["LOCK_KEY"] == b"inner"
    assert "LOCK_TOKEN" not in seen
    [without], [within] = holders(server, "outer"), holders(server, "inner")
    assert seen["LOCK_OWNER"] == within["owner"] != without["owner"]
    command.finish(5)
    assert outer.wait() == 5
    assert is_free(server, "outer") and is_free(server, "inner")


# The state of the lock on the server


KINDS = {
    "plain": ([], "exclusive"),
    "fair": (["--fair"], "exclusive"),
    "shared": (["--shared"], "read"),
    "semaphore": (["--semaphore", 3], "semaphore"),
}


@pytest.mark.parametrize("hold", ["session", "lease"])
@pytest.mark.parametrize("kind", KINDS)
def test_held_while_it_runs(server, run, witness, kind, hold):
    options, mode = KINDS[kind]
    command = witness()
    held = run(server, *options, *(LEASE if hold == "lease" else []), "k", *command.words)
    command.wait_begun()
    assert info(server, "k")["mode"] == mode.encode()
    [holder] = holders(server, "k")
    assert (holder["mode"], holder["holds"]) == (mode.encode(), 1)
    assert (holder["session"] is not None) == (hold == "session")
    assert 0 < holder["pttl"] <= scaled(30) * 1000
    command.finish()
    assert held.wait() == 0
    assert is_free(server, "k")


def test_a_session_is_asked_for_in_words_too(server, run, witness):
    command = witness()
    run(server, "--session", "k", *command.words)
    command.wait_begun()
    [holder] = holders(server, "k")
    assert holder["session"] is not None


def test_a_lease_is_renewed(server, run, witness):
    command = witness()
    held = run(server, "--lease", scaled(3), "k", *command.words)
    command.wait_begun()
    [first] = holders(server, "k")
    begun = server.now_ms()
    # Longer than the lease: the lock is held at every moment.
    while server.now_ms() - begun < 1.5 * scaled(3000):
        assert [holder["owner"] for holder in holders(server, "k")] == [first["owner"]]
        server.let_pass(20)
    command.finish()
    assert (held.wait(), held.stderr) == (0, "")
    assert is_free(server, "k")


def test_the_watch_is_one(server, run, witness):
    command = witness()
    held = run(server, "k", *command.words)
    command.wait_begun()
    wait_watched(server, "k")
    command.finish()
    assert held.wait() == 0
    wait_for(lambda: server.info("lock")["lock_watchers"] == 0, what="the watch to end")


@pytest.mark.parametrize("db", [0, 3])
def test_in_a_database(server, run, witness, db):
    command = witness()
    held = run(f"redis://127.0.0.1:{server.port}/{db}", "k", *command.words)
    command.wait_begun()
    assert len(holders(server, "k", db=db)) == 1
    assert holders(server, "k", db=1) == []
    command.finish()
    assert held.wait() == 0


# Waiting


def test_try_once(server, run, tmp_path):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o")
    refused = run(server, "--wait", 0, "k", "touch", tmp_path / "started")
    assert refused.wait() == NOT_HAD
    assert refused.stderr == "lockctl: k: another client holds the lock\n"
    assert not (tmp_path / "started").exists()
    assert [holder["owner"] for holder in holders(server, "k")] == [b"o"]


def test_try_once_what_is_free(server, run):
    assert run(server, "--wait", 0, "k", "true").wait() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_wait_in_vain(server, run, tmp_path, kind):
    options, _ = KINDS[kind]
    server.control.execute_command("LOCK.RWWRITE", "k", "o")
    if kind == "semaphore":
        server.control.delete("k")
        server.control.execute_command("LOCK.SEMAPHORE", "k", "o", 3, "PERMITS", 3)
    began = time.monotonic()
    refused = run(server, *options, "--wait", 0.7, "k", "touch", tmp_path / "started")
    assert refused.wait() == NOT_HAD
    assert time.monotonic() - began >= 0.7
    assert not (tmp_path / "started").exists()
    wait_for(lambda: waiting(server, "k") == 0, what="no waiter to be left")


@pytest.mark.parametrize("wait", [[], ["--wait", 60]], ids=["for ever", "for long"])
@pytest.mark.parametrize("kind", KINDS)
def test_wait_and_get_it(server, run, witness, kind, wait):
    options, mode = KINDS[kind]
    take = ["LOCK.SEMAPHORE", "k", "o", 3, "PERMITS", 3] if kind == "semaphore" else ["LOCK.RWWRITE", "k", "o"]
    server.control.execute_command(*take)
    command = witness()
    held = run(server, *options, *wait, "k", *command.words)
    wait_waiting(server, "k")
    assert not command.has_begun()
    server.control.execute_command("LOCK.FORCE", "k")
    command.wait_begun()
    [holder] = holders(server, "k")
    assert holder["mode"] == mode.encode()
    command.finish()
    assert held.wait() == 0


def test_a_wait_that_somebody_ends(server, run, tmp_path):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o")
    refused = run(server, "--owner", "me", "k", "touch", tmp_path / "started")
    wait_waiting(server, "k")
    assert server.control.execute_command("LOCK.CANCEL", "k", "me") == 1
    assert refused.wait() == NOT_HAD
    assert not (tmp_path / "started").exists()


# Several runs


def test_they_exclude_each_other(server, run, tmp_path):
    # mkdir fails in a command that is not alone; and without exclusion, writes between a read and a write are lost.
    script = f"""cd {tmp_path} && mkdir alone || exit 9
        n=$(cat count); sleep 0.02; echo $((n + 1)) > count; rmdir alone"""
    (tmp_path / "count").write_text("0\n")
    runs = [run(server, *LEASE * (i % 2), "k", "sh", "-c", script) for i in range(16)]
    assert [done.wait(60) for done in runs] == [0] * 16
    assert (tmp_path / "count").read_text() == "16\n"
    assert is_free(server, "k")


def test_fair_is_in_order(server, run, tmp_path):
    server.control.execute_command("LOCK.FAIR", "k", "o")
    runs = []
    for name in "abcde":
        runs.append(run(server, "--fair", "k", "sh", "-c", f"echo {name} >> {tmp_path}/order"))
        wait_waiting(server, "k", len(runs))
    server.control.execute_command("LOCK.RELEASE", "k", "o")
    assert [done.wait() for done in runs] == [0] * 5
    assert (tmp_path / "order").read_text().split() == list("abcde")


def test_shared_together_and_nobody_else(server, run, witness):
    commands = [witness() for _ in range(2)]
    runs = [run(server, "--shared", "k", *command.words) for command in commands]
    for command in commands:
        command.wait_begun()
    assert run(server, "--wait", 0, "k", "true").wait() == NOT_HAD
    commands[0].finish()
    assert runs[0].wait() == 0
    assert [holder["mode"] for holder in holders(server, "k")] == [b"read"]
    assert run(server, "--wait", 0, "k", "true").wait() == NOT_HAD
    commands[1].finish()
    assert runs[1].wait() == 0
    assert run(server, "--wait", 0, "k", "true").wait() == 0


def test_so_many_permits(server, run, witness):
    commands = [witness() for _ in range(2)]
    runs = [run(server, "--semaphore", 2, "k", *command.words) for command in commands]
    for command in commands:
        command.wait_begun()
    assert run(server, "--semaphore", 2, "--wait", 0, "k", "true").wait() == NOT_HAD
    commands[0].finish()
    assert runs[0].wait() == 0
    assert run(server, "--semaphore", 2, "--wait", 0, "k", "true").wait() == 0
    commands[1].finish()
    assert runs[1].wait() == 0
    assert is_free(server, "k")
