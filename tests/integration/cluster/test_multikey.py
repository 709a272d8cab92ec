"""Several keys at once in a cluster: they must be in one slot, and their waiters are redirected when it moves."""

import random
from itertools import count, product

import pytest
from redis.crc import key_slot

from harness import code_of, wait_for
from harness.schedule import as_map
from model.cluster_scene import LONG, begin_move, is_redirection, migrate, is_moved
from model.keys_scene import PLACES, begin_move_of, each_way, refusal
from model.moving_scene import TRY_AGAIN, assert_nothing_twice, call_off, contents, ends_of, finish_move, keys_in
from model.moving_scene import names_of, side
from model.server_scene import module_sends_no_commands

READS_ABOVE = ("MODES", "READ", "READ", "WRITE")
# After the owner of a request for three keys.
each_kind = pytest.mark.parametrize("kind", [(), READS_ABOVE], ids=["plain", "modes"])


@pytest.fixture
def names(key):
    """Three keys in one slot of the first node."""
    return [f"{{{key[0]}}}{suffix}" for suffix in ("", "x", "y")]


def waits_for(node, names, owner, kind=()):
    waiter = node.server.actor(owner)
    waiter.send("LOCK.MACQUIRE", len(names), *names, owner, *kind, "PX", LONG, "BLOCK", 0)
    return waiter.wait_blocked()


def knows_of(node):
    info = node.server.info("lock")
    return info["lock_waiters"], info["lock_contended_locks"]


@each_kind
def test_keys_of_one_slot_work_as_on_a_single_server(nodes, names, kind):
    one, _ = nodes
    assert one.actor.call("LOCK.MACQUIRE", 3, *names, "oa", *kind) == 3
    b = waits_for(one, names[::-1], "ob", kind)
    assert one.actor.call("LOCK.MRENEW", 3, *names, "oa") == 3
    assert one.actor.call("LOCK.MRELEASE", 3, *names, "oa", *kind) == 3
    assert b.reply() == 3


def test_owners_share_the_keys_of_a_slot_that_they_read(nodes, key, names):
    one, _ = nodes
    k, x, y = names
    assert one.actor.call("LOCK.MACQUIRE", 2, k, x, "oa", "MODES", "READ", "WRITE") == 2
    assert one.actor.call("LOCK.MACQUIRE", 2, k, y, "ob", "MODES", "READ", "WRITE") == 2
    assert one.actor.attempt("LOCK.MACQUIRE", 1, k, "oc", "MODES", "WRITE") is None
    assert keys_in(one, key[1]) >= set(names)


def test_key_that_cannot_have_side_keys_is_refused_with_modes(nodes, names):
    """Without MODES it is a lock like any other: only the leases of readers and writers are in a side key."""
    one, _ = nodes
    for name in ("a}b", "}", "{}a", ""):
        slot = one.cluster("KEYSLOT", name)
        node = nodes[0] if one.port_of(slot) == one.server.port else nodes[1]
        other = next(tag for tag in map("{{{}}}".format, count()) if key_slot(tag.encode()) == slot)
        for mode, wait in product(("READ", "WRITE"), ((), ("BLOCK", 0))):
            for locks in (name, other), (other, name):
                refused = node.actor.attempt("LOCK.MACQUIRE", 2, *locks, "o", "MODES", "WRITE", mode, *wait)
                assert str(refused) == "ERR in a cluster the key must have a hash tag, or contain no '}'"
        assert node.actor.call("DBSIZE") == 0
        assert node.actor.call("LOCK.MACQUIRE", 2, name, other, "o") == 2
        assert node.actor.call("LOCK.MRELEASE", 2, name, other, "o") == 2


def test_keys_of_several_slots_are_refused(nodes, names):
    one, _ = nodes
    others = [name for name in map(str, range(1000)) if one.cluster("KEYSLOT", name) < 8000][:2]
    for modes in (), ("MODES", "READ", "WRITE"):
        for command in ("LOCK.MACQUIRE", "LOCK.MRELEASE"):
            assert code_of(one.actor.attempt(command, 2, *others, "o", *modes)) == "CROSSSLOT"
        assert code_of(one.actor.attempt("LOCK.MACQUIRE", 2, *others, "o", *modes, "BLOCK", 0)) == "CROSSSLOT"
    assert code_of(one.actor.attempt("LOCK.MRENEW", 2, *others, "o")) == "CROSSSLOT"
    assert one.actor.call("DBSIZE") == 0


@each_way
@each_kind
@pytest.mark.parametrize("command", ["LOCK.MACQUIRE", "LOCK.MRELEASE", "LOCK.MRENEW"])
def test_keys_of_several_slots_are_refused_however_they_are_sent(nodes, names, way, kind, command):
    """A server may check the first key only; Redis 8.6 checks all."""
    one, _ = nodes
    one.actor.call("LOCK.MACQUIRE", 3, *names, "o", *kind, "PX", LONG)
    modes = () if command == "LOCK.MRENEW" else kind
    more = (*modes, "READ") if modes else ()
    before = one.server.dump()
    for other in ("{other}", "{one}", "{more}"):
        for words in ([*names, other], [names[0], other, *names[1:]]):
            assert code_of(way(one.actor, names[0], command, len(words), *words, "o", *more)) == "CROSSSLOT"
    assert one.server.dump() == before
    assert way(one.actor, names[0], command, 3, *names, "o", *modes) == 3


@pytest.mark.parametrize("command", ["LOCK.MACQUIRE", "LOCK.MRELEASE", "LOCK.MRENEW"])
def test_while_the_slot_moves_all_keys_have_to_be_at_one_end(nodes, command):
    """Either end replies as it replies to EXISTS of all keys; a server that checks only the first key may redirect to
    the node of that key."""
    for tag, places in zip(names_of(nodes[0]), product(PLACES, repeat=2), strict=False):
        locks = [f"{{{tag}}}{name}" for name in "ab"]
        slot, ends = nodes[0].cluster("KEYSLOT", tag), ends_of(nodes)
        for name in [name for name, place in zip(locks, places, strict=True) if place != "nowhere"]:
            assert nodes[0].actor.call("LOCK.ACQUIRE", name, "o", "PX", LONG) == 1
        begin_move_of(nodes, slot, dict(zip(locks, places, strict=True)))
        for end in ends:
            before, expected = contents(ends, slot), refusal(end.attempt("EXISTS", *locks))
            reply = end.attempt(command, 3, *locks, locks[0], "o")
            if places[0] != "source" and not end.asks:
                assert refusal(reply) in (expected, "ASK"), (places, reply)
            else:
                assert refusal(reply) == expected, (places, end.asks, reply)
                assert expected or reply == 2
            assert not expected or contents(ends, slot) == before
        call_off(nodes, slot)


@pytest.mark.parametrize("command", ["LOCK.MACQUIRE", "LOCK.MRELEASE"])
def test_while_the_slot_moves_no_request_with_modes_is_carried_out(nodes, command):
    """Neither end knows the leases, which may be at the other one: wherever the locks are, both refuse."""
    for tag, places in zip(names_of(nodes[0]), product(PLACES, repeat=2), strict=False):
        locks = [f"{{{tag}}}{name}" for name in "ab"]
        slot, ends = nodes[0].cluster("KEYSLOT", tag), ends_of(nodes)
        for name in [name for name, place in zip(locks, places, strict=True) if place != "nowhere"]:
            assert nodes[0].actor.call("LOCK.RWREAD", name, "o", "PX", LONG) == 1
        begin_move_of(nodes, slot, dict(zip(locks, places, strict=True)))
        before = contents(ends, slot)
        for end in ends:
            reply = end.attempt(command, 2, *locks, "o", "MODES", "READ", "READ")
            nothing_held = command == "LOCK.MRELEASE" and places[0] == "nowhere"
            assert refusal(reply) or nothing_held, (places, end.asks, reply)
        assert contents(ends, slot) == before
        assert_nothing_twice(nodes, slot)
        call_off(nodes, slot)


def test_keys_of_another_node_are_redirected(nodes, key, names):
    one, two = nodes
    for words in (
        ("LOCK.MACQUIRE", 3, *names, "o", "BLOCK", 0),
        ("LOCK.MACQUIRE", 3, *names, "o", *READS_ABOVE),
        ("LOCK.MRELEASE", 3, *names, "o"),
        ("LOCK.MRENEW", 3, *names, "o"),
    ):
        assert is_moved(key[1], one)(two.actor.attempt(*words))


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


@each_kind
def test_waiters_are_redirected_when_another_node_takes_over_the_slot(nodes, key, names, kind):
    one, two = nodes
    one.actor.call("LOCK.ACQUIRE", names[1], "oa")
    waiters = [waits_for(one, names, owner, kind) for owner in ("ob", "oc")]
    two.cluster("SETSLOT", key[1], "IMPORTING", one.id)
    two.cluster("SETSLOT", key[1], "NODE", two.id)
    wait_for(lambda: one.port_of(key[1]) == two.server.port, 20, "the first node to learn of it")
    for waiter in waiters:
        assert is_moved(key[1], two)(waiter.outcome())
        assert waiter.call("PING") == "PONG"
    assert knows_of(one) == (0, 0)
    assert two.actor.call("LOCK.MACQUIRE", 3, *names, "ob", *kind) == 3


@each_kind
def test_migration_of_one_key_redirects_its_waiters(nodes, key, names, kind):
    """The other keys may still be here, or nowhere: each waiter is granted all keys, or is redirected, once."""
    one, two = nodes
    one.actor.call("LOCK.MACQUIRE", 2, *names[:2], "oa", "PX", LONG)
    waiters = [waits_for(one, names, owner, kind) for owner in ("ob", "oc")]
    begin_move(key[1], one, two)
    migrate(names[1], one, two)
    for waiter in waiters:
        reply = waiter.outcome(timeout=10)
        assert is_redirection(reply), reply
        assert waiter.call("PING") == "PONG"
    assert knows_of(one) == (0, 0)
    for node in nodes:
        node.cluster("SETSLOT", key[1], "STABLE")
    assert as_map(one.actor.call("LOCK.INFO", names[0]))["waiting"] == 0


@each_kind
def test_move_in_which_the_held_key_is_freed_leaves_no_client_hanging(nodes, key, names, kind):
    one, two = nodes
    one.actor.call("LOCK.ACQUIRE", names[2], "oa", "PX", LONG)
    waiters = {owner: waits_for(one, names, owner, kind) for owner in ("ob", "oc")}
    begin_move(key[1], one, two)
    one.actor.call("LOCK.RELEASE", names[2], "oa")
    for owner, waiter in waiters.items():
        reply = waiter.outcome(timeout=10)
        if reply == 3:
            assert not kind
            assert one.actor.call("LOCK.MRELEASE", 3, *names, owner) == 3
        else:
            assert is_redirection(reply), reply
    assert knows_of(one) == (0, 0)


@each_kind
def test_key_that_is_held_at_the_target_of_a_move_is_not_granted_here(nodes, key, names, kind):
    """A key that is free and absent here belongs to the other node while its slot moves there."""
    one, two = nodes
    one.actor.call("LOCK.ACQUIRE", names[2], "oa", "PX", LONG)
    waiter = waits_for(one, names, "ob", kind)
    begin_move(key[1], one, two)
    two.actor.call("ASKING")
    assert two.actor.call("LOCK.ACQUIRE", names[0], "oc", "PX", LONG) == 1
    one.actor.call("LOCK.RELEASE", names[2], "oa")
    reply = waiter.outcome(timeout=10)
    assert is_redirection(reply), reply
    assert one.actor.call("DBSIZE") == 0


@pytest.mark.parametrize("sides_first", [False, True], ids=["locks first", "leases first"])
def test_holds_with_modes_are_intact_after_the_move(nodes, key, names, sides_first):
    """While the slot moves, whoever holds the locks or waits for them has to repeat the request. Nothing is granted."""
    (one, two), (k, x, y), slot = nodes, names, key[1]
    held = (*names, "oa", *READS_ABOVE)
    assert one.actor.call("LOCK.MACQUIRE", 3, *held, "PX", LONG) == 3
    assert one.actor.call("LOCK.MACQUIRE", 1, k, "or", "MODES", "READ", "PX", LONG // 2) == 1
    waiters = {owner: waits_for(one, [k, y], owner, ("MODES", "READ", "WRITE")) for owner in ("ob", "oc")}
    waits_to_write = one.server.actor("ow")
    waits_to_write.send("LOCK.MACQUIRE", 1, k, "ow", "MODES", "WRITE", "BLOCK", 0)
    waits_to_write.wait_blocked()
    waiters["ow"] = waits_to_write
    ends = ends_of(nodes)
    begun_with = contents(ends, slot)
    begin_move(slot, one, two)
    leases = side("lease", key[0])  # of k, which has two readers; a lease of a lock's only hold is its key's TTL
    assert keys_in(one, slot) == {*names, leases}
    moving = [leases, *names] if sides_first else [*names, leases]
    for name in moving:
        before = contents(ends, slot)
        for words in (
            ("LOCK.MACQUIRE", 3, *held),
            ("LOCK.MACQUIRE", 3, *held, "BLOCK", 0),
            ("LOCK.MRELEASE", 3, *held),
            ("LOCK.MRENEW", 3, *names, "oa"),
            ("LOCK.MACQUIRE", 1, k, "ox", "MODES", "READ"),
        ):
            for end in ends:
                assert refusal(end.attempt(*words)) in ("TRYAGAIN", "ASK"), (words, name)
        assert contents(ends, slot) == before
        assert_nothing_twice(nodes, slot)
        migrate(name, one, two)
    for waiter in waiters.values():
        assert is_redirection(waiter.outcome(timeout=10))
    finish_move(slot, one, two)
    # MIGRATE sends the time that is left, so an expiry may be some ms later.
    moved = contents(ends, slot)
    assert {name: value for name, (value, _) in moved.items()} == {name: value for name, (value, _) in begun_with.items()}
    assert knows_of(one) == (0, 0)
    again = waits_for(two, [k, y], "ob", ("MODES", "READ", "WRITE"))
    assert two.actor.call("LOCK.MRENEW", 3, *names, "oa", "PX", LONG) == 3
    assert two.actor.call("LOCK.MRELEASE", 3, *held) == 3
    assert again.reply() == 2
    assert two.actor.call("LOCK.MRELEASE", 2, k, y, "ob", "MODES", "READ", "WRITE") == 2
    assert two.actor.call("LOCK.MRELEASE", 1, k, "or", "MODES", "READ") == 1
    assert not keys_in(two, slot)


def keys_checked_by(node, command):
    """For how many keys the module checks, within this command, whether the node may write them. Redis 7.0 shows it."""
    pipeline = node.server.control.pipeline(transaction=True)
    for words in (("INFO", "commandstats"), command, ("INFO", "commandstats")):
        pipeline.execute_command(*words)
    before, _, after = pipeline.execute()
    return after["cmdstat_pexpireat"]["calls"] - before.get("cmdstat_pexpireat", {"calls": 0})["calls"]


@pytest.mark.parametrize("order", ["forwards", "backwards", "at random"])
def test_release_checks_only_the_key_that_blocks_a_multikey_waiter(nodes, key, order):
    """Whatever the number of keys. Each key is checked about once in all releases, not once for each key that is
    freed."""
    one, _ = nodes
    if module_sends_no_commands(one.server):
        pytest.skip("this server does not show which keys the module checks")
    many = [f"{{{key[0]}}}{i}" for i in range(100)]
    assert one.actor.call("LOCK.MACQUIRE", len(many), *many, "oa", "PX", LONG) == len(many)
    waiter = waits_for(one, many, "ob")
    shuffled = random.Random(1).sample(many, len(many))
    gone = {"forwards": many, "backwards": many[::-1], "at random": shuffled}[order][:-1]
    checked = sum(keys_checked_by(one, ("LOCK.RELEASE", name, "oa")) for name in gone)
    # At each release one key that blocks the waiter; and each freed key once.
    assert len(gone) // 2 < checked <= 2 * len(many)
    assert not waiter.has_reply()
    [last] = set(many) - set(gone)
    assert one.actor.call("LOCK.RELEASE", last, "oa") == 0
    assert waiter.reply() == len(many)
