"""Watches of permits: LOST with the last of them, by the owner's own lease; WANTED by who waits for some."""

import pytest

from harness import scaled_ms, wait_for, wait_for_sync
from harness.schedule import BLOCKS, STILL_BLOCKED, answered, as_map, error, run_schedule, schedules
from model.semaphore_scene import LONG, permits_of, releases, takes, waits
from model.watch_scene import HOUR, watchers, watches

SHORT = scaled_ms(60)


def watching(name, owner="oa", wanted=""):
    return (name, f"LOCK.WATCH k {owner} {wanted} BLOCK 0", BLOCKS)


LOSSES = dict(
    the_last_of_several_permits=[
        takes("a", 5, 3),
        watching("w"),
        releases("a", 1, 2),
        ("w", STILL_BLOCKED),
        takes("a", 5, 2, now=3),
        ("a", "LOCK.RELEASE k oa PERMITS 4", error("NOTHELD")),
        ("w", STILL_BLOCKED),
        ("a", "LOCK.MRELEASE 1 k oa", 0),
        ("w", STILL_BLOCKED),
        releases("a", 0, 2),
        ("w", answered("LOST")),
    ],
    only_the_owner_that_has_none_left=[
        takes("a", 5),
        takes("b", 5, 2),
        watching("w"),
        watching("v", "ob"),
        releases("a"),
        ("w", answered("LOST")),
        ("v", STILL_BLOCKED),
        releases("b", 1),
        ("v", STILL_BLOCKED),
        releases("b"),
        ("v", answered("LOST")),
    ],
    FORCE_takes_them_from_all=[
        takes("a", 5),
        takes("b", 5, 2),
        watching("w"),
        watching("v", "ob"),
        ("z", "LOCK.FORCE k", 1),
        ("w", answered("LOST")),
        ("v", answered("LOST")),
    ],
    HDEL_by_hand=[
        takes("a", 5),
        takes("b", 5),
        watching("w"),
        watching("v", "ob"),
        ("z", "HDEL k oa", 1),
        ("w", answered("LOST")),
        ("v", STILL_BLOCKED),
    ],
    HINCRBY_by_hand=[
        takes("a", 5, 2),
        watching("w"),
        ("z", "HINCRBY k oa -1", 1),
        ("w", STILL_BLOCKED),
        ("z", "HINCRBY k oa -1", 0),
        ("w", answered("LOST")),
    ],
    the_leases_by_hand=[
        takes("a", 5),
        takes("b", 5),
        watching("w"),
        ("z", "DEL lock:lease:{k}", 1),
        ("w", STILL_BLOCKED),
        ("z", f"PEXPIRE k {SHORT}", 1),
        ("w", answered("LOST")),
    ],
    a_lock_in_its_place=[
        takes("a", 1),
        watching("w"),
        ("b", "LOCK.ACQUIRE k ob BLOCK 0", BLOCKS),
        releases("a"),
        ("b", answered(1)),
        ("w", answered("LOST")),
    ],
)

WANTED = dict(
    by_who_waits_for_permits=[
        takes("a", 3, 2),
        takes("b", 3),
        watching("w", wanted="WANTED"),
        watching("v", "ob", "WANTED"),
        watching("u"),
        waits("c", 3),
        ("w", answered("WANTED")),
        ("v", answered("WANTED")),
        ("u", STILL_BLOCKED),
        ("w", "LOCK.WATCH k oa WANTED", "WANTED"),
        releases("a", 1),
        ("c", answered(1)),
        ("w", "LOCK.WATCH k oa WANTED", None),
    ],
    not_by_who_gets_them=[
        takes("a", 3),
        watching("w", wanted="WANTED"),
        takes("b", 3),
        ("c", "LOCK.SEMAPHORE k oc 2", None),
        waits("d", 2),
        ("w", answered("WANTED")),
    ],
    not_by_its_own_owner=[
        takes("a", 2),
        takes("b", 2),
        watching("w", wanted="WANTED"),
        watching("v", "ob", "WANTED"),
        waits("c", 2, owner="oa"),
        ("v", answered("WANTED")),
        ("w", STILL_BLOCKED),
        waits("d", 2),
        ("w", answered("WANTED")),
    ],
    by_who_waits_for_a_lock_of_that_name=[
        takes("a", 9),
        watching("w", wanted="WANTED"),
        ("b", "LOCK.RWREAD k ob BLOCK 0", BLOCKS),
        ("w", answered("WANTED")),
    ],
    of_a_lock_by_who_waits_for_permits=[
        ("a", f"LOCK.ACQUIRE k oa PX {LONG}", 1),
        watching("w", wanted="WANTED"),
        waits("b", 9),
        ("w", answered("WANTED")),
    ],
    of_what_was_handed_off=[
        takes("a", 1),
        waits("b", 1),
        waits("c", 1),
        ("w", "LOCK.WATCH k oa WANTED", "WANTED"),
        releases("a"),
        ("b", answered(1)),
        ("w", "LOCK.WATCH k oa WANTED", "LOST"),
        ("w", "LOCK.WATCH k ob WANTED", "WANTED"),
    ],
    a_writer_by_a_reader=[
        ("a", f"LOCK.RWWRITE k oa PX {LONG}", 1),
        ("a", f"LOCK.RWREAD k oa PX {LONG}", 1),
        watching("w", wanted="WANTED"),
        ("b", "LOCK.RWREAD k ob BLOCK 0", BLOCKS),
        ("w", answered("WANTED")),
        watching("w"),
        ("a", "LOCK.RELEASE k oa WRITE", 0),
        ("b", answered(1)),
        ("w", STILL_BLOCKED),
        ("a", "LOCK.RELEASE k oa", 0),
        ("w", answered("LOST")),
    ],
    readers_by_one_of_them_that_is_to_write=[
        ("a", f"LOCK.RWREAD k oa PX {LONG}", 1),
        ("b", f"LOCK.RWREAD k ob PX {LONG}", 1),
        watching("w", wanted="WANTED"),
        watching("v", "ob", "WANTED"),
        ("a", "LOCK.RWWRITE k oa BLOCK 0", BLOCKS),
        ("v", answered("WANTED")),
        ("b", "LOCK.RELEASE k ob", 0),
        ("a", answered(1)),
        ("w", STILL_BLOCKED),
        ("z", "LOCK.FORCE k", 1),
        ("w", answered("LOST")),
    ],
)


@schedules(**LOSSES)
def test_lost(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


@schedules(**WANTED)
def test_wanted(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


def take(server, owner, permits=1, lease=HOUR):
    words = ("LOCK.SEMAPHORE", "k", owner, 9, "PERMITS", permits, "PX", lease)
    assert server.control.execute_command(*words) == permits


# Leases


@pytest.mark.parametrize("shortened", [False, True], ids=["as taken", "by RENEW"])
def test_each_owner_has_its_own_end(server, no_active_expiry, shortened):
    take(server, "o", 2, HOUR if shortened else scaled_ms(600))
    take(server, "p", 3)
    first, second = watches(server, "o"), watches(server, "p")
    if shortened:
        assert server.control.execute_command("LOCK.RENEW", "k", "o", "PX", SHORT) == 2
    assert first.reply(timeout=10) == "LOST"
    server.settle()
    assert not second.has_reply()
    assert server.control.execute_command("LOCK.RENEW", "k", "p", "PX", SHORT) == 3
    assert second.reply(timeout=10) == "LOST"


def test_lease_that_was_made_longer(server, no_active_expiry):
    take(server, "o", 1, scaled_ms(600))
    take(server, "p")
    end = server.control.execute_command("ZSCORE", "lock:lease:{k}", "o")
    watcher = watches(server, "o")
    assert server.control.execute_command("LOCK.SEMAPHORE", "k", "o", 9, "PX", HOUR) == 2
    wait_for(lambda: server.now_ms() > end, 10, "the old end to pass")
    server.settle(30)
    assert not watcher.has_reply() and watcher.is_blocked()


def test_end_is_told_and_handed_off(server, actor, no_active_expiry):
    take(server, "o", 5, scaled_ms(1500))
    take(server, "p", 4)
    watcher, other, waiter = watches(server, "o", "WANTED"), watches(server, "p"), actor()
    waiter.send("LOCK.SEMAPHORE", "k", "q", 9, "PERMITS", 5, "PX", HOUR, "BLOCK", 0)
    waiter.wait_blocked()
    assert watcher.reply() == "WANTED"
    again = watches(server, "o")
    assert (waiter.reply(timeout=10), again.reply(timeout=10)) == (5, "LOST")
    assert not other.has_reply()


def test_question_about_what_is_over_changes_nothing(make_server):
    """It is in the keys still, on the master and on its replica, and nobody's."""
    master = make_server()
    replica = master.start_replica()
    for server in (master, replica):
        server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    for owner, lease in (("p", HOUR), ("q", HOUR), ("o", 20)):  # whose key is to outlive its lease
        take(master, owner, 2, lease)
    end = int(master.control.zscore("lock:lease:{k}", "o"))
    wait_for(lambda: master.now_ms() > end, what="the lease to end")
    wait_for_sync(master, replica)
    before = master.dump()
    assert "o" in master.control.hkeys("k")
    for server in (replica, master):
        asked = [server.control.execute_command("LOCK.WATCH", "k", owner) for owner in ("o", "p", "other", "o")]
        assert asked == ["LOST", None, "LOST", "LOST"]
        assert permits_of(server) == {"p": 2, "q": 2}
        assert server.dump() == before
    wait_for_sync(master, replica)
    assert replica.dump() == before
    take(master, "r", 5)  # and all that it needs is there


def test_promoted_replica_tells_whose_lease_has_ended(make_server):
    master = make_server()
    replica = master.start_replica()
    take(master, "o", 1, scaled_ms(3000))
    take(master, "p", 2)
    wait_for_sync(master, replica)
    master.kill()
    replica.control.replicaof("NO", "ONE")
    first, second = watches(replica, "o"), watches(replica, "p")
    assert first.reply(timeout=20) == "LOST"
    replica.settle()
    assert not second.has_reply()


# Sessions


def test_session_that_ends_loses_all_permits_of_its_owner(server, actor):
    server.control.config_set("lock.session-grace", 1)
    session = actor("session")
    for count in (1, 2):
        assert session.call("LOCK.SEMAPHORE", "k", "o", 9, "SESSION") == count
    take(server, "p")
    first, second = watches(server, "o"), watches(server, "p")
    session.kill_socket()
    assert first.reply() == "LOST"
    server.settle()
    assert not second.has_reply()


def test_permits_that_a_dead_client_never_heard_of_are_lost_for_its_watch(server, actor, at_once):
    take(server, "a", 9)
    waiter = actor()
    waiter.send("LOCK.SEMAPHORE", "k", "b", 9, "PERMITS", 2, "PX", HOUR, "BLOCK", 0)
    waiter.wait_blocked()
    at_once("LOCK.RELEASE k a PERMITS 3", f"CLIENT KILL ID {waiter.client_id}")
    asked = ("LOCK.WATCH", "k", "b", "BLOCK", 0)
    assert actor().call(*asked) == "LOST"
    assert permits_of(server) == {"a": 6}


# LOCK.INFO


def test_info_counts_the_watches_of_a_semaphore(server, actor):
    take(server, "o", 2)
    take(server, "p")
    first, second = watches(server, "o"), watches(server, "p", "WANTED")
    info = as_map(actor().call("LOCK.INFO", "k"))
    assert (info["mode"], info["watchers"], info["waiting"]) == ("semaphore", 2, 0)
    assert server.control.execute_command("LOCK.RELEASE", "k", "p") == 0
    assert second.reply() == "LOST"
    assert as_map(actor().call("LOCK.INFO", "k"))["watchers"] == 1
    first.close()
    wait_for(lambda: watchers(server) == 0, what="the watch to go")
    assert as_map(actor().call("LOCK.INFO", "k"))["watchers"] == 0
