"""Several keys and ACL: each of them is asked for, and nothing else."""

import pytest

from harness import code_of

BEFORE = {"LOCK.MACQUIRE": (), "LOCK.MRELEASE": ("LOCK.MACQUIRE 3 k l m o",)}
each_command = pytest.mark.parametrize("command", BEFORE)


@pytest.fixture
def as_user(server, actor):
    """as_user("~k"): a client of a user who may touch these keys only."""

    def make(*keys):
        server.control.execute_command("ACL", "SETUSER", "u", "reset", "on", "nopass", "+@all", *keys)
        client = actor()
        client.call("AUTH", "u", "any")
        return client

    yield make
    server.control.execute_command("ACL", "DELUSER", "u")


@each_command
def test_all_keys_and_no_other_argument(server, some_resp, as_user, command):
    for words in BEFORE[command]:
        server.control.execute_command(*words.split())
    client = as_user("~k", "~l", "~m")
    assert client.call(command, 3, "k", "l", "m", "o") == 3


@each_command
@pytest.mark.parametrize("missing", "klm")
def test_a_key_without_permission(server, some_resp, as_user, command, missing):
    for words in BEFORE[command]:
        server.control.execute_command(*words.split())
    before = server.dump()
    client = as_user(*(f"~{key}" for key in "klm" if key != missing), f"%R~{missing}")
    assert code_of(client.attempt(command, 3, "k", "l", "m", "o")) == "NOPERM"
    assert server.dump() == before
