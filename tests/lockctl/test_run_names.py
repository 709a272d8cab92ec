"""Locks and owners may have any name: all bytes except NUL."""

import os

import pytest

from runs import LOST, NOT_HAD, holders, info, is_free, wait_waiting, wait_watched

NAMES = [
    b"with space",
    b" ",
    b"new\nline",
    "ünï😀".encode(),
    b"\xff\xfe\x80",
    b"%s%n%d",
    b"'\"$(x)`;*?\\",
    b"\r\n*1\r\n$4\r\nPING\r\n",
    b"\x01\x1b[31m\x7f",
    b"-w",
    bytes(range(1, 256)),
    b"x" * 5000,
]


def ids(names):
    return [repr(name[:24]) for name in names]


@pytest.mark.parametrize("name", NAMES, ids=ids(NAMES))
def test_a_lock_of_any_name(server, run, witness, name):
    command = witness()
    held = run(server, "--", name, *command.words)
    assert command.wait_begun().variables["LOCK_KEY"] == name
    assert len(holders(server, name)) == 1
    keys = server.client(decode_responses=False).keys()
    assert [key for key in keys if not key.startswith(b"lock:token:")] == [name], "and no other lock is held"
    # Another run waits for the same lock, and the holder is notified of the loss.
    assert run(server, "--wait", 0, "--", name, "true").wait() == NOT_HAD
    wait_watched(server, name)
    server.control.execute_command("LOCK.FORCE", name)
    assert held.wait() == LOST
    assert is_free(server, name)


OWNERS = [name for name in NAMES if len(name) <= 512]


@pytest.mark.parametrize("owner", OWNERS, ids=ids(OWNERS))
def test_an_owner_of_any_name(server, run, witness, owner):
    command = witness()
    held = run(server, "--owner", owner, "k", *command.words)
    assert command.wait_begun().variables["LOCK_OWNER"] == owner
    assert [holder["owner"] for holder in holders(server, "k")] == [owner]
    command.finish()
    assert held.wait() == 0
    assert is_free(server, "k")


def test_an_owner_in_one_word_with_its_option(server, run, witness):
    command = witness()
    run(server, b"--owner=a=b \xff", "k", *command.words)
    command.wait_begun()
    assert [holder["owner"] for holder in holders(server, "k")] == [b"a=b \xff"]


def test_an_owner_re_enters(server, run, witness):
    first, second = witness(), witness()
    runs = []
    for command in (first, second):  # the session belongs to the last that renews, which must outlive the other
        runs.append(run(server, "--owner", "me", "k", *command.words))
        command.wait_begun()
    [holder] = holders(server, "k")
    assert (holder["owner"], holder["holds"]) == (b"me", 2)
    first.finish()
    assert runs[0].wait() == 0
    assert [holder["holds"] for holder in holders(server, "k")] == [1]
    second.finish()
    assert runs[1].wait() == 0
    assert is_free(server, "k")


def test_two_owners_never_have_the_same_name(server, run):
    runs = [run(server, "--shared", "k", "sh", "-c", "echo $LOCK_OWNER") for _ in range(8)]
    assert [done.wait() for done in runs] == [0] * 8
    assert len({done.stdout for done in runs}) == 8


def test_a_name_is_said_so_that_it_does_a_terminal_no_harm(server, run):
    # Escape sequences in a name would control the terminal.
    name = b"red\x1b[31m\n"
    server.control.execute_command("LOCK.ACQUIRE", name, "o")
    refused = run(server, "--wait", 0, name, "true")
    assert refused.wait() == NOT_HAD
    assert "\x1b" not in refused.stderr and refused.stderr.count("\n") == 1
    assert os.fsdecode(b"red") in refused.stderr


def test_an_owner_that_waits_is_known_by_its_name(server, run):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o")
    waiter = run(server, "--owner", b"\xff me", "k", "true")
    wait_waiting(server, "k")
    assert info(server, "k")["waiters"][0][b"owner"] == b"\xff me"
    server.control.execute_command("LOCK.RELEASE", "k", "o")
    assert waiter.wait() == 0
