"""The command is never started: wrong usage, no server, a server that refuses, a deadlock."""

import os

import pytest

from harness import scaled, wait_for
from runs import NOT_HAD, UNAVAILABLE, USAGE, holders, info, is_free, wait_free, wait_waiting

URL = "redis://127.0.0.1:1"


@pytest.fixture
def touch(tmp_path):
    """A command that leaves a trace, and whether it was started."""

    class Touch:
        words = ["touch", str(tmp_path / "started")]

        @staticmethod
        def was_started():
            return (tmp_path / "started").exists()

    return Touch


# Usage

WRONG = {
    "no lock": [],
    "no command": ["k"],
    "no command behind dashes": ["k", "--"],
    "unknown option": ["--no-such", "k", "true"],
    "an option without its value": ["--wait"],
    "wait below 0": ["--wait", "-1", "k", "true"],
    "wait no number": ["--wait", "soon", "k", "true"],
    "wait nan": ["--wait", "nan", "k", "true"],
    "wait infinite": ["--wait", "inf", "k", "true"],
    "wait empty": ["--wait", "", "k", "true"],
    "wait with a space": ["--wait", "1 s", "k", "true"],
    "lease 0": ["--lease", "0", "k", "true"],
    "lease too short": ["--lease", "0.09", "k", "true"],
    "lease and session": ["--lease", "1", "--session", "k", "true"],
    "semaphore 0": ["--semaphore", "0", "k", "true"],
    "semaphore no number": ["--semaphore", "x", "k", "true"],
    "semaphore too large": ["--semaphore", "2147483648", "k", "true"],
    "replicas 0": ["--replicas", "0", "k", "true"],
    "grace no number": ["--grace", "x", "k", "true"],
    "timeout 0": ["--timeout", "0", "k", "true"],
    "fair and shared": ["--fair", "--shared", "k", "true"],
    "shared and semaphore": ["--shared", "--semaphore", "2", "k", "true"],
    "owner empty": ["--owner", "", "k", "true"],
    "owner too long": ["--owner", "o" * 513, "k", "true"],
    "an option of top": ["--once", "k", "true"],
    "no such scheme": ["-u", "http://127.0.0.1", "k", "true"],
    "no such option of a URL": ["-u", "redis://127.0.0.1?x=y", "k", "true"],
    "no port": ["-u", "redis://127.0.0.1:x", "k", "true"],
    "no such port": ["-u", "redis://127.0.0.1:65536", "k", "true"],
    "no database": ["-u", "redis://127.0.0.1/x", "k", "true"],
    "a database of a cluster": ["-u", "redis+cluster://127.0.0.1/1", "k", "true"],
    "no master": ["-u", "redis+sentinel://127.0.0.1", "k", "true"],
    "no such file": ["-u", "@/no/such/file", "k", "true"],
    "no such certificate": ["-u", "rediss://127.0.0.1?cacert=/no/such/file", "k", "true"],
    "two servers": ["-u", URL, "-u", URL, "k", "true"],
    "a majority with a session": ["-u", URL, "-u", URL, "-u", URL, "--session", "k", "true"],
    "a majority in order": ["-u", URL, "-u", URL, "-u", URL, "--fair", "k", "true"],
}


@pytest.mark.parametrize("words", WRONG.values(), ids=WRONG)
def test_wrong_usage(run, words):
    # No server listens there, so the status would be another one if lockctl had tried to connect.
    refused = run(URL, "--timeout", "0.1", *words)
    assert refused.wait() == USAGE
    assert refused.stderr.startswith("lockctl: ") or "run: " in refused.stderr
    assert refused.stdout == ""


def test_a_mistake_does_not_tell_the_password(run):
    refused = run(None, "-u", "redis://me:secret@127.0.0.1:x", "k", "true")
    assert refused.wait() == USAGE
    assert "secret" not in refused.stderr


def test_an_empty_file_of_urls_is_no_default(run, tmp_path):
    # A user who names a file means a server in it, not the one at the default address.
    (tmp_path / "urls").write_text("# nobody\n")
    assert run(None, "-u", f"@{tmp_path}/urls", "--timeout", "0.1", "k", "true").wait() == USAGE


# No server


def test_nobody_listens(run, touch):
    refused = run(URL, "--timeout", scaled(0.5), "k", *touch.words)
    assert refused.wait() == UNAVAILABLE
    assert "Connection refused" in refused.stderr
    assert not touch.was_started()


def test_nobody_of_that_name(run, touch):
    refused = run("redis://no-such-host.invalid:6379", "--timeout", scaled(0.5), "k", *touch.words)
    assert refused.wait() == UNAVAILABLE
    assert refused.stderr.startswith("lockctl: k: no-such-host.invalid:6379: ")
    assert not touch.was_started()


def test_no_such_socket(run, touch, tmp_path):
    refused = run(f"unix://{tmp_path}/none", "--timeout", scaled(0.5), "k", *touch.words)
    assert refused.wait() == UNAVAILABLE
    assert "No such file or directory" in refused.stderr
    assert not touch.was_started()


# A server that refuses


@pytest.mark.parametrize("login", ["", ":wrong@", "default:wrong@", "nobody:secret@"])
def test_wrong_password(make_server, run, touch, login):
    server = make_server()
    server.control.config_set("requirepass", "secret")
    refused = run(f"redis://{login}127.0.0.1:{server.port}", "k", *touch.words)
    # At once: another attempt would fail too.
    assert refused.wait() == UNAVAILABLE
    assert ("NOAUTH" if login == "" else "WRONGPASS") in refused.stderr
    assert "secret" not in refused.stderr
    assert not touch.was_started()
    server.control.execute_command("AUTH", "secret")
    server.control.config_set("requirepass", "")


def test_no_such_database(server, run, touch):
    refused = run(f"redis://127.0.0.1:{server.port}/16", "k", *touch.words)
    assert refused.wait() == UNAVAILABLE
    assert "DB index" in refused.stderr
    assert not touch.was_started()


def test_without_the_module(make_server, run, touch):
    refused = run(make_server(load_module=False), "k", *touch.words)
    assert refused.wait() == UNAVAILABLE
    assert "unknown command" in refused.stderr
    assert not touch.was_started()


def test_a_key_that_is_no_lock(server, run, touch):
    server.control.set("k", "text")
    refused = run(server, "k", *touch.words)
    assert refused.wait() == UNAVAILABLE
    assert "WRONGTYPE" in refused.stderr
    assert not touch.was_started()


def test_a_lease_that_is_too_long(make_server, run, touch):
    server = make_server(lock_max_lease=40000)
    refused = run(server, "--lease", 41, "k", *touch.words)
    assert refused.wait() == UNAVAILABLE
    assert "lock.max-lease" in refused.stderr
    assert not touch.was_started()


@pytest.mark.parametrize("hold", [[], ["--lease", 20]], ids=["session", "lease"])
@pytest.mark.parametrize("command", ["lock.acquire", "lock.renew"])
def test_who_may_not(server, run, touch, command, hold):
    server.control.execute_command("ACL", "SETUSER", "some", "on", "nopass", "~*", "+@all", f"-{command}")
    refused = run(f"redis://some:any@127.0.0.1:{server.port}", *hold, "--timeout", scaled(2), "k", *touch.words)
    assert refused.wait(10) == UNAVAILABLE
    assert "NOPERM" in refused.stderr
    assert not touch.was_started()
    # And other clients need not wait for a lock that it was not permitted to keep.
    wait_free(server, "k", 3)


def test_who_may_not_ask_who_holds_it(server, run, witness):
    server.control.execute_command("ACL", "SETUSER", "some", "on", "nopass", "~*", "+@all", "-lock.info")
    command = witness()
    held = run(f"redis://some:any@127.0.0.1:{server.port}", "k", *command.words)
    command.wait_begun()
    assert holders(server, "k")[0]["session"] is not None
    command.finish()
    assert held.wait() == 0


# A deadlock


def test_deadlock(server, run, touch, witness):
    one, two = server.actor("one"), witness()
    assert one.call("LOCK.ACQUIRE", "k1", "a", "PX", 600_000) == 1
    held = run(server, "--owner", "b", "k2", *two.words)
    two.wait_begun()
    one.send("LOCK.ACQUIRE", "k2", "a", "BLOCK", 0)
    one.wait_blocked()
    refused = run(server, "--owner", "b", "k1", *touch.words)
    assert refused.wait() == NOT_HAD
    assert "DEADLOCK b waits for k1 held by a" in refused.stderr
    assert not touch.was_started()
    two.finish()
    assert held.wait() == 0
    assert one.reply() == 1


# Replicas


def test_the_command_waits_until_a_replica_knows(make_server, run, witness):
    server = make_server()
    replica = server.start_replica()
    command = witness()
    held = run(server, "--replicas", 1, "k", *command.words)
    command.wait_begun()
    assert info(replica, "k")["holders"]
    command.finish()
    assert held.wait() == 0


def test_too_few_replicas(make_server, run, touch):
    server = make_server()
    server.start_replica()
    refused = run(server, "--replicas", 2, "--wait", 0.5, "k", *touch.words)
    assert refused.wait() == UNAVAILABLE
    assert "NOREPLICAS" in refused.stderr
    assert not touch.was_started()
    assert is_free(server, "k")


def test_a_replica_that_comes_late(make_server, run, witness):
    server = make_server()
    command = witness()
    held = run(server, "--replicas", 1, "k", *command.words)
    stats = "cmdstat_LOCK.ACQUIRE", "cmdstat_lock.acquire"
    asked = lambda: any(name in server.info("commandstats") for name in stats)  # noqa: E731
    wait_for(asked, what="lockctl to ask")
    assert not command.has_begun()
    server.start_replica()
    command.wait_begun()
    command.finish()
    assert held.wait() == 0


# A file of URLs


def test_a_file_that_cannot_be_read(run, tmp_path):
    refused = run(None, "-u", f"@{tmp_path}", "k", "true")
    assert refused.wait() == USAGE
    assert os.fspath(tmp_path) in refused.stderr


def test_nothing_is_left_of_who_was_refused(server, run, touch):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o")
    waiter = run(server, "k", *touch.words)
    wait_waiting(server, "k")
    server.control.execute_command("ACL", "SETUSER", "default", "-lock.acquire", "-lock.renew")
    server.control.execute_command("LOCK.RELEASE", "k", "o")
    assert waiter.wait(10) == UNAVAILABLE
    assert not touch.was_started()
    wait_free(server, "k", 3)
