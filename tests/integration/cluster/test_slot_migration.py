"""Whole slots that the servers move by themselves: Valkey from 9.0 on, Redis from 8.4 on.

Unlike with MIGRATE, all keys of a slot move at one moment, with their databases.
"""

from itertools import count

import pytest

from harness import scaled, scaled_ms, wait_for
from harness.cluster import ClusterClient
from harness.schedule import as_map
from model.cluster_scene import LONG, Scene, make_nodes, is_moved
from model.delay_scene import HOUR, delivered, fall_due, pending, push, queues, stuck, wait_delivered
from model.resharding import SLOTS, Workers
from model.whole_slots import begin_move, can_move_slots, move

pytestmark = pytest.mark.newest
SHORT = scaled_ms(900)


@pytest.fixture
def nodes(make_server):
    """As in conftest.py, with several databases if a cluster can have them (Valkey from 9.0 on)."""
    server = make_server()
    if not can_move_slots(server):
        pytest.skip("this server cannot move slots by itself")
    return make_nodes(make_server, **({"cluster_databases": 4} if server.is_valkey else {}))


def databases(nodes):
    return range(4) if nodes[0].server.is_valkey else range(1)


WAYS = ("ACQUIRE", "FAIR", "RWREAD", "RWWRITE", "MACQUIRE")


def words(way, key, owner, *rest):
    numkeys = (1,) if way == "MACQUIRE" else ()
    return ("LOCK." + way, *numkeys, key, owner, *rest)


@pytest.mark.parametrize("way", WAYS)
def test_waiters_are_redirected_when_their_lock_moves(nodes, key, way):
    """They receive MOVED, and when they repeat the request there they wait for the same holder."""
    one, two = nodes
    name, slot = key
    a, b = one.server.actor("a"), one.server.actor("b")
    held = "LOCK.RWWRITE" if way.startswith("RW") else "LOCK.ACQUIRE"
    assert a.call(held, name, "oa", "PX", LONG) == 1
    ask = words(way, name, "ob", "PX", LONG, "BLOCK", 0)
    b.send(*ask)
    b.wait_blocked()
    move(slot, one, two)
    assert is_moved(slot, two)(b.outcome(timeout=5))
    info = one.server.info("lock")
    assert (info["lock_waiters"], info["lock_contended_locks"]) == (0, 0)
    a, b = two.server.actor("a"), two.server.actor("b")
    b.send(*ask)
    b.wait_blocked()
    assert a.call("LOCK.RELEASE", name, "oa") == 0
    assert b.reply() == 1
    release = "LOCK.MRELEASE" if way == "MACQUIRE" else "LOCK.RELEASE"
    assert isinstance(b.call(*((release, 1) if way == "MACQUIRE" else (release,)), name, "ob"), int)
    wait_for(lambda: not one.server.dump(), 20, "the first node to be empty")


def test_position_in_the_fair_queue_moves_with_the_slot(nodes, key):
    one, two = nodes
    name, slot = key
    for node in nodes:
        node.server.control.config_set("lock.fair-reserve", LONG)
    a, b = one.server.actor("a"), one.server.actor("b")
    assert a.call("LOCK.ACQUIRE", name, "oa", "PX", LONG) == 1
    b.send("LOCK.FAIR", name, "ob", "BLOCK", 0)
    b.wait_blocked()
    move(slot, one, two)
    assert is_moved(slot, two)(b.outcome(timeout=5))
    c = two.server.actor("c")
    assert c.call("LOCK.RELEASE", name, "oa") == 0
    assert c.call("LOCK.FAIR", name, "oc") is None
    assert c.call("LOCK.FAIR", name, "ob", "PX", LONG) == 1


def test_session_of_a_lock_that_has_moved_ends(nodes, key):
    """Its lease expires on the new node; the old node does not write the key again."""
    one, two = nodes
    name, slot = key
    one.server.control.config_set("lock.default-lease", SHORT)
    one.server.control.config_set("lock.session-grace", 10)
    a = one.server.actor("a")
    assert a.call("LOCK.ACQUIRE", name, "oa", "SESSION") == 1
    move(slot, one, two)
    wait_for(lambda: not two.server.dump(), scaled(SHORT / 1000 + 10), "the lease to end")
    a.close()
    wait_for(lambda: one.server.info("lock")["lock_sessions"] == 0, 10, "the session to end")
    one.server.settle(300)
    assert not one.server.dump()


def test_readers_keep_their_leases(nodes, key):
    one, two = nodes
    name, slot = key
    a = one.server.actor("a")
    assert a.call("LOCK.RWREAD", name, "oa", "PX", LONG) == 1
    assert a.call("LOCK.RWREAD", name, "ob", "PX", 2 * LONG) == 1
    before = one.server.dump()
    move(slot, one, two)
    assert two.server.dump() == before


def test_waiters_are_redirected_when_a_slot_moves_there_and_back(nodes, key):
    one, two = nodes
    name, slot = key
    scene = Scene(one, name)
    move(slot, one, two)
    scene.both_receive(is_moved(slot, two))
    b = two.server.actor("b")
    b.send("LOCK.ACQUIRE", name, "ob", "BLOCK", 0)
    b.wait_blocked()
    move(slot, two, one)
    assert is_moved(slot, one)(b.outcome(timeout=5))
    a = one.server.actor("a")
    assert as_map(a.call("LOCK.INFO", name))["waiting"] == 0
    assert a.call("LOCK.RELEASE", name, "oa") == 0


def test_one_name_in_several_databases_is_several_locks(nodes, key):
    one, two = nodes
    name, slot = key
    waiters = {}
    for db in databases(nodes):
        assert one.server.actor(db=db).call("LOCK.ACQUIRE", name, f"o{db}", "PX", LONG) == 1
        waiters[db] = one.server.actor(db=db)
        waiters[db].send("LOCK.FAIR", name, "w", "PX", LONG, "BLOCK", 0)
        waiters[db].wait_blocked()
    assert one.server.actor().call("LOCK.RELEASE", name, "o0") == 0
    assert waiters.pop(0).reply() == 1
    before = {place: entry for place, entry in one.server.dump().items() if place[1] == name.encode()}
    move(slot, one, two)
    for waiter in waiters.values():
        assert is_moved(slot, two)(waiter.outcome(timeout=5))
    after = two.server.dump()
    assert {place: after[place] for place in before} == before
    for db in databases(nodes):
        assert two.server.actor(db=db).call("LOCK.FORCE", name) == 1


def test_slots_with_a_thousand_locks_in_use_move_back_and_forth(nodes):
    """As in test_resharding.py. No client receives TRYAGAIN for long: the old node serves a slot until the end."""
    with Workers(nodes[0]) as workers:
        for number in range(10):
            source, target = nodes[number % 2], nodes[(number + 1) % 2]
            move(0, source, target, last=SLOTS - 1)
            workers.wait_progress()
        found = workers.redirections()
    workers.all_run()
    assert found["MOVED"], found
    assert [node.server.info("lock")["lock_waiters"] for node in nodes] == [0, 0]


# The delayed queue. No client ever sends a command of it to the new owner.


def test_new_owner_delivers(nodes, key):
    one, two = nodes
    name, slot = key
    there = two.server.control
    one.server.control.set(name, "no list")
    for id_ in ("b", "a", "later"):
        push(one.server.control, id_, HOUR, name=name)
    push(one.server.control, "soon", scaled_ms(1500), name=name)
    fall_due(one.server.control, "a", "b", name=name)
    wait_for(lambda: stuck(one.server) == 2, what="the overdue ones to be tried")
    move(slot, one, two)
    there.delete(name)
    wait_delivered(there, "va", "vb", "vsoon", name=name)
    assert pending(there, name) == ["later"]
    wait_for(lambda: (queues(one.server), queues(two.server)) == (0, 1), what="the first node to remove it from memory")
    fall_due(there, "later", name=name)
    wait_delivered(there, "va", "vb", "vsoon", "vlater", name=name)
    wait_for(lambda: not one.server.dump(), 20, "the first node to be empty")


def test_new_owner_delivers_in_each_database(nodes, key):
    one, two = nodes
    name, slot = key
    for db in databases(nodes):
        push(one.server.client(db=db), "a", HOUR, f"of {db}", name=name)
    move(slot, one, two)
    for db in databases(nodes):
        there = two.server.client(db=db)
        fall_due(there, "a", name=name)
        wait_delivered(there, f"of {db}", name=name)


def test_elements_that_are_due_during_the_move_are_delivered_once(nodes, key):
    """The slot moves back and forth, and elements are pushed to the node that serves it; all have the same delay.

    On some servers a move takes only some ms: the test continues until each node has delivered an element.
    """
    one, two = nodes
    name, slot = key
    client, pushed = ClusterClient(one.server.port), []
    for number in count():
        both = all(node.server.info("lock")["lock_delay_delivered"] for node in nodes)
        if number >= 6 and number % 2 == 0 and both:
            break
        source, target = nodes[number % 2], nodes[(number + 1) % 2]
        has_ended = begin_move(slot, source, target)
        while not (has_ended() and all(node.port_of(slot) == target.server.port for node in nodes)):
            for _ in range(20):
                pushed.append(str(len(pushed)))
                client.call(name, "DELAY.PUSH", name, pushed[-1], 50, pushed[-1])
    client.close()
    here = one.server.control
    wait_for(lambda: len(delivered(here, name)) >= len(pushed), 20, "all to be delivered")
    assert delivered(here, name) == pushed
    wait_for(lambda: (queues(one.server), queues(two.server)) == (0, 0), what="the queue to be gone from both nodes")
