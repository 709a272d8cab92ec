"""In whatever way the last waiter has left, no key and no memory of the queue is left."""

import pytest

from harness import code_of, scaled_ms, wait_for
from model.fair_changes import CHANGES, Scene
from model.fair_scene import ENDS, HOUR, LONG_RESERVE, QUEUE, ask, ask_all, hold, info, lose, nothing_left, order
from model.fair_scene import release, server, wait_nothing_left  # noqa: F401

A_WHILE = scaled_ms(250)
OWNERS = ("ob", "oc", "od")


def say(server, *words):
    return server.control.execute_command(*words)


def all_are_granted(server):
    a, waiting = hold(server), ask_all(server, *OWNERS)
    a.call("LOCK.RELEASE", "k", "oa")
    for owner, waiter in zip(OWNERS, waiting, strict=True):
        assert waiter.reply() == 1
        release(server, owner)


def all_time_out(server):
    hold(server)
    waiting = [ask(server, owner, "BLOCK", A_WHILE) for owner in OWNERS]
    assert [waiter.reply() for waiter in waiting] == [None] * 3


def all_are_cancelled(server):
    hold(server)
    waiting = ask_all(server, *OWNERS)
    assert [say(server, "LOCK.CANCEL", "k", owner) for owner in ("oc", "ob", "od")] == [1] * 3
    assert [waiter.reply() for waiter in waiting] == [None] * 3


def all_die_and_are_cancelled(server):
    hold(server)
    lose(server, *ask_all(server, *OWNERS))
    assert [say(server, "LOCK.CANCEL", "k", owner) for owner in ("oc", "ob", "od")] == [1] * 3


def all_die_and_their_reserves_end(server):
    hold(server)
    server.control.config_set("lock.fair-reserve", A_WHILE)
    for waiter in ask_all(server, *OWNERS):
        waiter.kill_socket()


def all_die_without_a_reserve(server):
    hold(server)
    server.control.config_set("lock.fair-reserve", 0)
    for waiter in ask_all(server, *OWNERS):
        waiter.kill_socket()


def all_are_granted_by_FORCE(server):
    hold(server)
    waiting = ask_all(server, *OWNERS)
    for waiter in waiting:
        assert say(server, "LOCK.FORCE", "k") == 1
        assert waiter.reply() == 1


def all_die_and_return_with_a_try(server):
    hold(server)
    lose(server, *ask_all(server, *OWNERS))
    release(server, "oa")
    for owner in OWNERS:
        assert server.actor(owner).call("LOCK.FAIR", "k", owner) == 1
        release(server, owner)


def all_die_and_acquire_the_lock_by_ACQUIRE(server):
    hold(server)
    lose(server, *ask_all(server, *OWNERS))
    release(server, "oa")
    for owner in reversed(OWNERS):
        assert server.actor(owner).call("LOCK.ACQUIRE", "k", owner) == 1
        release(server, owner)


def all_die_and_are_written_into_the_key(server):
    hold(server)
    lose(server, *ask_all(server, *OWNERS))
    for owner in reversed(OWNERS):
        server.control.delete("k")
        server.control.hset("k", owner, 1)
        wait_for(lambda owner=owner: owner not in order(server), what="the position of a holder to be removed")


def keys_are_flushed(server, flush="FLUSHALL"):
    hold(server)
    waiting = ask_all(server, *OWNERS)
    for waiter in waiting:
        say(server, flush)
        assert waiter.reply() == 1
    say(server, flush)


def keys_are_flushed_and_all_die(server):
    hold(server)
    waiting = ask_all(server, *OWNERS)
    say(server, "FLUSHALL")
    assert waiting[0].reply() == 1
    server.control.config_set("lock.fair-reserve", A_WHILE)
    for waiter in waiting[1:]:
        waiter.kill_socket()


def reserved_positions_are_flushed(server):
    hold(server)
    server.control.config_set("lock.fair-reserve", A_WHILE)
    for waiter in ask_all(server, *OWNERS):
        waiter.kill_socket()
    say(server, "FLUSHALL")


def each_dies_in_the_iteration_of_its_grant(server):
    a = hold(server)
    waiting = ask_all(server, *OWNERS)
    lines = [f"LOCK.RELEASE k {owner}\r\nCLIENT KILL ID {waiter.client_id}\r\n"
             for owner, waiter in zip(("oa", "ob", "oc"), waiting, strict=True)]  # fmt: skip
    server.raw_connection().sendall("".join(lines).encode())
    for waiter in waiting:
        waiter.wait_closed()
    wait_for(lambda: a.call("EXISTS", "k") == 0, what="the last hold to be released")


def each_dies_in_the_iteration_before_its_grant(server):
    hold(server)
    server.control.config_set("lock.fair-reserve", A_WHILE)
    waiting = ask_all(server, *OWNERS)
    lines = [f"CLIENT KILL ID {waiter.client_id}\r\n" for waiter in waiting]
    server.raw_connection().sendall(("".join(lines) + "LOCK.RELEASE k oa\r\n").encode())
    for waiter in waiting:
        waiter.wait_closed()


def taken_over_and_cancelled(server):
    hold(server)
    first, second, third = ask(server, "ob"), ask(server, "ob", "BLOCK", HOUR), ask(server, "ob")
    say(server, "LOCK.CANCEL", "k", "ob")
    assert [actor.reply() for actor in (first, second, third)] == [None] * 3


def queue_keys_are_deleted_and_all_are_cancelled(server):
    hold(server)
    ask_all(server, *OWNERS)
    say(server, "DEL", QUEUE, ENDS)
    for owner in OWNERS:
        say(server, "LOCK.CANCEL", "k", owner)


def queue_keys_are_deleted_and_all_die(server):
    hold(server)
    server.control.config_set("lock.fair-reserve", A_WHILE)
    waiting = ask_all(server, *OWNERS)
    say(server, "DEL", QUEUE, ENDS)
    for waiter in waiting:
        waiter.kill_socket()


LEAVING = {
    leave.__name__: leave
    for leave in (
        all_are_granted,
        all_time_out,
        all_are_cancelled,
        all_die_and_are_cancelled,
        all_die_and_their_reserves_end,
        all_die_without_a_reserve,
        all_are_granted_by_FORCE,
        all_die_and_return_with_a_try,
        all_die_and_acquire_the_lock_by_ACQUIRE,
        all_die_and_are_written_into_the_key,
        keys_are_flushed,
        keys_are_flushed_and_all_die,
        reserved_positions_are_flushed,
        each_dies_in_the_iteration_of_its_grant,
        each_dies_in_the_iteration_before_its_grant,
        taken_over_and_cancelled,
        queue_keys_are_deleted_and_all_are_cancelled,
        queue_keys_are_deleted_and_all_die,
    )
}


@pytest.mark.parametrize("leave", LEAVING.values(), ids=LEAVING)
def test_nothing_is_left_of_a_queue(server, leave):
    leave(server)
    wait_nothing_left(server)
    assert not [key for key in server.dump() if key[1] != b"k"]


@pytest.mark.parametrize("change", [change for change in CHANGES.values() if "oc" == change.owner])
def test_nothing_is_left_when_the_other_waiters_are_cancelled(server, change):
    scene = Scene(server)
    change.prepare(scene)
    change.act(scene)
    for owner in order(server):
        say(server, "LOCK.CANCEL", "k", owner)
    wait_nothing_left(server)


@pytest.mark.parametrize("flush", ["FLUSHALL", "FLUSHDB", "FLUSHALL ASYNC", "FLUSHDB ASYNC"])
def test_nothing_is_left_in_any_database_after_a_flush(server, flush):
    for db in (0, 3):
        hold(server, db=db)
    waiting = [ask(server, "ob", db=db) for db in (0, 3)]
    for db, waiter in zip((0, 3), waiting, strict=True):
        server.client(db=db).execute_command(*flush.split())
        assert waiter.reply() == 1
    wait_nothing_left(server)


def test_memory_of_a_queue_is_released(server):
    """The second of two equal crowds uses no more memory than the first one."""

    def crowd():
        hold(server)
        lose(server, *ask_all(server, *(f"o{number}" for number in range(100))))
        for number in range(100):
            say(server, "LOCK.CANCEL", "k", f"o{number}")
        say(server, "LOCK.FORCE", "k")
        wait_nothing_left(server)
        server.disconnect_clients()
        wait_for(lambda: server.info("clients")["connected_clients"] == 1, what="the clients to be gone")
        return server.info("memory")["used_memory"]

    first = crowd()
    wait_for(lambda: crowd() <= first + 20_000, 20, "a crowd that uses no more memory")


def test_nothing_is_left_after_two_databases_are_swapped(server):
    """A wait stays in the database with its number; the lock moves, and the positions are written back."""
    hold(server)
    b, c = ask_all(server, "ob", "oc")
    assert server.control.swapdb(0, 3)
    assert b.reply() == 1
    release(server, "ob")
    assert c.reply() == 1
    release(server, "oc")
    wait_nothing_left(server)
    assert set(server.dump()) == {(3, b"k")}


# The waiters of a slot that moves away are redirected


@pytest.fixture
def node(make_server):
    """A cluster of one node, which has all slots and works without some of them."""
    node = make_server(cluster_enabled="yes", cluster_require_full_coverage="no", lock_fair_reserve=LONG_RESERVE)
    say(node, "CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    wait_for(lambda: hold_is_possible(node), 20, "the cluster to be whole")
    return node


def hold_is_possible(node):
    return node.actor().attempt("LOCK.ACQUIRE", "k", "oa", "PX", HOUR) == 1


@pytest.mark.parametrize("state", ["attached", "detached", "both"])
def test_nothing_is_left_of_a_queue_whose_slot_has_moved_away(node, state):
    first, second = ask_all(node, "ob", "oc")
    if state != "attached":
        lose(node, first)
    if state == "detached":
        lose(node, second)
    say(node, "CLUSTER", "DELSLOTS", say(node, "CLUSTER", "KEYSLOT", "k"))
    for actor, is_alive in ((first, state == "attached"), (second, state != "detached")):
        assert not is_alive or code_of(actor.outcome()) in ("MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN")
    wait_for(lambda: node.info("lock")["lock_contended_locks"] == 0, what="the positions to be gone from memory")
    assert node.info("lock")["lock_waiters"] == 0


def test_LOCK_INFO_shows_nothing_when_all_waiters_have_left(server):
    all_are_granted(server)
    assert info(server) == {"waiters": [], "holders": []}
    assert say(server, "LOCK.INFO", "k") is None
    assert nothing_left(server)


@pytest.mark.parametrize("words", ["LOCK.FAIR k oz", "LOCK.CANCEL k oz"])
def test_positions_that_expired_before_the_first_request_use_no_memory(make_server, words):
    """The file has kept them for longer than the server reserves them: the first request only removes the keys."""
    server = make_server(appendonly="yes", lock_fair_reserve=scaled_ms(300))
    hold(server)
    ask_all(server, "ob", "oc")
    server.kill()
    server.start()
    server.let_pass(scaled_ms(300))
    assert not server.actor().attempt(*words.split())
    assert server.info("lock")["lock_contended_locks"] == 0
    assert server.control.keys("*") == ["k"]
