"""Multi-key commands and ACL: permission is required for each of the keys, and for no other argument."""

import pytest

from harness import code_of

HELD = ("LOCK.MACQUIRE 3 k l m o",)
BEFORE = {"LOCK.MACQUIRE": (), "LOCK.MRELEASE": HELD, "LOCK.MRENEW": HELD}
each_command = pytest.mark.parametrize("command", BEFORE)


@pytest.fixture
def as_user(server, actor):
    """as_user("~k"): a client of a user that may use only these keys."""

    def make(*keys):
        server.control.execute_command("ACL", "SETUSER", "u", "reset", "on", "nopass", "+@all", *keys)
        client = actor()
        client.call("AUTH", "u", "any")
        return client

    yield make
    server.control.execute_command("ACL", "DELUSER", "u")


@each_command
def test_permission_for_the_keys_suffices(server, some_resp, as_user, command):
    for words in BEFORE[command]:
        server.control.execute_command(*words.split())
    client = as_user("~k", "~l", "~m")
    assert client.call(command, 3, "k", "l", "m", "o") == 3


@each_command
@pytest.mark.parametrize("missing", "klm")
def test_key_without_permission_is_refused(server, some_resp, as_user, command, missing):
    for words in BEFORE[command]:
        server.control.execute_command(*words.split())
    before = server.dump()
    client = as_user(*(f"~{key}" for key in "klm" if key != missing), f"%R~{missing}")
    assert code_of(client.attempt(command, 3, "k", "l", "m", "o")) == "NOPERM"
    assert server.dump() == before
