"""SWAPDB moves the keys of a fair queue, but not the waiters: their positions are written to the database where they
wait.

Databases 0 and 3 are swapped. Each lock is held in both, so that no waiter is granted and the order can be checked.
"""

import pytest

from harness import wait_for, wait_for_sync
from model.fair_scene import HOUR, LONG_RESERVE, QUEUE, ask, hold, info, release
from model.fair_scene import wait_nothing_left, written, written_is_right  # noqa: F401

DB, OTHER = DATABASES = (0, 3)
LONG = 600_000


def both_hold(server):
    for db in DATABASES:
        hold(server, db=db)


def at_once(server, *commands, db=DB):
    """Sends all commands in one packet."""
    pipeline = server.client(db=db).pipeline(transaction=False)
    for command in commands:
        pipeline.execute_command(*command.split())
    return pipeline.execute()


def mirrored(server, *databases, restarted=False):
    """Whether the keys agree with memory in each of the databases."""
    for db in databases or DATABASES:
        assert written_is_right(server, restarted=restarted, db=db)
    return True


def wait_mirrored(server, *databases, **more):
    wait_for(lambda: mirrored(server, *databases, **more), what="the keys to agree with memory")


def owners(server, db):
    """The owners that wait there, which are the same in memory and in the keys."""
    by_info = [waiter["owner"] for waiter in info(server, db=db).get("waiters", []) if waiter["fair"]]
    assert by_info == [owner for owner, _, _ in written(server, db=db)]
    return by_info


def lose_in(server, db, actor):
    actor.kill_socket()
    wait_for(lambda: actor.name in kept(server, db), what=f"{actor.name} to be detached")


def kept(server, db):
    return [waiter["owner"] for waiter in info(server, db=db)["waiters"] if waiter["client"] is None]


# Queues before the swap


def in_one(server):
    ask(server, "ob")
    ask(server, "oc", "BLOCK", HOUR)


def in_the_other(server):
    for owner in ("ob", "oc"):
        ask(server, owner, db=OTHER)


def in_both(server):
    """One owner waits in both, and others in one of them."""
    for db, owners_there in ((DB, ("ob", "oc", "od")), (OTHER, ("oc", "oe", "of"))):
        for owner in owners_there:
            ask(server, owner, db=db)


def plain_in_the_other(server):
    in_one(server)
    ask(server, "plain", db=OTHER, command="LOCK.ACQUIRE")


def among_plain(server):
    ask(server, "plain", command="LOCK.ACQUIRE")
    in_one(server)
    ask(server, "late", command="LOCK.ACQUIRE")


def long_queues(server):
    """So long that the module makes the server use another encoding."""
    for number in range(9):
        ask(server, f"o{number}")
        if number < 6:
            ask(server, f"p{number}", db=OTHER)


def with_a_reserved_position(server):
    in_one(server)
    lose_in(server, DB, ask(server, "dead"))
    ask(server, "late")


def reserved_positions_only(server):
    lose_in(server, DB, ask(server, "dead"))
    lose_in(server, OTHER, ask(server, "dead too", db=OTHER))


def many_locks(server):
    """Many locks, with a waiter in one database, in the other, or in both."""
    for number in range(20):
        for db in DATABASES:
            hold(server, key=f"l{number}", db=db)
            if number % 3 != db:
                ask(server, "ox", key=f"l{number}", db=db)


SCENES = [in_one, in_the_other, in_both, plain_in_the_other, among_plain, long_queues, with_a_reserved_position]
SCENES += [reserved_positions_only, many_locks]
SWAPS = {
    "one way": ["SWAPDB 0 3"],
    "the other way": ["SWAPDB 3 0"],
    "there and back": ["SWAPDB 0 3", "SWAPDB 0 3"],
    "three times": ["SWAPDB 0 3", "SWAPDB 3 0", "SWAPDB 0 3"],
    "in a transaction": ["MULTI", "SWAPDB 0 3", "EXEC"],
    "itself": ["SWAPDB 0 0"],
    "through a third": ["SWAPDB 0 5", "SWAPDB 5 3", "SWAPDB 0 5"],
    "with an unused one": ["SWAPDB 0 15", "SWAPDB 15 0"],
}
each_scene = pytest.mark.parametrize("scene", SCENES, ids=[scene.__name__ for scene in SCENES])
each_swap = pytest.mark.parametrize("swaps", SWAPS.values(), ids=SWAPS)


def positions(server):
    """The keys of fair queues in every database."""
    return {where: there for where, there in server.dump().items() if where[1].startswith(b"lock:")}


@each_swap
@each_scene
def test_positions_are_written_where_their_waiters_are(server, scene, swaps):
    both_hold(server)
    scene(server)
    wait_mirrored(server)
    before = positions(server)
    at_once(server, *swaps)
    wait_for(lambda: positions(server) == before, what="the positions to be as before")
    assert mirrored(server)


@each_scene
def test_positions_are_written_after_each_of_several_swaps(server, scene):
    """Each swap follows when the positions have been written."""
    both_hold(server)
    scene(server)
    before = positions(server)
    for _ in range(3):
        server.control.swapdb(0, 3)
        wait_for(lambda: positions(server) == before, what="the positions to be as before")


def test_waiters_are_not_shown_in_the_database_with_the_swapped_keys(server):
    both_hold(server)
    in_one(server)
    assert at_once(server, "SWAPDB 3 0", "LOCK.INFO k", db=OTHER)[1][5] == 0
    wait_mirrored(server)
    assert (owners(server, DB), owners(server, OTHER)) == (["ob", "oc"], [])


def test_positions_moved_by_a_swap_delay_no_request(server):
    both_hold(server)
    waits = ask(server, "ob")
    newcomer = server.actor(db=OTHER)
    at_once(server, "SWAPDB 0 3", "SELECT 3", "LOCK.FORCE k")
    assert newcomer.call("LOCK.FAIR", "k", "oz", "PX", LONG) == 1
    assert newcomer.call("LOCK.RELEASE", "k", "oz") == 0
    release(server, "oa")
    assert waits.reply() == 1
    release(server, "ob")
    wait_nothing_left(server)
    assert server.dump() == {}


# Events before the drain


@pytest.mark.parametrize("db", DATABASES)
def test_request_in_the_packet_of_a_swap_queues_last(server, db):
    both_hold(server)
    in_both(server)
    before = {number: owners(server, number) for number in DATABASES}
    server.raw_connection().sendall(f"SELECT {db}\r\nSWAPDB 0 3\r\nLOCK.FAIR k late BLOCK 0\r\n".encode())
    before[db] = [*before[db], "late"]
    wait_for(lambda: {number: owners(server, number) for number in DATABASES} == before, what="it to be in the queue")
    assert mirrored(server)


def test_waiters_cancelled_in_the_packet_of_a_swap_have_no_positions(server):
    both_hold(server)
    in_both(server)
    at_once(server, "SWAPDB 0 3", *(f"LOCK.CANCEL k {owner}" for owner in ("od", "ob", "oc")))
    wait_mirrored(server)
    assert (owners(server, DB), owners(server, OTHER)) == ([], ["oc", "oe", "of"])


def test_no_position_is_left_if_the_last_waiter_leaves_with_a_swap(server):
    both_hold(server)
    b = ask(server, "ob")
    at_once(server, "SWAPDB 0 3", "LOCK.CANCEL k ob")
    assert b.reply() is None
    wait_nothing_left(server)


def test_release_in_the_transaction_of_a_swap_writes_the_positions(server):
    """As a part of it: the changes of a command are written in its transaction."""
    both_hold(server)
    b, c = ask(server, "ob"), ask(server, "oc")
    replies = at_once(server, "MULTI", "SWAPDB 0 3", "LOCK.RELEASE k oa", f"ZRANGE {QUEUE} 0 -1", "EXEC")[-1]
    assert replies[1:] == [0, ["oc"]]
    assert b.reply() == 1
    assert not c.has_reply()
    wait_mirrored(server)


def test_positions_are_written_after_a_swap_of_a_pending_swap(server):
    """By then the positions are in a third database, in which no client waits, and so are the locks."""
    both_hold(server)
    in_both(server)
    at_once(server, "SWAPDB 0 5", "SWAPDB 5 7", "SWAPDB 3 9")
    wait_mirrored(server, *DATABASES, 5, 7, 9)
    assert (owners(server, DB), owners(server, OTHER)) == (["oc", "od"], ["oe", "of"])
    assert {db for db, _ in positions(server)} == {DB, OTHER}


def test_positions_are_written_after_a_pause_that_delays_the_drain(server):
    both_hold(server)
    in_both(server)
    before = positions(server)
    at_once(server, "MULTI", "SWAPDB 0 3", f"CLIENT PAUSE {LONG} WRITE", "EXEC")
    server.settle(30)
    assert positions(server) == {(OTHER - db, key): there for (db, key), there in before.items()}
    server.control.execute_command("CLIENT", "UNPAUSE")
    wait_for(lambda: positions(server) == before, what="the positions to be as before")


def test_flush_after_a_swap_removes_only_reserved_positions(server):
    """Reserved positions of that database are flushed; positions of waiters and of other databases are kept."""
    both_hold(server)
    with_a_reserved_position(server)
    kept_in_other = ask(server, "dead too", db=OTHER)
    lose_in(server, OTHER, kept_in_other)
    at_once(server, "MULTI", "SWAPDB 0 3", "FLUSHDB", "LOCK.ACQUIRE k oa", "EXEC")
    wait_mirrored(server)
    assert (owners(server, DB), owners(server, OTHER)) == (["ob", "oc", "late"], ["dead too"])


def test_master_that_becomes_a_replica_discards_the_swap(make_server):
    old, master = make_server(lock_fair_reserve=LONG_RESERVE), make_server()
    both_hold(old)
    in_both(old)
    at_once(old, "MULTI", "SWAPDB 0 3", f"REPLICAOF 127.0.0.1 {master.port}", "EXEC")
    wait_for(lambda: old.info("lock")["lock_contended_locks"] == 0, what="all locks to be gone from memory")
    wait_for_sync(master, old)
    assert old.dump() == master.dump() == {}


# The order on other servers and after a restart


def swapped(server):
    both_hold(server)
    in_both(server)
    with_dead = ask(server, "dead")
    lose_in(server, DB, with_dead)
    wait_mirrored(server)
    before = positions(server)
    server.control.swapdb(0, 3)
    wait_for(lambda: positions(server) == before, what="the positions to be as before")
    ask(server, "late")


ORDER = {DB: ["ob", "oc", "od", "dead", "late"], OTHER: ["oc", "oe", "of"]}


def granted_in_order(server, db):
    """The owners from before return in reverse, and are granted in their order."""
    actors = {owner: ask(server, owner, db=db) for owner in reversed(ORDER[db])}
    call, before = server.client(db=db).execute_command, "oa"
    for number, owner in enumerate(ORDER[db]):
        assert not any(actors[later].has_reply() for later in ORDER[db][number:])
        assert call("LOCK.RELEASE", "k", before) == 0
        assert actors[owner].reply() == 1
        before = owner
    assert call("LOCK.RELEASE", "k", before) == 0


def assert_survived(server):
    for db in DATABASES:
        assert kept(server, db) == owners(server, db) == ORDER[db]
    assert server.info("lock")["lock_waiters"] == 0
    for db in DATABASES:
        granted_in_order(server, db)
    wait_nothing_left(server)
    assert server.dump() == {}


def test_order_after_a_swap_is_kept_after_a_crash(make_server):
    server = make_server(appendonly="yes", appendfsync="always", lock_fair_reserve=LONG_RESERVE)
    swapped(server)
    server.kill()
    assert_survived(server.start())


def test_order_after_a_swap_is_kept_after_a_promotion(make_server):
    server = make_server(lock_fair_reserve=LONG_RESERVE)
    replica = server.start_replica(lock_fair_reserve=LONG_RESERVE)
    swapped(server)
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()
    replica.control.replicaof("NO", "ONE")
    assert_survived(replica)


@each_scene
def test_replica_has_the_masters_data_after_swaps(make_server, scene):
    server = make_server(lock_fair_reserve=LONG_RESERVE)
    replica = server.start_replica()
    both_hold(server)
    scene(server)
    before = positions(server)
    for commands in SWAPS.values():
        at_once(server, *commands)
        wait_for(lambda: positions(server) == before, what="the positions to be as before")
        wait_for_sync(server, replica)
        assert replica.dump() == server.dump()
