"""LOCK.GUARD in a cluster: the lock's key decides which node executes it; the keys of the inner command must be in the
same slot.

A server checks only the lock's key. The keys of the inner command are checked before it runs: if the node would refuse
one command with all these keys, LOCK.GUARD refuses it too, and nothing is run.
"""

from itertools import product

import pytest

from harness import code_of, wait_for
from model.cluster_scene import HALF, LONG
from model.keys_scene import PLACES, begin_move_of, each_way, refusal
from model.moving_scene import call_off, contents, ends_of, names_of

# Commands with every way to specify keys that servers have. {a} and {b} are their keys; each command writes.
INNER = {
    "one key": "SET {a} 1",
    "each second argument": "MSET {a} 1 {b} 1",
    "more than six arguments": "MSET {a} 1 {a}1 1 {a}2 1 {a}3 1 {b} 1",
    "all arguments": "PFMERGE {a} {b}",
    "key and number of keys": "ZUNIONSTORE {a} 2 {b} {b}",
    "number of keys": "LMPOP 2 {a} {b} LEFT",
    "keyword": "XREAD STREAMS {a} {b} 0 0",
    "last key": "SORT {a} STORE {b}",
    "subcommand": "XGROUP CREATE {a} g 0 MKSTREAM",
    "not for scripts of Redis 7.0": "BLMOVE {a} {b} LEFT LEFT 0",
    "of a lock": "LOCK.ACQUIRE {a} o",
    "of several locks": "LOCK.MACQUIRE 2 {a} {b} o",
}  # fmt: skip
TWO_KEYS = {name: words for name, words in INNER.items() if "{b}" in words}


def words_of(inner, a, b):
    return inner.format(a=a, b=b).split()


class Slots:
    """Names in the lock's slot, in another slot of its node, and in a slot of the other node."""

    def __init__(self, one):
        slot_of = {name: one.cluster("KEYSLOT", name) for name in map(str, range(100))}
        self.lock, near = [name for name, slot in slot_of.items() if slot <= HALF][:2]
        far = next(name for name, slot in slot_of.items() if slot > HALF)
        self.slot = slot_of[self.lock]
        self.same, self.near, self.far = (f"{{{name}}}x" for name in (self.lock, near, far))


@pytest.fixture
def slots(nodes):
    slots = Slots(nodes[0])
    assert nodes[0].actor.call("LOCK.ACQUIRE", slots.lock, "o", "PX", LONG) == 1
    return slots


def dumps(nodes):
    return [node.server.dump() for node in nodes]


# ---- nothing moves ----


@each_way
def test_key_of_another_slot_is_refused_and_nothing_is_run(nodes, slots, way):
    actor, before = nodes[0].actor, dumps(nodes)
    for inner, a, b in product(INNER.values(), *2 * [(slots.same, slots.near, slots.far)]):
        if a != slots.same or (b != slots.same and inner in TWO_KEYS.values()):
            reply = way(actor, slots.lock, "LOCK.GUARD", slots.lock, "o", *words_of(inner, a, b))
            assert code_of(reply) == "CROSSSLOT", (inner, a, b, reply)
    assert dumps(nodes) == before


@each_way
@pytest.mark.parametrize("inner", INNER.values(), ids=INNER)
def test_keys_of_the_locks_slot_are_accepted(nodes, slots, way, inner):
    command = words_of(inner, slots.same, slots.same + "y")
    reply = way(nodes[0].actor, slots.lock, "LOCK.GUARD", slots.lock, "o", *command)
    assert not isinstance(reply, Exception), reply


@each_way
@pytest.mark.parametrize("inner", ["PING", "ECHO hello", "TIME", "PUBLISH c m", "GET", "NO.SUCH x y", "CLIENT ID"])
def test_command_without_keys_is_as_on_one_server(nodes, slots, make_server, way, inner):
    """An unknown command, or one that scripts may not run, is refused as on one server, and not because of its slot."""
    single = make_server().actor()
    single.call("LOCK.ACQUIRE", slots.lock, "o", "PX", LONG)
    reply, expected = (
        way(actor, slots.lock, "LOCK.GUARD", slots.lock, "o", *inner.split()) for actor in (nodes[0].actor, single)
    )
    if inner != "TIME":
        assert str(reply) == str(expected)
    assert isinstance(reply, Exception) == isinstance(expected, Exception)


def test_another_nodes_lock_is_redirected_by_its_key(nodes, slots):
    one, two = nodes
    actor = two.server.actor()
    for key in (slots.same, slots.near, slots.far):
        reply = actor.attempt("LOCK.GUARD", slots.lock, "o", "SET", key, 1)
        assert str(reply) == f"MOVED {slots.slot} 127.0.0.1:{one.server.port}"


def test_slot_that_no_node_serves_is_down(nodes, slots):
    one, _ = nodes
    one.server.control.config_set("cluster-require-full-coverage", "no")
    one.cluster("DELSLOTS", slots.slot)
    wait_for(one.is_up, 20, "the cluster to be up")
    for inner in ("PING", f"SET {slots.same} 1"):
        assert code_of(one.actor.attempt("LOCK.GUARD", slots.lock, "o", *inner.split())) == "CLUSTERDOWN"


def test_command_of_many_keys_leaks_nothing(nodes, slots):
    """If a module asks a server for the keys of a command, the server leaks some bytes for each key; and so does the
    check of a limited user's permission."""
    one, _ = nodes
    one.actor.call("ACL", "SETUSER", "u", "on", "nopass", "+@all", f"~{slots.same}*", f"~{slots.lock}")
    client = one.server.actor()
    client.call("AUTH", "u", "any")
    words = ["LOCK.GUARD", slots.lock, "o", "MSET", *(word for n in range(200) for word in (f"{slots.same}{n}", 1))]

    def used_after(times):
        for _ in range(times):
            assert client.call(*words) == "OK"
        return one.server.info("memory")["used_memory"]

    before = used_after(50)
    assert used_after(300) < before + 300_000  # a leak is 7,000 bytes for each command


# ---- the slot moves, key by key ----

def expected_of(end, lock_at, refusal_of_all):
    """First the server checks the lock's key; then follows what the server would reply for all keys together."""
    if lock_at == "target" and not end.asks:
        return "ASK"
    return refusal_of_all if (lock_at == "target") == end.asks else "NOTHELD"


@pytest.mark.parametrize("lock_at", ["source", "target"])
def test_while_the_slot_moves_it_is_as_one_command_with_all_keys(nodes, lock_at):
    """Either end replies as it replies to EXISTS of the lock and the keys, wherever these are."""
    for lock, (a_at, b_at) in zip(names_of(nodes[0]), product(PLACES, PLACES), strict=False):
        a, b = (f"{{{lock}}}{name}" for name in "ab")
        slot = nodes[0].cluster("KEYSLOT", lock)
        ends = ends_of(nodes)
        nodes[0].actor.call("LOCK.ACQUIRE", lock, "o", "PX", LONG)
        for name in [name for name, place in ((a, a_at), (b, b_at)) if place != "nowhere"]:
            nodes[0].actor.call("RPUSH", name, "0")
        begin_move_of(nodes, slot, {lock: lock_at, a: a_at, b: b_at})
        for end in ends:
            before = [contents([each], slot) for each in ends]
            for inner in INNER.values():
                keys = (a, b) if inner in TWO_KEYS.values() else (a,)
                expected = expected_of(end, lock_at, refusal(end.attempt("EXISTS", lock, *keys)))
                if expected:
                    reply = end.attempt("LOCK.GUARD", lock, "o", *words_of(inner, a, b))
                    assert refusal(reply) == expected, (inner, a_at, b_at, end.asks, reply)
            assert [contents([each], slot) for each in ends] == before
            expected = expected_of(end, lock_at, refusal(end.attempt("EXISTS", lock, a, b)))
            reply = end.attempt("LOCK.GUARD", lock, "o", "EXISTS", a, b)
            assert refusal(reply) == expected if expected else reply == 2
            assert refusal(end.attempt("LOCK.GUARD", lock, "o", "PING")) == expected_of(end, lock_at, None)
        call_off(nodes, slot)
