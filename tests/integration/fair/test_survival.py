"""The order of the queue is kept after lost connections, crashes, restarts and failovers.

Positions are kept for an hour here, so that time does not matter; test_reserve.py tests when they end.
"""

import random

import pytest
from redis.exceptions import ConnectionError

from harness import wait_for, wait_for_sync
from harness.schedule import error
from model.fair_scene import HOUR, LONG_RESERVE, ask, ask_all, assert_written, detached, hold, holder, lose, order
from model.fair_scene import release, server, wait_nothing_left, waiters, written, written_is_right  # noqa: F401

OWNERS = tuple(f"o{number}" for number in range(12))


def granted_in_order(server, owners, actors, holder_before="oa"):
    """Each of them is granted when the one before has released, and none earlier."""
    for number, owner in enumerate(owners):
        assert not any(actors[later].has_reply() for later in owners[number:])
        release(server, holder_before)
        assert actors[owner].reply() == 1
        holder_before = owner
    release(server, holder_before)
    wait_nothing_left(server)


# Connections


@pytest.mark.timeout(300)
def test_500_waiters_on_500_connections_are_granted_in_order(server):
    hold(server)
    owners = [f"w{number}" for number in range(500)]
    actors = {owner: ask(server, owner) for owner in owners}
    assert order(server) == owners
    assert server.blocked_clients() == 500
    assert_written(server)
    granted_in_order(server, owners, actors)


@pytest.mark.timeout(300)
def test_500_waiters_are_granted_in_order_though_many_lose_connections(server):
    """Every third one dies, some twice, and returns before the first grant."""
    hold(server)
    dice = random.Random(3)
    owners = [f"w{number}" for number in range(500)]
    actors = {owner: ask(server, owner) for owner in owners}
    dead = [owner for number, owner in enumerate(owners) if number % 3 == 0]
    for owner in dead:
        actors[owner].kill_socket()
    wait_for(lambda: detached(server) == dead, what="the dead to be detached")
    dice.shuffle(dead)
    for owner in dead:
        actors[owner] = ask(server, owner)
    assert order(server) == owners
    again = dead[:50]
    for owner in again:
        actors[owner].kill_socket()
    wait_for(lambda: set(detached(server)) == set(again), what="some to be detached again")
    wait_for(lambda: written_is_right(server), what="the positions to be written")
    for owner in again:
        actors[owner] = ask(server, owner)
    granted_in_order(server, owners, actors)


def test_order_is_that_of_first_arrival_not_of_return(server):
    hold(server)
    lose(server, *ask_all(server, *OWNERS))
    late = ask(server, "late")
    actors = {owner: ask(server, owner) for owner in reversed(OWNERS)}
    actors["late"] = late
    granted_in_order(server, [*OWNERS, "late"], actors)


# Restarts and failovers


def crash(server):
    server.kill()
    return server.start()


def restart_from_rdb(server):
    server.restart(save=True)
    return server


def promote(server):
    replica = server.start_replica(lock_fair_reserve=LONG_RESERVE)
    wait_for_sync(server, replica)
    server.kill()
    replica.control.replicaof("NO", "ONE")  # before it connects to its master again, which is restarted without data
    server.start()  # for the harness to stop; no client uses it
    return replica


def fail_over(master, replica):
    master.control.execute_command("FAILOVER", "TO", "127.0.0.1", replica.port)
    wait_for(lambda: replica.info("replication")["role"] == "master", 20, "the failover")
    wait_for(lambda: master.info("replication")["role"] == "slave", 20, "the failover")


def failover(server):
    replica = server.start_replica(lock_fair_reserve=LONG_RESERVE)
    wait_for_sync(server, replica)
    fail_over(server, replica)
    return replica


def replica_after_a_diskless_sync(server):
    replica = server.start_replica(lock_fair_reserve=LONG_RESERVE, repl_diskless_load="swapdb")
    replica.control.replicaof("NO", "ONE")
    return replica


AOF = {"appendonly": "yes", "appendfsync": "always"}
SURVIVALS = {
    "kill -9, AOF": (AOF, crash),
    "restart, RDB": ({}, restart_from_rdb),
    "promoted replica": ({}, promote),
    "FAILOVER": ({}, failover),
    "replica synced by swapdb": ({}, replica_after_a_diskless_sync),
}


@pytest.fixture(params=SURVIVALS.values(), ids=SURVIVALS)
def survivor(request, make_server):
    """survivor(arrange): the server after `arrange(server)` and one of these events."""
    config, event = request.param
    server = make_server(**config, lock_fair_reserve=LONG_RESERVE)

    def survive(arrange):
        arrange(server)
        return event(server)

    return survive


def all_wait(server):
    """Some wait without a timeout, some with one, and some have died."""
    hold(server)
    for number, owner in enumerate(OWNERS):
        ask(server, owner, "BLOCK", HOUR * (number % 2))
    lose(server, *[ask(server, owner) for owner in ("x", "y")])
    assert_written(server)


ALL = (*OWNERS, "x", "y")


def test_all_positions_are_kept_in_order_and_detached(survivor):
    server = survivor(all_wait)
    assert order(server) == list(ALL)
    assert detached(server) == list(ALL)
    assert holder(server) == "oa"
    assert all(waiter["fair"] == 1 and 0 < waiter["left"] <= LONG_RESERVE for waiter in waiters(server))
    assert server.info("lock")["lock_waiters"] == 0


@pytest.mark.parametrize("back", ["in order", "in reverse", "at random"])
def test_owners_that_return_are_granted_in_ticket_order(survivor, back):
    server = survivor(all_wait)
    tickets = [position[:2] for position in written(server)]
    returning = list(ALL)
    if back == "in reverse":
        returning.reverse()
    elif back == "at random":
        random.Random(7).shuffle(returning)
    actors = {owner: ask(server, owner) for owner in returning}
    assert order(server) == list(ALL) and detached(server) == []
    assert [position[:2] for position in written(server)] == tickets
    granted_in_order(server, ALL, actors)


def test_new_requests_queue_behind_owners_that_have_not_returned(survivor):
    server = survivor(all_wait)
    plain, fair = ask(server, "plain", command="LOCK.ACQUIRE"), ask(server, "fair")
    assert server.actor().call("LOCK.FAIR", "k", "try") is None
    assert order(server) == [*ALL, "plain", "fair"]
    release(server, "oa")
    assert server.actor().call("LOCK.FAIR", "k", "try") is None
    server.settle(20)
    assert not plain.has_reply() and not fair.has_reply()
    # No new owner has a lower ticket than one from before.
    assert [owner for owner, _, _ in written(server)] == [*ALL, "fair"]
    head = server.actor("head")
    assert head.call("LOCK.FAIR", "k", OWNERS[0]) == 1


@pytest.mark.parametrize("first", ["CANCEL", "CANCEL RELEASE", "plain wait", "plain try", "fair try", "release", "FORCE", "INFO"])
def test_positions_are_kept_whatever_the_first_command_is(survivor, first):
    """The module reads the positions at the first command, whichever it is."""
    server = survivor(all_wait)
    call = server.control.execute_command
    expected = list(ALL)
    if first.startswith("CANCEL"):
        assert call("LOCK.CANCEL", "k", OWNERS[3], *first.split()[1:]) == 1
        expected.remove(OWNERS[3])
    elif first == "plain wait":
        ask(server, "plain", command="LOCK.ACQUIRE")
        expected.append("plain")
    elif first == "plain try":
        assert call("LOCK.ACQUIRE", "k", "z") is None
    elif first == "fair try":
        assert call("LOCK.FAIR", "k", "z") is None
    elif first == "release":
        release(server, "oa")
        assert call("LOCK.FAIR", "k", "z") is None
        assert holder(server) is None
    elif first == "FORCE":
        assert call("LOCK.FORCE", "k") == 1
        assert holder(server) is None
    assert order(server) == expected
    ask(server, OWNERS[5])
    assert order(server) == expected


def test_plain_waiter_is_not_granted_before_positions_from_before(survivor):
    server = survivor(all_wait)
    plain = ask(server, "plain", command="LOCK.ACQUIRE")
    release(server, "oa")
    server.settle(20)
    assert not plain.has_reply()
    for owner in ALL:
        assert server.control.execute_command("LOCK.CANCEL", "k", owner) == 1
    assert plain.reply() == 1


def test_owner_that_acquires_the_lock_by_ACQUIRE_loses_its_position(survivor):
    server = survivor(all_wait)
    release(server, "oa")
    assert server.control.execute_command("LOCK.ACQUIRE", "k", OWNERS[3]) == 1
    release(server, OWNERS[3])
    assert order(server) == [owner for owner in ALL if owner != OWNERS[3]]


def test_order_is_kept_after_several_restarts(make_server):
    """Some owners return after each restart, and the order is still the first one."""
    server = make_server(**AOF, lock_fair_reserve=LONG_RESERVE)
    all_wait(server)
    dice = random.Random(5)
    expected = list(ALL)
    for number in range(5):
        server.kill()
        server.start()
        for owner in dice.sample(expected, 5):
            ask(server, owner)
        ask(server, f"new{number}")
        expected.append(f"new{number}")
        gone = dice.choice(expected)
        assert server.control.execute_command("LOCK.CANCEL", "k", gone) == 1
        expected.remove(gone)
        assert order(server) == expected
        wait_for(lambda: written_is_right(server, restarted=True), what="the keys to agree with memory")
    granted_in_order(server, expected, {owner: ask(server, owner) for owner in expected})


def test_many_locks_and_databases_survive(survivor):
    keys = [(f"lock{number}", db) for number in range(30) for db in (0, 3)]

    def arrange(server):
        for key, db in keys:
            hold(server, key=key, db=db)
            for owner in ("ob", "oc"):
                ask(server, owner, key=key, db=db)

    server = survivor(arrange)
    actors = {}
    for owner in ("oc", "ob"):
        for key, db in keys:
            actors[key, db, owner] = ask(server, owner, key=key, db=db)
    for key, db in keys:
        call = server.client(db=db).execute_command
        assert call("LOCK.RELEASE", key, "oa") == 0
        assert actors[key, db, "ob"].reply() == 1
        assert not actors[key, db, "oc"].has_reply()
        assert call("LOCK.RELEASE", key, "ob") == 0
        assert actors[key, db, "oc"].reply() == 1
    wait_nothing_left(server)


# Events other than a restart


def test_order_is_kept_after_DEBUG_RELOAD_with_waiters(server):
    hold(server)
    first, dead, last = ask_all(server, "ob", "oc", "od")
    lose(server, dead)
    before = server.dump()
    assert server.control.execute_command("DEBUG", "RELOAD") == "OK"
    assert server.dump() == before
    assert order(server) == ["ob", "oc", "od"] and detached(server) == ["oc"]
    back = ask(server, "oc")
    granted_in_order(server, ["ob", "oc", "od"], {"ob": first, "oc": back, "od": last})


def test_clients_are_unblocked_by_a_failover_and_keep_their_positions(make_server):
    master = make_server(lock_fair_reserve=LONG_RESERVE)
    replica = master.start_replica(lock_fair_reserve=LONG_RESERVE)
    hold(master)
    waiting = ask_all(master, *OWNERS)
    wait_for_sync(master, replica)
    fail_over(master, replica)
    for waiter in waiting:
        try:
            assert error("UNBLOCKED")(waiter.outcome())
        except ConnectionError:
            pass
    wait_for(lambda: master.info("lock")["lock_contended_locks"] == 0, what="the old master to remove its positions from memory")
    actors = {owner: ask(replica, owner) for owner in reversed(OWNERS)}
    granted_in_order(replica, OWNERS, actors)
    wait_for_sync(replica, master)
    assert master.dump() == replica.dump()
