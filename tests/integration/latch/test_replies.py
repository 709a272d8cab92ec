"""LATCH.SET, LATCH.DOWN, and LATCH.WAIT that does not block: what they reply, refuse and change."""

import pytest

from harness import code_of, scaled_ms
from model.bad_arguments import BLOCK, BY, COUNT, LATCHES, LEASE, NO_BLOCK, NO_LEASE, NO_NUMBER, SYNTAX, WRONG_TYPE
from model.latch_scene import HOUR, latch_waiters
from model.mutations import each_way


def test_latch_is_a_plain_string(server, client):
    assert client.execute_command("LATCH.SET", "l", 3) in ("OK", True)
    assert (client.type("l"), client.get("l"), client.pttl("l")) == ("string", "3", -1)
    assert [client.execute_command("LATCH.DOWN", "l") for _ in range(4)] == [2, 1, 0, 0]
    assert not client.exists("l")


def test_replies_are_a_simple_string_and_integers(server, resp, actor):
    client = actor()
    assert client.call("LATCH.SET", "l", 1) == "OK"
    assert client.call("LATCH.WAIT", "l") is None
    assert client.call("LATCH.DOWN", "l") == 0
    assert client.call("LATCH.WAIT", "l") == 1


def test_down_by_more_than_is_left_opens_the_latch(some_client):
    for by in (3, 4, 2**63 - 1):
        some_client.execute_command("LATCH.SET", "l", 3)
        assert some_client.execute_command("LATCH.DOWN", "l", by) == 0
        assert not some_client.exists("l")


def test_down_without_a_latch_creates_no_key(server, client):
    assert client.execute_command("LATCH.DOWN", "l") == client.execute_command("LATCH.DOWN", "l", 5) == 0
    assert server.dump() == {}


def test_largest_count_is_accepted(client):
    client.execute_command("LATCH.SET", "l", 2**63 - 1)
    assert client.execute_command("LATCH.DOWN", "l") == 2**63 - 2
    assert client.execute_command("LATCH.DOWN", "l", 2**63 - 3) == 1


def test_set_to_0_makes_an_open_latch(server, client):
    for before in (None, 5):
        if before:
            client.execute_command("LATCH.SET", "l", before)
        assert client.execute_command("LATCH.SET", "l", 0, "PX", HOUR) in ("OK", True)
        assert server.dump() == {}
        assert client.execute_command("LATCH.WAIT", "l") == 1


@pytest.mark.parametrize("unit, unit_ms", [("PX", 1), ("ex", 1000), ("EX", 1000), ("px", 1)])
def test_set_gives_a_ttl_that_down_keeps_and_set_removes(server, some_client, unit, unit_ms):
    before = server.now_ms()
    some_client.execute_command("LATCH.SET", "l", 2, unit, 100_000)
    end = some_client.execute_command("PEXPIRETIME", "l")
    assert before + 100_000 * unit_ms <= end <= server.now_ms() + 100_000 * unit_ms
    some_client.execute_command("LATCH.DOWN", "l")
    assert some_client.execute_command("PEXPIRETIME", "l") == end
    some_client.execute_command("LATCH.SET", "l", 2)
    assert some_client.pttl("l") == -1


def test_expired_latch_is_open(server, some_client):
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    some_client.execute_command("LATCH.SET", "l", 2, "PX", 1)
    server.let_pass(3)
    assert some_client.execute_command("LATCH.WAIT", "l") == 1
    assert some_client.execute_command("LATCH.DOWN", "l") == 0
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 1)


@pytest.mark.parametrize("value", [0, -1, -(2**63)])
def test_number_of_0_or_less_is_open(some_client, value):
    some_client.set("l", value)
    assert some_client.execute_command("LATCH.WAIT", "l") == 1
    assert some_client.execute_command("LATCH.DOWN", "l") == 0
    assert not some_client.exists("l")


@pytest.mark.parametrize("edit, left", [("INCRBY l 5", 6), ("DECR l", 0), ("SET l 7", 6), ("APPEND l 0", 19)])
def test_number_may_be_written_directly(some_client, edit, left):
    some_client.execute_command("LATCH.SET", "l", 2)
    some_client.execute_command(*edit.split())
    assert some_client.execute_command("LATCH.WAIT", "l") is None
    assert some_client.execute_command("LATCH.DOWN", "l") == left


def test_names_may_be_any_bytes(server, some_resp):
    client = server.client(some_resp, decode_responses=False)
    for name in (b"", b"\0a\0", bytes(range(256)), b"}{"):
        assert client.execute_command("LATCH.SET", name, 1) in (b"OK", True)
        assert client.execute_command("LATCH.WAIT", name) is None
        assert client.execute_command("LATCH.DOWN", name) == 0


# Bad input

BAD = {f"set {name}": (("LATCH.SET", "l", value), COUNT) for name, value in NO_BLOCK.items() if name != "overflows"}
BAD |= {f"down {name}": (("LATCH.DOWN", "l", value), BY) for name, value in NO_LEASE.items() if name != "overflows"}
BAD |= {f"PX {name}": (("LATCH.SET", "l", 1, "PX", value), LEASE) for name, value in NO_LEASE.items()}
BAD |= {f"EX {name}": (("LATCH.SET", "l", 1, "EX", value), LEASE) for name, value in NO_LEASE.items()}
BAD |= {f"BLOCK {name}": (("LATCH.WAIT", "l", "BLOCK", value), BLOCK) for name, value in NO_BLOCK.items()}
BAD |= {" ".join(words): (words, SYNTAX) for words in [
    ("LATCH.SET", "l", "1", "PX", "1", "EX", "1"),
    ("LATCH.SET", "l", "1", "PX", "1", "PX", "1"),
    ("LATCH.SET", "l", "1", "PX"),
    ("LATCH.SET", "l", "1", "SESSION"),
    ("LATCH.SET", "l", "1", "BLOCK", "0"),
    ("LATCH.SET", "l", "1", "2"),
    ("LATCH.WAIT", "l", "BLOCK"),
    ("LATCH.WAIT", "l", "BLOCK", "0", "BLOCK", "0"),
    ("LATCH.WAIT", "l", "0"),
    ("LATCH.WAIT", "l", "PX", "1"),
]}  # fmt: skip
ARITY = "ERR wrong number of arguments for '{}' command"
BAD |= {" ".join(words) + " alone": (words, ARITY.format(words[0].lower())) for words in [
    ("LATCH.SET",), ("LATCH.SET", "l"), ("LATCH.DOWN",), ("LATCH.DOWN", "l", "1", "1"), ("LATCH.WAIT",),
]}  # fmt: skip


@pytest.mark.parametrize("words, text", BAD.values(), ids=BAD)
def test_bad_input_changes_nothing(server, some_resp, actor, words, text):
    server.control.execute_command("LATCH.SET", "l", 3)
    before, client = server.dump(), actor()
    assert str(client.attempt(*words)) == text
    assert (server.dump(), latch_waiters(server), server.blocked_clients()) == (before, 0, 0)


@pytest.mark.parametrize("content", [
    "HSET k f v", "RPUSH k 1", "SADD k 1", "ZADD k 1 1", "XADD k 1-1 f v", "LOCK.ACQUIRE k o",
])  # fmt: skip
@pytest.mark.parametrize("command", [*LATCHES, "LATCH.SET k 0", "LATCH.WAIT k BLOCK 0"])
def test_key_of_another_type_is_not_changed(server, some_resp, actor, content, command):
    server.control.execute_command(*content.split())
    before = server.dump()
    assert str(actor().attempt(*command.split())) == WRONG_TYPE
    assert server.dump() == before


@pytest.mark.parametrize(
    "value", ["", "x", "1.5", " 1", "01", str(2**63), "1e3", str(-(2**63) - 1), "1" * 20, "1" * 21, "x" * 100_000]
)
@pytest.mark.parametrize("command", [*LATCHES, "LATCH.SET k 0", "LATCH.WAIT k BLOCK 0"])
def test_string_that_is_no_number_is_not_changed(server, some_resp, actor, value, command):
    server.control.set("k", value)
    assert str(actor().attempt(*command.split())) == NO_NUMBER
    assert server.control.get("k") == value


def test_long_string_that_is_no_number_is_not_copied(server, actor):
    """Measured by the peak memory of the process, the only figure that shows a copy that was freed again."""
    size = 64 * 2**20

    def kilobytes(what):
        with open(f"/proc/{server.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith(what))

    server.control.setrange("k", size - 1, "x")
    with open(f"/proc/{server.pid}/clear_refs", "w") as refs:
        refs.write("5")  # reset the peak to the present size
    before = kilobytes("VmHWM")
    assert str(actor().attempt("LATCH.WAIT", "k", "BLOCK", 0)) == NO_NUMBER
    assert kilobytes("VmHWM") - before < size // 1024 // 2


@pytest.mark.parametrize("command", ["LOCK.ACQUIRE l o", "LOCK.INFO l", "LOCK.WATCH l o", "LOCK.FORCE l"])
def test_latch_is_no_lock(server, actor, command):
    server.control.execute_command("LATCH.SET", "l", 1)
    assert code_of(actor().attempt(*command.split())) == "WRONGTYPE"


# Where writes are refused


def test_set_fails_without_memory_and_down_does_not(server, resp, actor):
    client = actor()
    client.call("LATCH.SET", "l", 2)
    server.control.config_set("maxmemory", 1)
    assert code_of(client.attempt("LATCH.SET", "l", 5)) == "OOM"
    assert client.call("LATCH.WAIT", "l") is None
    assert client.call("LATCH.DOWN", "l") == 1
    assert client.call("LATCH.DOWN", "l") == 0


def test_replica_refuses_set_and_down_and_does_not_block(server, resp, actor):
    server.control.execute_command("LATCH.SET", "l", 2)
    server.control.replicaof("127.0.0.1", 1)
    client = actor()
    for command in ("LATCH.SET l 1", "LATCH.DOWN l"):
        assert code_of(client.attempt(*command.split())) == "READONLY"
    assert client.call("LATCH.WAIT", "l", "BLOCK", 0) is None
    assert client.call("LATCH.WAIT", "open", "BLOCK", 0) == 1


def test_set_and_down_fail_with_too_few_replicas_and_wait_does_not(server, some_resp, actor):
    server.control.execute_command("LATCH.SET", "l", 2)
    server.control.config_set("min-replicas-to-write", 1)
    client = actor()
    for command in ("LATCH.SET l 1", "LATCH.DOWN l"):
        assert code_of(client.attempt(*command.split())) == "NOREPLICAS"
    assert client.call("LATCH.WAIT", "l") is None
    server.control.config_set("min-replicas-to-write", 0)


# MULTI, Lua, WATCH


@each_way
def test_wait_does_not_block_in_multi_and_lua(server, some_resp, actor, say):
    wait = "LATCH.WAIT l BLOCK 0"
    replies = say(actor(), "LATCH.SET l 2", wait, "LATCH.DOWN l", "LATCH.DOWN l", wait)
    assert replies[1:] == [None, 1, 0, 1]
    assert latch_waiters(server) == 0


@pytest.mark.parametrize("command, changes", [("LATCH.SET l 1", True), ("LATCH.SET l 0", True), ("LATCH.DOWN l", True),
                                              ("LATCH.WAIT l", False), ("LATCH.WAIT l BLOCK 1", False)])  # fmt: skip
def test_watched_latch_aborts_a_transaction_only_if_changed(server, actor, command, changes):
    client = actor()
    client.call("LATCH.SET", "l", 2, "PX", HOUR)
    client.call("WATCH", "l")
    server.control.execute_command(*command.split())
    client.call("MULTI")
    client.call("PING")
    assert client.call("EXEC") == (None if changes else ["PONG"])


def test_waiting_changes_no_key(server, actor):
    server.control.execute_command("LATCH.SET", "l", 2)
    before = server.dump()
    assert actor().call("LATCH.WAIT", "l", "BLOCK", scaled_ms(5)) is None
    assert server.dump() == before


def test_acl_limits_commands_and_keys(server):
    server.control.acl_setuser("reader", enabled=True, nopass=True, categories=["-@all"], keys=["r:*"],
                               commands=["+latch.wait", "+client"])  # fmt: skip
    reader = server.actor(username="reader", password="x")
    assert reader.call("LATCH.WAIT", "r:l") == 1
    assert code_of(reader.attempt("LATCH.DOWN", "r:l")) == "NOPERM"
    assert code_of(reader.attempt("LATCH.WAIT", "other")) == "NOPERM"
