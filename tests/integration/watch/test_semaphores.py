"""Watches of permits: LOST when the owner has lost the last one, also by its own lease; WANTED when a client waits."""

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
    FORCE_releases_all_permits=[
        takes("a", 5),
        takes("b", 5, 2),
        watching("w"),
        watching("v", "ob"),
        ("z", "LOCK.FORCE k", 1),
        ("w", answered("LOST")),
        ("v", answered("LOST")),
    ],
    direct_HDEL=[
        takes("a", 5),
        takes("b", 5),
        watching("w"),
        watching("v", "ob"),
        ("z", "HDEL k oa", 1),
        ("w", answered("LOST")),
        ("v", STILL_BLOCKED),
    ],
    direct_HINCRBY=[
        takes("a", 5, 2),
        watching("w"),
        ("z", "HINCRBY k oa -1", 1),
        ("w", STILL_BLOCKED),
        ("z", "HINCRBY k oa -1", 0),
        ("w", answered("LOST")),
    ],
    direct_DEL_of_the_leases=[
        takes("a", 5),
        takes("b", 5),
        watching("w"),
        ("z", "DEL lock:lease:{k}", 1),
        ("w", STILL_BLOCKED),
        ("z", f"PEXPIRE k {SHORT}", 1),
        ("w", answered("LOST")),
    ],
    a_lock_that_replaces_it=[
        takes("a", 1),
        watching("w"),
        ("b", "LOCK.ACQUIRE k ob BLOCK 0", BLOCKS),
        releases("a"),
        ("b", answered(1)),
        ("w", answered("LOST")),
    ],
)

WANTED = dict(
    by_a_waiter_for_permits=[
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
    not_by_a_request_that_is_granted=[
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
    by_a_waiter_for_a_lock_of_that_name=[
        takes("a", 9),
        watching("w", wanted="WANTED"),
        ("b", "LOCK.RWREAD k ob BLOCK 0", BLOCKS),
        ("w", answered("WANTED")),
    ],
    of_a_lock_by_a_waiter_for_permits=[
        ("a", f"LOCK.ACQUIRE k oa PX {LONG}", 1),
        watching("w", wanted="WANTED"),
        waits("b", 9),
        ("w", answered("WANTED")),
    ],
    of_a_permit_that_was_handed_off=[
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
    readers_by_an_upgrade_of_one_of_them=[
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
def test_watch_of_permits_receives_lost(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


@schedules(**WANTED)
def test_watch_of_permits_receives_wanted(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


def take(server, owner, permits=1, lease=HOUR):
    words = ("LOCK.SEMAPHORE", "k", owner, 9, "PERMITS", permits, "PX", lease)
    assert server.control.execute_command(*words) == permits


# Leases


@pytest.mark.parametrize("shortened", [False, True], ids=["as acquired", "by RENEW"])
def test_only_the_watch_of_the_owner_that_expired_receives_lost(server, no_active_expiry, shortened):
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


def test_watch_follows_a_lease_that_is_extended(server, no_active_expiry):
    take(server, "o", 1, scaled_ms(600))
    take(server, "p")
    end = server.control.execute_command("ZSCORE", "lock:lease:{k}", "o")
    watcher = watches(server, "o")
    assert server.control.execute_command("LOCK.SEMAPHORE", "k", "o", 9, "PX", HOUR) == 2
    wait_for(lambda: server.now_ms() > end, 10, "the old end to pass")
    server.settle(30)
    assert not watcher.has_reply() and watcher.is_blocked()


def test_expired_permits_are_notified_and_handed_off(server, actor, no_active_expiry):
    take(server, "o", 5, scaled_ms(1500))
    take(server, "p", 4)
    watcher, other, waiter = watches(server, "o", "WANTED"), watches(server, "p"), actor()
    waiter.send("LOCK.SEMAPHORE", "k", "q", 9, "PERMITS", 5, "PX", HOUR, "BLOCK", 0)
    waiter.wait_blocked()
    assert watcher.reply() == "WANTED"
    again = watches(server, "o")
    assert (waiter.reply(timeout=10), again.reply(timeout=10)) == (5, "LOST")
    assert not other.has_reply()


def test_watch_of_an_expired_hold_changes_nothing(make_server):
    """The expired hold is still in the keys, on the master and on its replica, and counts for no owner."""
    master = make_server()
    replica = master.start_replica()
    for server in (master, replica):
        server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    for owner, lease in (("p", HOUR), ("q", HOUR), ("o", 20)):  # the key must outlive the lease of o
        take(master, owner, 2, lease)
    end = int(master.control.zscore("lock:lease:{k}", "o"))
    wait_for(lambda: master.now_ms() > end, what="the lease to expire")
    wait_for_sync(master, replica)
    before = master.dump()
    assert "o" in master.control.hkeys("k")
    for server in (replica, master):
        replies = [server.control.execute_command("LOCK.WATCH", "k", owner) for owner in ("o", "p", "other", "o")]
        assert replies == ["LOST", None, "LOST", "LOST"]
        assert permits_of(server) == {"p": 2, "q": 2}
        assert server.dump() == before
    wait_for_sync(master, replica)
    assert replica.dump() == before
    take(master, "r", 5)  # all permits that it needs are available


def test_promoted_replica_notifies_expired_leases(make_server):
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


def test_end_of_a_session_is_a_loss_of_all_its_permits(server, actor):
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


def test_permits_of_a_lost_reply_are_lost_for_a_watch(server, actor, at_once):
    take(server, "a", 9)
    waiter = actor()
    waiter.send("LOCK.SEMAPHORE", "k", "b", 9, "PERMITS", 2, "PX", HOUR, "BLOCK", 0)
    waiter.wait_blocked()
    at_once("LOCK.RELEASE k a PERMITS 3", f"CLIENT KILL ID {waiter.client_id}")
    words = ("LOCK.WATCH", "k", "b", "BLOCK", 0)
    assert actor().call(*words) == "LOST"
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
    wait_for(lambda: watchers(server) == 0, what="the watch to end")
    assert as_map(actor().call("LOCK.INFO", "k"))["watchers"] == 0
