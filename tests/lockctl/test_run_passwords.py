"""Passwords from a file, from the environment and in -u, and where they are visible. Other ways to name a server."""

from pathlib import Path

import pytest

from harness import wait_for
from runs import PROGRAM, UNAVAILABLE, holders, wait_waiting

PASSWORD = "s3cret-pass"


@pytest.fixture
def server(make_server, tmp_path):
    server = make_server(unixsocket=tmp_path / "socket")
    server.control.execute_command("ACL", "SETUSER", "me", "on", f">{PASSWORD}", "~*", "+@all")
    server.control.execute_command("ACL", "SETUSER", "default", "-lock.acquire")
    return server


@pytest.fixture
def url(server):
    return f"redis://me:{PASSWORD}@127.0.0.1:{server.port}"


def shown(pid):
    """What ps shows of a process: its arguments, and with option e its environment."""
    return tuple(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))


def works(held, command):
    command.wait_begun()
    words = shown(held.pid)[0], shown(command.pid)[0]
    assert not any(PASSWORD.encode() in text for text in words)
    command.finish(9)
    assert (held.wait(), held.stderr) == (9, "")


def test_from_the_environment(run, witness, url):
    command = witness()
    works(run(url, "k", *command.words), command)


def test_from_a_file(run, witness, url, tmp_path):
    (tmp_path / "urls").write_text(f"# where the locks are\n\n  {url}  \n")
    command = witness()
    held = run("redis://127.0.0.1:1", "-u", f"@{tmp_path}/urls", "k", *command.words)
    command.wait_begun()
    assert not any(PASSWORD.encode() in text for pid in (held.pid, command.pid) for text in shown(pid))
    works(held, command)


FORMS = {
    "-u URL": lambda url: ["-u", url],
    "-uURL": lambda url: [f"-u{url}"],
    "--url URL": lambda url: ["--url", url],
    "--url=URL": lambda url: [f"--url={url}"],
    "password=": lambda url: ["-u", f"redis://{url.split('@')[1]}?user=me&password={PASSWORD}"],
}


@pytest.mark.parametrize("form", FORMS)
def test_blanked_for_ps(run, witness, url, form):
    command = witness()
    held = run(None, *FORMS[form](url), "k", *command.words)
    command.wait_begun()
    for pid in (held.pid, command.pid):
        assert not any(PASSWORD.encode() in text for text in shown(pid))
    works(held, command)


def test_blanked_while_it_waits(server, run, url):
    server.control.execute_command("LOCK.RWWRITE", "k", "o")
    waiter = run(None, "-u", url, "k", "true")
    wait_waiting(server, "k")
    assert PASSWORD.encode() not in shown(waiter.pid)[0]
    server.control.execute_command("LOCK.FORCE", "k")
    assert waiter.wait() == 0


def test_a_url_without_a_password_stays_to_be_read(server, run, witness, tmp_path):
    server.control.execute_command("ACL", "SETUSER", "default", "+lock.acquire")
    url = f"redis://127.0.0.1:{server.port}"
    command = witness()
    held = run(None, "-u", url, "k", *command.words)
    command.wait_begun()
    assert url.encode() in shown(held.pid)[0]
    works(held, command)


def test_no_message_has_it(run):
    refused = run(None, "-u", f"redis://me:{PASSWORD}@127.0.0.1:1", "--timeout", 0.3, "k", "true")
    assert refused.wait() == UNAVAILABLE
    assert refused.stderr and PASSWORD not in refused.stderr


def test_strange_ones(server, run, witness):
    server.control.execute_command("ACL", "SETUSER", "a@c", "on", ">%/:@?#&=ü", "~*", "+@all")
    url = f"redis://a%40c:%25%2f%3A%40%3F%23%26%3D%C3%BC@127.0.0.1:{server.port}"
    command = witness()
    works(run(url, "k", *command.words), command)


# Other ways


def test_the_option_is_stronger_than_the_environment(run, witness, url):
    command = witness()
    works(run("redis://127.0.0.1:1", "-u", url, "k", *command.words), command)


def test_by_a_socket(server, run, witness, tmp_path):
    command = witness()
    works(run(f"unix://{tmp_path}/socket?user=me&password={PASSWORD}&db=2", "k", *command.words), command)


def test_by_a_name(run, witness, url):
    command = witness()
    works(run(url.replace("127.0.0.1", "localhost"), "k", *command.words), command)


def test_a_nested_one_asks_the_same_server(server, run, witness, url):
    command = witness()
    held = run(url, "outer", PROGRAM, "run", "inner", *command.words)
    command.wait_begun()
    assert [len(holders(server, key)) for key in ("outer", "inner")] == [1, 1]
    command.finish()
    assert held.wait() == 0


def test_a_password_that_is_changed(server, run, witness, url):
    # An authenticated connection stays so; a later one with the old password is refused at once.
    command = witness()
    held = run(url, "k", *command.words)
    command.wait_begun()
    server.control.execute_command("ACL", "SETUSER", "me", f"<{PASSWORD}", ">another")
    assert run(url, "--wait", 0, "k", "true").wait() == UNAVAILABLE
    command.finish()
    assert held.wait() == 0
    wait_for(lambda: holders(server, "k") == [], what="the lock to be free")
