"""Another client deletes, trims, overwrites or moves the keys of a fair queue: no crash, no hang, exclusion is kept.

While the server runs, memory decides, so that the order is kept too; positions that were removed from the
keys are lost after a restart.
"""

import math

import pytest

from harness import code_of, scaled_ms, wait_for
from harness.schedule import as_map
from model.fair_scene import ENDS, HOUR, QUEUE, ask, ask_all, detached, hold, holder, order, release
from model.fair_scene import server, wait_nothing_left, written  # noqa: F401

OWNERS = ("ob", "oc", "od")
TAMPERING = {
    "both deleted": [f"DEL {QUEUE} {ENDS}"],
    "queue deleted": [f"DEL {QUEUE}"],
    "deadlines deleted": [f"UNLINK {ENDS}"],
    "both expired": [f"PEXPIRE {QUEUE} 0", f"PEXPIREAT {ENDS} 1"],
    "head removed": [f"ZREM {QUEUE} ob", f"ZREM {ENDS} ob"],
    "head popped": [f"ZPOPMIN {QUEUE}"],
    "last popped": [f"ZPOPMAX {QUEUE}", f"ZPOPMIN {ENDS}"],
    "trimmed": [f"ZREMRANGEBYRANK {QUEUE} 1 -1"],
    "deadlines removed": [f"ZREM {ENDS} ob oc od"],
    "queue overwritten": [f"SET {QUEUE} x"],
    "deadlines overwritten": [f"SET {ENDS} x"],
    "both overwritten": [f"SET {QUEUE} x", f"SET {ENDS} x"],
    "overwritten by a hash": [f"DEL {QUEUE}", f"HSET {QUEUE} ob 1"],
    "renamed away": [f"RENAME {QUEUE} elsewhere"],
    "renamed onto each other": [f"RENAME {QUEUE} {ENDS}"],
    "copied over": [f"COPY {ENDS} {QUEUE} REPLACE"],
    "order reversed": [f"ZADD {QUEUE} 3 ob 2 oc 1 od"],
    "all equal": [f"ZADD {QUEUE} 1 ob 1 oc 1 od", f"ZADD {ENDS} 1 ob 1 oc 1 od"],
    "others added": [f"ZADD {QUEUE} -inf x 0 v inf w 1.5 y", f"ZADD {ENDS} 1 x 1e300 z"],
    "expiry removed": [f"PERSIST {QUEUE}", f"PERSIST {ENDS}"],
    "moved to another database": [f"MOVE {QUEUE} 5", f"MOVE {ENDS} 5"],
}
each_tampering = pytest.mark.parametrize("commands", TAMPERING.values(), ids=TAMPERING)


def tamper(server, commands):
    for command in commands:
        # Each on a client of its own: Valkey 8.1 leaves one in the database that it MOVEd a key to (valkey #4024).
        server.client().execute_command(*command.split())


def repair(server):
    """Deletes the keys of another type."""
    for db in (0, 5):
        server.client(db=db).delete(QUEUE, ENDS)


def all_are_granted(server, waiting):
    """Each holds the lock alone, in order of arrival."""
    before = "oa"
    for number, waiter in enumerate(waiting):
        assert not any(later.has_reply() for later in waiting[number:])
        assert server.control.execute_command("LOCK.ACQUIRE", "k", "stranger") is None
        release(server, before)
        assert waiter.reply() == 1
        assert server.control.hgetall("k") == {waiter.name: "1"}
        before = waiter.name
    release(server, before)
    wait_for(lambda: server.info("lock")["lock_contended_locks"] == 0, what="the queue to be gone from memory")


@each_tampering
def test_all_waiters_are_granted_in_order(server, commands):
    hold(server)
    waiting = ask_all(server, *OWNERS)
    tamper(server, commands)
    all_are_granted(server, waiting)
    # No position of these owners is left in the keys, whoever wrote the keys.
    for name in (QUEUE, ENDS):
        if server.control.type(name) == "zset" and commands != TAMPERING["renamed onto each other"]:
            assert not set(OWNERS) & set(server.control.zrange(name, 0, -1))


@each_tampering
def test_waiters_can_be_cancelled_die_and_return(server, commands):
    """If a key has another type it is deleted first: otherwise no request is accepted."""
    hold(server)
    b, c, d = ask_all(server, *OWNERS)
    tamper(server, commands)
    d.kill_socket()
    wait_for(lambda: detached(server) == ["od"], what="od to be detached")
    assert server.control.execute_command("LOCK.CANCEL", "k", "oc") == 1
    assert c.reply() is None
    assert order(server) == ["ob", "od"]
    if server.control.type(QUEUE) in ("hash", "string") or server.control.type(ENDS) == "string":
        repair(server)
    back, late = ask(server, "od", "BLOCK", HOUR), ask(server, "oe")
    assert order(server) == ["ob", "od", "oe"]
    assert dict(server.control.zrange(QUEUE, 0, -1, withscores=True))["od"]
    assert server.control.zscore(ENDS, "oe") == math.inf
    all_are_granted(server, [b, back, late])


@each_tampering
def test_waits_time_out_and_reserves_end(server, commands):
    hold(server)
    server.control.config_set("lock.fair-reserve", scaled_ms(60))
    waiting = [ask(server, owner, "BLOCK", scaled_ms(90)) for owner in OWNERS]
    tamper(server, commands)
    waiting.pop(0).kill_socket()
    assert [waiter.reply() for waiter in waiting] == [None, None]
    wait_for(lambda: server.info("lock")["lock_contended_locks"] == 0, what="the queue to be gone from memory")
    repair(server)
    wait_nothing_left(server)


@each_tampering
def test_server_works_after_a_restart_with_tampered_keys(make_server, commands):
    """Whatever the keys contain then: it grants, excludes, and no client waits for ever."""
    server = make_server(appendonly="yes", lock_fair_reserve=scaled_ms(400))
    hold(server)
    ask_all(server, *OWNERS)
    tamper(server, commands)
    server.kill()
    server.start()
    assert holder(server) == "oa"
    if any(server.control.type(name) not in ("zset", "none") for name in (QUEUE, ENDS)):
        assert code_of(server.actor().attempt("LOCK.FAIR", "k", "oz", "BLOCK", 0)) == "WRONGTYPE"
        repair(server)
    late = ask(server, "late")
    release(server, "oa")
    assert late.reply(10) == 1
    release(server, "late")
    wait_for(lambda: server.info("lock")["lock_contended_locks"] == 0, what="the queue to be gone from memory")


# A key of another type

OTHER_TYPES = ["SET {} x", "RPUSH {} x", "SADD {} x", "HSET {} ob 1", "XADD {} 1-1 f v"]
ASKING = [("LOCK.FAIR", "k", owner, *more) for owner in ("oa", "ob", "oz") for more in ((), ("BLOCK", 0), ("BLOCK", 9))]


@pytest.mark.parametrize("name", [QUEUE, ENDS], ids=["queue", "deadlines"])
@pytest.mark.parametrize("make", OTHER_TYPES)
def test_fair_request_is_WRONGTYPE_and_changes_nothing(server, actor, make, name):
    a, b = hold(server), ask(server, "ob")
    server.control.delete(name)
    server.control.execute_command(*make.format(name).split())
    before, waiting = server.dump(), order(server)
    for words in ASKING:
        assert code_of(actor().attempt(*words)) == "WRONGTYPE"
    assert (server.dump(), order(server), b.has_reply()) == (before, waiting, False)
    assert server.blocked_clients() == 1
    # The lock itself can still be used.
    assert a.call("LOCK.ACQUIRE", "k", "oa") == 2
    assert a.call("LOCK.RELEASE", "k", "oa") == 1
    release(server, "oa")
    assert b.reply() == 1
    assert server.dump()[0, name.encode()] == before[0, name.encode()]
    server.control.delete(name)
    assert actor().call("LOCK.FAIR", "k", "ob") == 2


@pytest.mark.parametrize("name", [QUEUE, ENDS], ids=["queue", "deadlines"])
def test_fair_request_for_a_free_lock_is_WRONGTYPE_too(server, actor, name):
    server.control.set(name, "x")
    before = server.dump()
    for words in ASKING:
        assert code_of(actor().attempt(*words)) == "WRONGTYPE"
    assert server.dump() == before
    assert server.control.execute_command("LOCK.INFO", "k") is None
    assert server.control.execute_command("LOCK.CANCEL", "k", "ob") == 0
    assert server.control.execute_command("LOCK.ACQUIRE", "k", "oz") == 1


@pytest.mark.parametrize("name", [QUEUE, ENDS], ids=["queue", "deadlines"])
def test_key_of_another_type_gets_no_expiry(server, name):
    """Not even when the expiry of the queue's keys is made later."""
    hold(server)
    waiter = ask(server, "ob")
    server.control.set(name, "x")
    server.control.config_set("lock.fair-reserve", 1000 * HOUR)
    before = server.dump()[0, name.encode()]
    other = ENDS if name == QUEUE else QUEUE
    waiter.kill_socket()
    wait_for(lambda: server.control.pttl(other) > 999 * HOUR, what="the expiry to be later")
    assert server.dump()[0, name.encode()] == before
    server.control.delete(name)


def test_LOCK_INFO_counts_no_position_of_a_key_of_another_type(server):
    hold(server)
    server.control.set(QUEUE, "x")
    assert as_map(server.control.execute_command("LOCK.INFO", "k"))["waiting"] == 0


# Tickets that another client has written


SCORES = ["inf", "1e300", "9223372036854775807", "1152921504606846976", "1e17", "-inf", "-5", "0.5"]
# Up to 2^53 scores distinguish whole numbers: just below, there would be no room for further tickets.
SCORES += [str(2**53 + more) for more in (1, 0, -1, -2, -1000, -(2**40), -(2**40) - 1)]


@pytest.mark.parametrize("score", SCORES)
def test_order_is_kept_after_a_restart_whatever_ticket_another_wrote(make_server, score):
    """Equal tickets would be in alphabetical order, so the owners arrive in another order."""
    server = make_server(appendonly="yes", lock_fair_reserve=HOUR)
    server.control.zadd(QUEUE, {"stranger": score})
    server.control.zadd(ENDS, {"stranger": "inf"})
    hold(server)
    owners = list(reversed(OWNERS))
    ask_all(server, *owners)
    assert [owner for owner in order(server) if owner != "stranger"] == owners
    server.kill()
    server.start()
    assert [owner for owner in order(server) if owner != "stranger"] == owners
    assert [owner for owner, _, _ in written(server) if owner != "stranger"] == owners


@pytest.mark.parametrize("score", ["-inf", "-5", "0", "0.5"])
def test_owner_with_a_ticket_below_one_keeps_its_place(make_server, score):
    """Its position is read from the keys, the owner returns, and the place is the same after another restart."""
    server = make_server(appendonly="yes", lock_fair_reserve=HOUR)
    hold(server)
    server.control.zadd(QUEUE, {"ob": score})
    server.control.zadd(ENDS, {"ob": "inf"})
    server.restart()
    ask_all(server, "oc", "ob", "od")
    assert order(server) == ["ob", "oc", "od"]
    assert [owner for owner, _, _ in written(server)] == ["ob", "oc", "od"]
    server.restart()
    assert order(server) == ["ob", "oc", "od"]


def test_new_requests_queue_behind_positions_of_a_clock_ahead(make_server):
    """The clock has stepped back by an hour since: tickets nevertheless grow, in memory and in the keys."""
    server = make_server(appendonly="yes", lock_fair_reserve=HOUR)
    ahead = (server.now_ms() + HOUR) * 1000
    server.control.zadd(QUEUE, {"x": ahead, "y": ahead + 1})
    server.control.zadd(ENDS, {"x": "inf", "y": "inf"})
    hold(server)
    ask_all(server, *OWNERS)
    expected = ["x", "y", *OWNERS]
    assert order(server) == expected
    assert [owner for owner, _, _ in written(server)] == expected
    server.kill()
    server.start()
    ask(server, "late")
    assert order(server) == [*expected, "late"]
    assert [owner for owner, _, _ in written(server)] == [*expected, "late"]


# Scores that are not times


SCORES = ("1", "-5", "0", "-inf", "+inf", "1e300", "999999999999999", "1e15")


@pytest.mark.parametrize("score", SCORES)
def test_score_that_another_client_wrote_does_not_affect_statistics(make_server, score):
    """It is read after the server's start; waits are counted from then on."""
    server = make_server(lock_fair_reserve=HOUR, appendonly="yes")
    hold(server)
    server.control.zadd(QUEUE, {"ob": score})
    server.control.zadd(ENDS, {"ob": HOUR})
    server.restart()
    began = server.now_ms()
    waiter = ask(server, "ob")
    release(server, "oa")
    assert waiter.reply() == 1
    lived = server.now_ms() - began + scaled_ms(5000)  # it began before it accepted commands
    assert 0 <= server.info("lock")["lock_wait_ms_max"] <= lived


@pytest.mark.parametrize("score", SCORES[:-1])
@pytest.mark.parametrize("in_memory", [False, True], ids=["in the keys", "in memory"])
def test_score_that_is_not_a_time_is_shown_as_a_wait_since_the_restart(make_server, score, in_memory):
    server = make_server(lock_fair_reserve=HOUR, appendonly="yes")
    replica = server.start_replica()
    hold(server)
    server.control.zadd(QUEUE, {"ob": score})
    server.control.zadd(ENDS, {"ob": HOUR})
    server.restart()
    began = server.now_ms()
    if in_memory:
        server.control.execute_command("LOCK.CANCEL", "k", "stranger")
    most = scaled_ms(30_000)
    wait_for(lambda: replica.info("replication")["master_link_status"] == "up", 30, "the replica to reconnect")
    for one in (server, replica):
        (shown,) = as_map(one.control.execute_command("LOCK.INFO", "k"))["waiters"]
        assert as_map(shown)["owner"] == "ob"
        assert 0 <= as_map(shown)["waited"] <= server.now_ms() - began + most


def test_position_keeps_its_age_after_a_restart_but_counts_from_it(make_server):
    server = make_server(lock_fair_reserve=HOUR, appendonly="yes")
    hold(server)
    age = 2 * HOUR
    server.control.zadd(QUEUE, {"ob": (server.now_ms() - age) * 1000})
    server.control.zadd(ENDS, {"ob": HOUR})
    server.restart()
    waiter = ask(server, "ob")
    (shown,) = as_map(server.control.execute_command("LOCK.INFO", "k"))["waiters"]
    assert as_map(shown)["waited"] >= age
    release(server, "oa")
    assert waiter.reply() == 1
    assert server.info("lock")["lock_wait_ms_max"] < HOUR
