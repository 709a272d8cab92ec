"""LOCK.FAIR that is refused: bad arguments, no memory, no writes allowed. No request is queued, nothing changes.

The bad arguments are those of model/bad_arguments.py: LOCK.FAIR has the arguments of LOCK.ACQUIRE.
"""

import re

import pytest

from harness import code_of, scaled_ms, wait_for
from harness.schedule import error
from model.bad_arguments import BLOCK, CONTRADICTORY, CUT_SHORT, LEASE, NO_BLOCK, NO_LEASE, NO_OWNER, OTHER_TYPES
from model.bad_arguments import SYNTAX, UNKNOWN, WRONG_TYPE
from model.fair_scene import ENDS, HOUR, QUEUE, ask, ask_all, hold, lose, order, release, server  # noqa: F401
from model.fair_scene import wait_nothing_left, written_is_right  # noqa: F401

ARITY = "ERR wrong number of arguments"


def options(text):
    return text.split(" ")


BAD_OPTIONS = {
    **{f"{unit} {name}": ([unit, value], LEASE) for unit in ("PX", "EX") for name, value in NO_LEASE.items()},
    **{f"BLOCK {name}": (["BLOCK", value], BLOCK) for name, value in NO_BLOCK.items()},
    **{text: (options(text), SYNTAX) for text in CONTRADICTORY},
    **{text: (options(text), LEASE if text in ("PX EX", "PX PX 1000") else SYNTAX) for text in CUT_SHORT},
    **{f"unknown {text}": (options(text), SYNTAX) for text in UNKNOWN},
    **{text: (options(text), SYNTAX) for text in ("BLOCK", "BLOCK 0 BLOCK 0", "BLOCK 0 block 5", "BLOCK 0 PX 9 BLOCK 0")},
    "BLOCK 0 behind a bad lease": (options("PX 0 BLOCK 0"), LEASE),
    "bad lease behind BLOCK 0": (options("BLOCK 0 PX x"), LEASE),
}


@pytest.fixture
def refuses(server, some_resp, actor):
    """refuses(words, text): refused with that text; the queue of two, one detached, stays unchanged."""
    hold(server)
    dead, _ = ask_all(server, "ob", "oc")
    lose(server, dead)
    server.control.set("text", "a text")
    client = actor()

    def refuse(words, text):
        server.all_searched()
        before = server.dump(), order(server), server.info("lock")
        reply = client.attempt(*words)
        assert re.match(re.escape(text), str(reply)), reply
        assert code_of(reply) == text.split()[0]
        assert (server.dump(), order(server), server.info("lock")) == before
        assert server.blocked_clients() == 1

    return refuse


@pytest.mark.parametrize("more, text", BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_bad_options_are_refused(refuses, more, text):
    """For another owner, the holder, a waiter and the owner of a reserved position."""
    for owner in ("oz", "oa", "ob", "oc"):
        refuses(["LOCK.FAIR", "k", owner, *more], text)


def test_lease_or_wait_that_overflows_when_added_to_now_is_refused(server, refuses):
    too_long = 2**63 - server.now_ms()
    refuses(["LOCK.FAIR", "k", "oz", "PX", too_long], LEASE)
    refuses(["LOCK.FAIR", "k", "oz", "EX", too_long // 1000 + 1], LEASE)
    refuses(["LOCK.FAIR", "k", "oz", "BLOCK", too_long], BLOCK)


@pytest.mark.parametrize("owner, text", NO_OWNER.values(), ids=NO_OWNER)
def test_bad_owner_is_refused(refuses, owner, text):
    for key in ("k", "free", "text"):
        refuses(["LOCK.FAIR", key, owner], text)
        refuses(["LOCK.FAIR", key, owner, "BLOCK", 0], text)


@pytest.mark.parametrize("words", [["LOCK.FAIR"], ["LOCK.FAIR", "k"]], ids=" ".join)
def test_too_few_arguments_are_refused(refuses, words):
    refuses(words, ARITY)


@pytest.mark.parametrize("make", OTHER_TYPES.values(), ids=OTHER_TYPES)
def test_lock_key_of_another_type_is_refused(server, some_resp, actor, make):
    """Clients that wait already continue to wait, as in BLPOP."""
    hold(server)
    dead, waits = ask_all(server, "ob", "oc")
    lose(server, dead)
    server.control.delete("k")
    server.control.execute_command(*make.split())
    server.settle()
    before, client = server.dump(), actor()
    for owner in ("oz", "oa", "ob", "oc"):
        for more in ((), ("BLOCK", 0)):
            reply = client.attempt("LOCK.FAIR", "k", owner, *more)
            assert str(reply) == WRONG_TYPE
    assert server.dump() == before
    assert waits.is_blocked() and not waits.has_reply()
    server.control.delete("k")
    assert order(server) == ["ob", "oc"]


# Servers that refuse writes


def assert_refused(server, words, code):
    server.all_searched()
    before = server.dump(), order(server), server.info("lock"), server.blocked_clients()
    client = server.actor()
    assert code_of(client.attempt(*words)) == code
    client.call("MULTI")
    assert code_of(client.attempt(*words)) == code
    assert code_of(client.attempt("EXEC")) == "EXECABORT"
    script = "return redis.call(unpack(ARGV))"
    assert code_of(client.attempt("EVAL", script, 1, "k", *words)) == code
    assert (server.dump(), order(server), server.info("lock"), server.blocked_clients()) == before


REQUESTS = {
    "for a free lock": ("LOCK.FAIR", "l", "oz"),
    "by the holder": ("LOCK.FAIR", "k", "oa", "BLOCK", 0),
    "would wait": ("LOCK.FAIR", "k", "oz", "BLOCK", 0),
    "with a reserved position": ("LOCK.FAIR", "k", "ob", "BLOCK", 0),
    "waits already": ("LOCK.FAIR", "k", "oc", "BLOCK", 0),
}


def no_memory(server):
    server.control.config_set("maxmemory-policy", "noeviction")
    server.control.config_set("maxmemory", 1)
    return "OOM"


def no_replicas(server):
    server.control.config_set("min-replicas-to-write", 1)
    return "NOREPLICAS"


def no_save(server):
    (server.folder / "dump.rdb").mkdir(exist_ok=True)
    server.control.config_set("save", "3600 1000000")
    server.control.bgsave()
    wait_for(lambda: server.info("persistence")["rdb_bgsave_in_progress"] == 0, what="the save to end")
    return "MISCONF"


REFUSALS = {refuse.__name__: refuse for refuse in (no_memory, no_replicas, no_save)}


@pytest.mark.parametrize("refuse", REFUSALS.values(), ids=REFUSALS)
@pytest.mark.parametrize("words", REQUESTS.values(), ids=REQUESTS)
def test_request_is_refused_where_writes_are_refused(server, refuse, words):
    hold(server)
    dead, _ = ask_all(server, "ob", "oc")
    lose(server, dead)
    assert_refused(server, words, refuse(server))


def test_grants_and_cancels_work_without_memory(server):
    hold(server)
    b, c, d = ask_all(server, "ob", "oc", "od")
    no_memory(server)
    assert server.control.execute_command("LOCK.CANCEL", "k", "oc") == 1
    assert c.reply() is None
    release(server, "oa")
    assert b.reply() == 1
    assert written_is_right(server)
    lose(server, d)
    server.control.execute_command("LOCK.CANCEL", "k", "od")
    wait_nothing_left(server)


@pytest.mark.parametrize("words", REQUESTS.values(), ids=REQUESTS)
def test_replica_is_read_only(server, words):
    hold(server)
    server.control.execute_command("REPLICAOF", "127.0.0.1", 1)
    assert_refused(server, words, "READONLY")


def test_positions_are_written_when_writes_are_accepted_again(make_server):
    """A waiter dies and a wait times out while writes are refused: the keys are written as soon as possible."""
    server = make_server(appendonly="yes", lock_fair_reserve=HOUR)
    hold(server)
    dead, short, _ = ask(server, "ob"), ask(server, "oc", "BLOCK", scaled_ms(900)), ask(server, "od")
    before = server.dump()
    no_replicas(server)
    dead.kill_socket()
    assert short.reply() is None
    wait_for(lambda: order(server) == ["ob", "od"], what="the waiter to be detached")
    server.settle(30)
    assert server.dump() == before
    server.control.config_set("min-replicas-to-write", 0)
    wait_for(lambda: written_is_right(server), what="the keys to be written")


# Limits, permissions


def test_more_waiters_than_allowed_are_refused(server, actor):
    server.control.config_set("lock.max-waiters", 2)
    hold(server)
    dead, *_ = ask_all(server, "ob", "oc")
    assert error("ERR", "lock.max-waiters")(actor().attempt("LOCK.FAIR", "k", "od", "BLOCK", 0))
    assert actor().call("LOCK.FAIR", "k", "od") is None
    # A reserved position does not count as a waiter.
    lose(server, dead)
    ask(server, "od")
    assert error("ERR", "lock.max-waiters")(actor().attempt("LOCK.FAIR", "k", "ob", "BLOCK", 0))
    assert order(server) == ["ob", "oc", "od"]


def test_permissions_for_the_lock_and_the_command_are_sufficient(server, actor):
    server.control.execute_command("ACL", "SETUSER", "u", "reset", "on", ">secret", "+auth", "~k", "+lock.fair")
    hold(server)
    user = actor("user")
    user.call("AUTH", "u", "secret")
    user.send("LOCK.FAIR", "k", "ob", "BLOCK", 0)
    wait_for(lambda: order(server) == ["ob"], what="it to wait")
    release(server, "oa")
    assert user.reply() == 1
    assert code_of(user.attempt("LOCK.FAIR", "l", "ob")) == "NOPERM"
    assert code_of(user.attempt("ZADD", QUEUE, 1, "x")) == code_of(user.attempt("DEL", ENDS)) == "NOPERM"


# Only the server's clock


def test_no_argument_of_LOCK_FAIR_is_a_unix_time(server):
    """All arguments are durations: clients' clocks do not matter. Nothing else can be tested here."""
    docs = server.actor(protocol=3).call("COMMAND", "DOCS", "LOCK.FAIR")["lock.fair"]
    kinds = set()

    def collect(arguments):
        for argument in arguments:
            kinds.add(argument["type"])
            collect(argument.get("arguments", []))

    collect(docs["arguments"])
    assert "integer" in kinds and "unix-time" not in kinds
