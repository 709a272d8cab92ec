"""REPLICAS n ms: which replies are sent, when, and what replicas have by then."""

import pytest

from harness import code_of, scaled_ms, wait_for, wait_for_sync
from harness.schedule import error
from model.replicas_scene import (
    KEEPS_OUT,
    LETS_IN,
    LONG,
    answer,
    asks,
    awaiting,
    begin,
    each_kind,
    hash_of,
    silent,
    wait_awaiting,
    with_replicas,
)

no_replicas = error("NOREPLICAS")


@pytest.fixture(scope="module")
def new_server():
    return with_replicas(2)


@each_kind
def test_replicas_have_the_grant_when_its_client_receives_the_reply(server, kind, resp):
    client = server.client(protocol=resp)
    for at in range(20):
        assert client.execute_command(*asks(kind, "REPLICAS", 2, LONG)) == answer(kind)
        for replica in server.replicas:
            assert replica.control.hgetall("k") == hash_of(kind), f"round {at}"
        client.delete("k", "l")
    assert server.info("lock")["lock_awaiting_replicas"] == 0


@each_kind
def test_waiter_is_granted_as_usual_and_receives_the_reply_later(server, actor, kind):
    server.control.execute_command(*KEEPS_OUT.get(kind, "LOCK.ACQUIRE k x").split())
    a = actor("a")
    a.send(*asks(kind, "BLOCK", 0, "REPLICAS", 2, LONG))
    a.wait_blocked()
    with silent(server.replicas[0]):
        assert server.control.execute_command(*LETS_IN.get(kind, "LOCK.RELEASE k x").split()) == 0
        wait_awaiting(server, 1)
        server.settle()
        assert not a.has_reply()
        assert server.control.hgetall("k") == hash_of(kind)
        assert server.info("lock")["lock_waiters"] == 0
    assert a.reply() == answer(kind)
    assert [replica.control.hgetall("k") for replica in server.replicas] == [hash_of(kind)] * 2


@each_kind
def test_reply_is_sent_only_when_n_replicas_have_acknowledged(server, actor, kind):
    first, second = server.replicas
    with silent(first, second):
        a = begin(server, actor("a"), *asks(kind, "REPLICAS", 2, LONG))
        with silent():
            server.settle()
        assert not a.has_reply() and server.control.hgetall("k") == hash_of(kind)
        holders = server.client(protocol=3).execute_command("LOCK.INFO", "k")["holders"]
        assert [holder["owner"] for holder in holders] == ["o"]
    assert a.reply() == answer(kind)


def test_reply_for_fewer_replicas_is_sent_before_one_for_more(server, actor):
    with silent(server.replicas[0]):
        both = begin(server, actor("both"), "LOCK.ACQUIRE", "k", "o", "REPLICAS", 2, LONG)
        assert actor("one").call("LOCK.ACQUIRE", "l", "o", "REPLICAS", 1, LONG) == 1
        server.settle()
        assert not both.has_reply()
    assert both.reply() == 1


def test_token_is_on_the_replicas_too(server):
    token = server.control.execute_command("LOCK.ACQUIRE", "k", "o", "FENCED", "REPLICAS", 2, LONG)
    for replica in server.replicas:
        assert replica.control.hgetall("lock:token:{k}") == {"token": str(token), "owner": "o"}


@each_kind
def test_grant_not_acknowledged_in_time_is_released_and_handed_off(server, actor, kind):
    before = server.info("lock")["lock_not_acknowledged"]
    waits = actor("w")
    with silent(server.replicas[0]):
        a = begin(server, actor("a"), *asks(kind, "REPLICAS", 2, scaled_ms(1000)))
        waits.send(*KEEPS_OUT.get(kind, "LOCK.ACQUIRE k x").split(), "BLOCK", 0)
        waits.wait_blocked()
        assert no_replicas(a.outcome())
        assert waits.reply() > 0
        assert "o" not in server.control.hgetall("k") and not server.control.exists("l")
    assert server.info("lock")["lock_not_acknowledged"] == before + 1


def test_request_right_after_NOREPLICAS_is_no_reentry(server, actor):
    with silent(server.replicas[0]):
        a = actor("a")
        for _ in range(3):
            a.send("LOCK.ACQUIRE", "k", "o", "REPLICAS", 2, 20)
            a.send("LOCK.ACQUIRE", "k", "o")
            assert no_replicas(a.outcome())
            assert a.reply() == 1
            a.call("LOCK.RELEASE", "k", "o")


@each_kind
def test_request_with_too_few_replicas_is_not_granted(server, actor, kind):
    a = actor("a")
    assert no_replicas(a.attempt(*asks(kind, "REPLICAS", 3, LONG)))
    assert no_replicas(a.attempt(*asks(kind, "REPLICAS", 3, LONG, "BLOCK", 0)))
    assert server.control.keys() == []
    assert a.call(*asks(kind, "REPLICAS", 2, LONG)) == answer(kind)


def test_reentry_that_is_not_acknowledged_leaves_the_first_hold(server, actor):
    a = actor("a")
    assert a.call("LOCK.ACQUIRE", "k", "o") == 1
    with silent(*server.replicas):
        assert no_replicas(a.attempt("LOCK.ACQUIRE", "k", "o", "REPLICAS", 1, 20))
    assert server.control.hgetall("k") == {"o": "1"}


def test_time_for_replicas_counts_from_the_grant_and_BLOCK_until_it(server, actor):
    server.control.execute_command("LOCK.ACQUIRE", "k", "x")
    a, b = actor("a"), actor("b")
    with silent(*server.replicas):
        a.send("LOCK.ACQUIRE", "k", "oa", "BLOCK", 0, "REPLICAS", 1, 1)
        a.wait_blocked()
        server.let_pass(20)
        assert not a.has_reply()
        b.send("LOCK.ACQUIRE", "k", "ob", "BLOCK", 20, "REPLICAS", 1, LONG)
        assert b.reply() is None
        b.send("LOCK.ACQUIRE", "k", "ob", "BLOCK", scaled_ms(1000), "REPLICAS", 1, LONG)
        b.wait_blocked()
        server.control.execute_command("LOCK.RELEASE", "k", "x")
        assert no_replicas(a.outcome())
        wait_awaiting(server, 1)
        server.let_pass(scaled_ms(1100))
        assert not b.has_reply()
    assert b.reply() == 1


IN_MULTI = [[*asks(kind), "REPLICAS", 1, LONG] for kind in ("plain", "fair", "read", "write", "permits", "multikey")]


@pytest.mark.parametrize("words", [*IN_MULTI, ["LOCK.RENEW", "h", "o", "REPLICAS", 1, LONG]], ids=lambda words: words[0])
def test_REPLICAS_is_an_error_where_a_command_may_not_block(server, words):
    server.control.execute_command("LOCK.ACQUIRE", "h", "o", "PX", LONG)
    pipeline = server.control.pipeline(transaction=True)
    pipeline.execute_command(*words)
    assert no_replicas(pipeline.execute(raise_on_error=False)[0])
    script = "return redis.pcall(unpack(ARGV)).err"
    assert server.control.eval(script, 0, *words).startswith("NOREPLICAS ")
    assert server.control.keys() == ["h"]


def test_replicas_have_the_renewal_when_its_client_receives_the_reply(server):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", LONG // 2)
    assert server.control.execute_command("LOCK.RENEW", "k", "o", "PX", LONG, "REPLICAS", 2, LONG) == 1
    for replica in server.replicas:
        assert replica.control.pexpiretime("k") == server.control.pexpiretime("k")


def test_renewal_that_is_not_acknowledged_remains(server, actor):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", LONG)
    with silent(*server.replicas):
        a = actor("a")
        assert no_replicas(a.attempt("LOCK.RENEW", "k", "o", "PX", 2 * LONG, "REPLICAS", 1, 20))
        assert server.control.pttl("k") > LONG
        assert server.control.hgetall("k") == {"o": "1"}
        begin(server, a, "LOCK.RENEW", "k", "o", "PX", LONG, "REPLICAS", 1, LONG)
    assert a.reply() == 1


def test_renewal_with_too_few_replicas_changes_nothing(server):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", LONG)
    ends = server.control.pexpiretime("k")
    with pytest.raises(Exception) as raised:
        server.control.execute_command("LOCK.RENEW", "k", "o", "PX", 2 * LONG, "REPLICAS", 3, 20)
    assert code_of(raised.value) == "NOREPLICAS" and server.control.pexpiretime("k") == ends


def test_renewal_without_a_lease_keeps_the_session(server, actor):
    a = actor("a")
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION", "REPLICAS", 1, LONG)
    assert a.call("LOCK.RENEW", "k", "o", "PX", LONG, "REPLICAS", 2, LONG) == 1
    assert a.call("LOCK.RENEW", "k", "o", "SESSION", "REPLICAS", 2, LONG) == 1
    a.kill_socket()
    wait_for(lambda: not server.control.exists("k"), what="the session's hold to be released")


def test_renewal_of_a_lock_that_is_not_held_is_refused_at_once(server, actor):
    with silent(*server.replicas):
        assert code_of(actor("a").attempt("LOCK.RENEW", "k", "o", "REPLICAS", 2, LONG)) == "NOTHELD"


BAD = ["REPLICAS", "REPLICAS 1", "REPLICAS 1 5 REPLICAS 1 5", "REPLICAS x 5", "REPLICAS 1 x", "REPLICAS 0 5"]
BAD += ["REPLICAS -1 5", "REPLICAS 1 0", "REPLICAS 1 -5", "REPLICAS 2147483648 5", f"REPLICAS 1 {2**63 - 1}"]


@pytest.mark.parametrize("bad", BAD)
def test_bad_arguments_change_nothing(server, actor, bad):
    a = actor("a")
    for kind in ("plain", "fair", "read", "write", "permits", "multikey"):
        assert code_of(a.attempt(*asks(kind), *bad.split())) == "ERR"
    assert code_of(a.attempt("LOCK.RENEW", "k", "o", *bad.split())) == "ERR"
    assert server.control.keys() == []


def test_request_for_a_held_lock_is_replied_null_at_once(server, actor):
    server.control.execute_command("LOCK.ACQUIRE", "k", "x")
    with silent(*server.replicas):
        assert actor("a").call("LOCK.ACQUIRE", "k", "o", "REPLICAS", 2, LONG) is None


def test_replicas_have_the_masters_data_after_releases(server, actor):
    with silent(server.replicas[0]):
        actor("a").attempt("LOCK.ACQUIRE", "k", "o", "FENCED", "REPLICAS", 2, 10)
        actor("b").attempt("LOCK.MACQUIRE", 2, "l", "m", "o", "REPLICAS", 1, 10)
    for replica in server.replicas:
        wait_for_sync(server, replica)
        assert replica.dump() == server.dump()


def test_replies_that_wait_for_replicas_count_as_waiters(server, actor):
    server.control.config_set("lock.max-waiters", 1)
    with silent(*server.replicas):
        a = begin(server, actor("a"), "LOCK.ACQUIRE", "k", "o", "REPLICAS", 1, LONG)
        b = actor("b")
        assert code_of(b.attempt("LOCK.ACQUIRE", "l", "o", "REPLICAS", 1, LONG)) == "ERR"
        assert not server.control.exists("l") and awaiting(server) == 1
    assert a.reply() == 1
