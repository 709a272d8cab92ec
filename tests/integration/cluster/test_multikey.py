"""Several keys at once in a cluster: they are of one slot, and who waits for them goes where it goes."""

import random
from itertools import product

import pytest

from harness import code_of, wait_for
from harness.schedule import as_map
from model.cluster_scene import LONG, begin_move, is_redirection, migrate, says_moved
from model.keys_scene import PLACES, begin_move_of, each_way, refusal
from model.moving_scene import call_off, contents, ends_of, names_of
from model.server_scene import says_nothing_of_its_own


@pytest.fixture
def names(key):
    """Three keys of one slot of the first node's."""
    return [f"{{{key[0]}}}{suffix}" for suffix in ("", "x", "y")]


def waits_for(node, names, owner):
    waiter = node.server.actor(owner)
    waiter.send("LOCK.MACQUIRE", len(names), *names, owner, "PX", LONG, "BLOCK", 0)
    return waiter.wait_blocked()


def knows_of(node):
    info = node.server.info("lock")
    return info["lock_waiters"], info["lock_contended_locks"]


def test_keys_of_one_slot(nodes, names):
    one, _ = nodes
    assert one.actor.call("LOCK.MACQUIRE", 3, *names, "oa") == 3
    b = waits_for(one, names[::-1], "ob")
    assert one.actor.call("LOCK.MRELEASE", 3, *names, "oa") == 3
    assert b.reply() == 3


def test_keys_of_several_slots_are_refused(nodes, names):
    one, _ = nodes
    others = [name for name in map(str, range(1000)) if one.cluster("KEYSLOT", name) < 8000][:2]
    for words in (("LOCK.MACQUIRE", 2, *others, "o"), ("LOCK.MACQUIRE", 2, *others, "o", "BLOCK", 0)):
        assert code_of(one.actor.attempt(*words)) == "CROSSSLOT"
    assert code_of(one.actor.attempt("LOCK.MRELEASE", 2, *others, "o")) == "CROSSSLOT"
    assert one.actor.call("DBSIZE") == 0


@each_way
@pytest.mark.parametrize("command", ["LOCK.MACQUIRE", "LOCK.MRELEASE"])
def test_keys_of_several_slots_are_refused_however_they_are_sent(nodes, names, way, command):
    """A server may look at the first key only: Redis 8.6 looks at all."""
    one, _ = nodes
    one.actor.call("LOCK.MACQUIRE", 3, *names, "o", "PX", LONG)
    before = one.server.dump()
    for other in ("{other}", "{one}", "{more}"):
        for words in ([*names, other], [names[0], other, *names[1:]]):
            assert code_of(way(one.actor, names[0], command, len(words), *words, "o")) == "CROSSSLOT"
    assert one.server.dump() == before
    assert way(one.actor, names[0], command, 3, *names, "o") == 3


@pytest.mark.parametrize("command", ["LOCK.MACQUIRE", "LOCK.MRELEASE"])
def test_while_the_slot_moves_all_keys_have_to_be_at_one_end(nodes, command):
    """Either end answers as it answers EXISTS of all keys; a server that looks at the first only may send it to that one."""
    for tag, places in zip(names_of(nodes[0]), product(PLACES, repeat=2), strict=False):
        locks = [f"{{{tag}}}{name}" for name in "ab"]
        slot, ends = nodes[0].cluster("KEYSLOT", tag), ends_of(nodes)
        for name in [name for name, place in zip(locks, places, strict=True) if place != "nowhere"]:
            assert nodes[0].actor.call("LOCK.ACQUIRE", name, "o", "PX", LONG) == 1
        begin_move_of(nodes, slot, dict(zip(locks, places, strict=True)))
        for end in ends:
            before, expected = contents(ends, slot), refusal(end.attempt("EXISTS", *locks))
            heard = end.attempt(command, 3, *locks, locks[0], "o")
            if places[0] != "source" and not end.asks:
                assert refusal(heard) in (expected, "ASK"), (places, heard)
            else:
                assert refusal(heard) == expected, (places, end.asks, heard)
                assert expected or heard == 2
            assert not expected or contents(ends, slot) == before
        call_off(nodes, slot)


def test_keys_of_another_node_are_moved(nodes, key, names):
    one, two = nodes
    for words in (("LOCK.MACQUIRE", 3, *names, "o", "BLOCK", 0), ("LOCK.MRELEASE", 3, *names, "o")):
        assert says_moved(key[1], one)(two.actor.attempt(*words))


def test_cycle_is_refused(nodes, names):
    one, _ = nodes
    k, x, y = names
    b = one.server.actor("b")
    assert one.actor.call("LOCK.ACQUIRE", k, "oa") == 1
    assert b.call("LOCK.ACQUIRE", x, "ob") == 1
    waits_for(one, [y, x], "oa")
    assert str(b.attempt("LOCK.ACQUIRE", k, "ob", "BLOCK", 0)) == (
        f"DEADLOCK ob waits for {k} held by oa, oa waits for {x} held by ob"
    )


def test_slot_that_another_node_takes_over_takes_its_waiters_along(nodes, key, names):
    one, two = nodes
    one.actor.call("LOCK.ACQUIRE", names[1], "oa")
    waiters = [waits_for(one, names, owner) for owner in ("ob", "oc")]
    two.cluster("SETSLOT", key[1], "IMPORTING", one.id)
    two.cluster("SETSLOT", key[1], "NODE", two.id)
    wait_for(lambda: one.port_of(key[1]) == two.server.port, 20, "the first node to hear of it")
    for waiter in waiters:
        assert says_moved(key[1], two)(waiter.outcome())
        assert waiter.call("PING") == "PONG"
    assert knows_of(one) == (0, 0)
    assert two.actor.call("LOCK.MACQUIRE", 3, *names, "ob") == 3


def test_one_key_that_is_migrated_sends_its_waiters_on(nodes, key, names):
    """The others of them may be here still, or nowhere: each waiter is granted all, or sent away, once."""
    one, two = nodes
    one.actor.call("LOCK.MACQUIRE", 2, *names[:2], "oa", "PX", LONG)
    waiters = [waits_for(one, names, owner) for owner in ("ob", "oc")]
    begin_move(key[1], one, two)
    migrate(names[1], one, two)
    for waiter in waiters:
        heard = waiter.outcome(timeout=10)
        assert is_redirection(heard), heard
        assert waiter.call("PING") == "PONG"
    assert knows_of(one) == (0, 0)
    for node in nodes:
        node.cluster("SETSLOT", key[1], "STABLE")
    assert as_map(one.actor.call("LOCK.INFO", names[0]))["waiting"] == 0


def test_move_in_which_the_held_key_is_freed_leaves_nobody_hanging(nodes, key, names):
    one, two = nodes
    one.actor.call("LOCK.ACQUIRE", names[2], "oa", "PX", LONG)
    waiters = {owner: waits_for(one, names, owner) for owner in ("ob", "oc")}
    begin_move(key[1], one, two)
    one.actor.call("LOCK.RELEASE", names[2], "oa")
    for owner, waiter in waiters.items():
        heard = waiter.outcome(timeout=10)
        if heard == 3:
            assert one.actor.call("LOCK.MRELEASE", 3, *names, owner) == 3
        else:
            assert is_redirection(heard), heard
    assert knows_of(one) == (0, 0)


def test_key_that_another_node_has_given_away_is_not_granted_here(nodes, key, names):
    """A key that is free and absent here is the other node's while its slot moves there."""
    one, two = nodes
    one.actor.call("LOCK.ACQUIRE", names[2], "oa", "PX", LONG)
    waiter = waits_for(one, names, "ob")
    begin_move(key[1], one, two)
    two.actor.call("ASKING")
    assert two.actor.call("LOCK.ACQUIRE", names[0], "oc", "PX", LONG) == 1
    one.actor.call("LOCK.RELEASE", names[2], "oa")
    heard = waiter.outcome(timeout=10)
    assert is_redirection(heard), heard
    assert one.actor.call("DBSIZE") == 0


def asked_in(node, command):
    """How many keys the node asks itself for whether it may write them, within this command. Redis 7.0 shows it."""
    pipeline = node.server.control.pipeline(transaction=True)
    for words in (("INFO", "commandstats"), command, ("INFO", "commandstats")):
        pipeline.execute_command(*words)
    before, _, after = pipeline.execute()
    return after["cmdstat_pexpireat"]["calls"] - before.get("cmdstat_pexpireat", {"calls": 0})["calls"]


@pytest.mark.parametrize("order", ["forwards", "backwards", "at random"])
def test_release_looks_at_the_key_that_is_in_the_way(nodes, key, order):
    """Of however many. Each key is looked at about once for all the keys that come free, not once for each of these."""
    one, _ = nodes
    if says_nothing_of_its_own(one.server):
        pytest.skip("this server does not show for which keys the module asks it")
    many = [f"{{{key[0]}}}{i}" for i in range(100)]
    assert one.actor.call("LOCK.MACQUIRE", len(many), *many, "oa", "PX", LONG) == len(many)
    waiter = waits_for(one, many, "ob")
    shuffled = random.Random(1).sample(many, len(many))
    gone = {"forwards": many, "backwards": many[::-1], "at random": shuffled}[order][:-1]
    asked = sum(asked_in(one, ("LOCK.RELEASE", name, "oa")) for name in gone)
    # At each release one that is in the way; and each once that has come free.
    assert len(gone) // 2 < asked <= 2 * len(many)
    assert not waiter.has_reply()
    [last] = set(many) - set(gone)
    assert one.actor.call("LOCK.RELEASE", last, "oa") == 0
    assert waiter.reply() == len(many)
