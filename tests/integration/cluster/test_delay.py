"""The delayed queue in a cluster: redirections, and queues whose slot moves to another node.

The new owner delivers without any command: no client ever sends it a command of the queue.
"""

from itertools import count, permutations

import pytest

from harness import fewer, scaled_ms, wait_for
from harness.cluster import manage
from model.cluster_scene import HALF, HOST, begin_move, make_nodes, migrate, is_moved
from model.delay_scene import HOUR, delivered, due_of, fall_due, pending, push, queues, value_of, wait_delivered
from model.moving_scene import TRY_AGAIN, ends_of, finish_move, keys_in


def name_of(node, begins=""):
    """A list of this node, and its slot."""
    for number in count():
        name = f"{begins}{number}"
        slot = node.cluster("KEYSLOT", name)
        if node.port_of(slot) == node.server.port:
            return name, slot


@pytest.fixture(params=["to the larger epoch", "to the smaller epoch"])
def way(request, nodes):
    """Source and target. A target that has the larger epoch already needs no new one when it receives a slot."""
    return nodes if request.param == "to the larger epoch" else nodes[::-1]


@pytest.fixture(params=["first queue", "has queues"])
def met_before(request):
    """Whether the target already has queues, and so already receives the events of keys."""
    return request.param == "has queues"


def arrange(source, target, met_before, name):
    """Two elements that are overdue, one that is due soon and one that is due much later; their slot has begun to
    move."""
    if met_before:
        push(target.server.control, "x", HOUR, name=name_of(target, "x")[0])
    client = source.server.control
    for id_ in ("b", "a", "later"):
        push(client, id_, HOUR, name=name)
    push(client, "soon", scaled_ms(1000), name=name)
    begin_move(source.cluster("KEYSLOT", name), source, target)
    fall_due(client, "a", "b", name=name)


def wait_gone(node, other_queues=0):
    wait_for(lambda: queues(node.server) == other_queues, what=f"{node.server} to forget the queue")


def wait_moved(slot, source, target):
    for node in source, target:
        wait_for(lambda node=node: node.port_of(slot) == target.server.port, 20, "the nodes to agree")


# ---- the slot moves to the other node ----


def test_new_owner_delivers(way, met_before):
    source, target = way
    name, slot = name_of(source)
    arrange(source, target, met_before, name)
    finish_move(slot, source, target)
    there = target.server.control
    wait_for(lambda: delivered(there, name)[:2] == ["va", "vb"], 2, "the overdue elements")
    wait_delivered(there, "va", "vb", "vsoon", name=name)
    assert queues(target.server) == 1 + met_before
    wait_gone(source)
    assert not source.server.dump()
    fall_due(there, "later", name=name)
    wait_delivered(there, "va", "vb", "vsoon", "vlater", name=name)
    wait_gone(target, met_before)


@pytest.mark.parametrize("kinds", [*permutations(("due", "value", "list"))], ids=" ".join)
def test_nothing_is_delivered_while_the_keys_are_on_different_nodes(way, met_before, kinds):
    source, target = way
    name, slot = name_of(source)
    keys = {"due": due_of(name), "value": value_of(name), "list": name}
    source.server.control.rpush(name, "first")
    arrange(source, target, met_before, name)
    for kind in kinds:
        migrate(keys[kind], source, target)
        # Both nodes have scanned the queue a few times, and the element "soon" is due.
        source.server.settle(600)
        here, there = (keys_in(node, slot) for node in way)
        assert not here & there and here | there == set(keys.values())
        end = ends_of(way)[name in there]
        assert end.attempt("LRANGE", name, 0, -1) == ["first"]
    for node in target, source:
        node.cluster("SETSLOT", slot, "NODE", target.id)
    wait_delivered(target.server.control, "first", "va", "vb", "vsoon", name=name)
    assert pending(target.server.control, name) == ["later"]
    wait_gone(source)


def test_existing_list_gets_nothing_while_its_slot_moves(way):
    """Its name is in braces: it is the name with which the module asks the server whether it would accept a write, and
    the server has that key."""
    source, target = way
    tag, slot = name_of(source)
    name = f"{{{tag}}}"
    source.server.control.rpush(name, "first")
    arrange(source, target, False, name)
    source.server.settle(600)
    assert delivered(source.server.control, name) == ["first"]
    finish_move(slot, source, target)
    wait_delivered(target.server.control, "first", "va", "vb", "vsoon", name=name)
    wait_gone(source)


TRAVELLERS = {"none": (), "due": (due_of,), "value": (value_of,), "both": (due_of, value_of)}


@pytest.mark.parametrize("there_and_back", TRAVELLERS.values(), ids=TRAVELLERS)
def test_move_that_is_aborted_leaves_the_queue_where_it_is(way, met_before, there_and_back):
    source, target = way
    name, slot = name_of(source)
    arrange(source, target, met_before, name)
    for side in there_and_back:
        migrate(side(name), source, target)
        source.server.settle(300)
    # The source first: the server accepts no key back while the slot is migrating.
    source.cluster("SETSLOT", slot, "STABLE")
    for side in there_and_back:
        migrate(side(name), target, source)
        source.server.settle(300)
    target.cluster("SETSLOT", slot, "STABLE")
    assert not keys_in(target, slot)
    wait_delivered(source.server.control, "va", "vb", "vsoon", name=name)
    fall_due(source.server.control, "later", name=name)
    wait_gone(source)
    wait_gone(target, met_before)


def test_queue_that_moves_back_is_delivered(way):
    source, target = way
    name, slot = name_of(source)
    arrange(source, target, False, name)
    finish_move(slot, source, target)
    wait_moved(slot, source, target)
    wait_delivered(target.server.control, "va", "vb", "vsoon", name=name)
    begin_move(slot, target, source)
    fall_due(target.server.control, "later", name=name)
    finish_move(slot, target, source)
    wait_delivered(source.server.control, "va", "vb", "vsoon", "vlater", name=name)
    wait_gone(source)
    wait_gone(target)


def test_many_slots_that_move_one_after_the_other_are_delivered(nodes):
    """Each one moves right after the one before; the new owner has known none of the queues before."""
    one, two = nodes
    names = {one.cluster("KEYSLOT", str(number)): str(number) for number in range(400)}
    names = [(slot, name) for slot, name in names.items() if slot <= HALF]
    for slot, name in names:
        push(one.server.control, "a", HOUR, name=name)
        begin_move(slot, one, two)
        fall_due(one.server.control, "a", name=name)
        finish_move(slot, one, two)
    for _, name in names:
        wait_delivered(two.server.control, "va", name=name)
    wait_gone(one)
    wait_gone(two)


def test_queue_in_a_slot_with_many_other_keys_is_delivered(way):
    """More keys than one scan step reads; Redis 7.0 lists first the keys that arrived last."""
    source, target = way
    name, slot = name_of(source)
    others = [f"{{{name}}}{number}" for number in range(fewer(20_000))]
    source.server.control.execute_command("MSET", *(word for other in others for word in (other, "")))
    arrange(source, target, False, name)
    for side in due_of(name), value_of(name):
        migrate(side, source, target)
    assert source.actor.call("MIGRATE", HOST, target.server.port, "", 0, 50_000, "KEYS", *others, timeout=50) == "OK"
    for node in target, source:
        node.cluster("SETSLOT", slot, "NODE", target.id)
    wait_delivered(target.server.control, "va", "vb", "vsoon", name=name)
    wait_gone(source)


def test_queue_of_a_slot_that_another_node_takes_over_is_removed(nodes):
    """A message on the bus: the first node learns that it no longer serves the slot, and deletes its keys. Redis 7.0
    sends no events for them, so that the queue is removed from memory only when its element is due."""
    one, two = nodes
    name, slot = name_of(one)
    push(one.server.control, "a", scaled_ms(2500), name=name)
    two.cluster("SETSLOT", slot, "IMPORTING", one.id)
    two.cluster("SETSLOT", slot, "NODE", two.id)
    two.cluster("BUMPEPOCH")
    wait_for(lambda: one.port_of(slot) == two.server.port, 20, "the first node to learn of it")
    wait_for(lambda: queues(one.server) == 0, 10, "the first node to forget the queue")
    assert not keys_in(one, slot) and not keys_in(two, slot)
    assert one.server.info("lock")["lock_delay_delivered"] == 0


def test_queue_of_a_slot_that_no_node_serves_for_a_while_is_kept(make_server):
    """The server keeps the keys of such a slot, and so the queue is kept too."""
    nodes = one, two = make_nodes(make_server, cluster_require_full_coverage="no")
    name, slot = name_of(one)
    push(one.server.control, "a", scaled_ms(300), name=name)
    for node in nodes:
        node.cluster("DELSLOTS", slot)
    one.server.settle(800)
    assert queues(one.server) == 1
    one.cluster("ADDSLOTS", slot)
    wait_delivered(one.server.control, "va", name=name)
    wait_gone(one)


def test_queues_move_with_redis_cli_cluster_reshard(make_server):
    nodes = one, two = make_nodes(make_server)
    names = [name for name in map(str, range(20_000)) if one.cluster("KEYSLOT", name) < 40]
    for name in names:
        push(one.server.control, "late", HOUR, name=name)
        for n in range(5):
            push(one.server.control, n, scaled_ms(400) * n, name=name)
    wait_for(lambda: manage("check", one), 30, "the nodes to agree")
    slots = {one.cluster("KEYSLOT", name) for name in names}
    manage("reshard", one, "--cluster-from", one.id, "--cluster-to", two.id, "--cluster-slots", 40, "--cluster-yes")
    assert len(slots) > 10 and all(two.port_of(slot) == two.server.port for slot in slots)
    for name in names:
        wait_delivered(two.server.control, *(f"v{n}" for n in range(5)), name=name)
        assert pending(two.server.control, name) == ["late"]
    wait_gone(one)
    assert queues(two.server) == len(names)


# ---- which node executes a command ----


COMMANDS = ("DELAY.PUSH {} a 3600000 va", "DELAY.CANCEL {} a", "DELAY.LIST {}")
each_command = pytest.mark.parametrize("command", COMMANDS)


@each_command
def test_command_for_another_nodes_slot_is_redirected(nodes, command):
    one, two = nodes
    name, slot = name_of(one)
    assert is_moved(slot, one)(two.actor.attempt(*command.format(name).split()))


@each_command
def test_command_for_a_queue_whose_slot_moves_is_refused(nodes, command):
    """Wherever its keys are. No key is created at either end."""
    one, two = nodes
    source, target = ends_of(nodes)
    name, slot = name_of(one)
    words = command.format(name).split()
    push(one.server.control, "b", HOUR, name=name)
    one.server.control.rpush(name, "first")
    begin_move(slot, one, two)
    for key in due_of(name), value_of(name), name:
        before = [keys_in(node, slot) for node in nodes]
        assert [source.attempt(*words), target.attempt(*words)] == [TRY_AGAIN, TRY_AGAIN]
        assert [keys_in(node, slot) for node in nodes] == before
        migrate(key, one, two)
    assert source.attempt(*words) == f"ASK {slot} {HOST}:{two.server.port}"
    assert target.attempt(*words) == TRY_AGAIN
    finish_move(slot, one, two)
    reply = two.actor.call(*words)
    assert reply in ("a", 0) or [id_ for id_, _, _ in reply] == ["b"]
    assert source.attempt(*words) == f"MOVED {slot} {HOST}:{two.server.port}"


@each_command
def test_list_whose_keys_would_be_in_another_slot_is_refused(nodes, command):
    for name in "", "}", "}x{", "{}x":
        words = [name if word == "{}" else word for word in command.split()]
        replies = [str(node.actor.attempt(*words)) for node in nodes]
        assert [text.split()[0] for text in sorted(replies)] == ["ERR", "MOVED"], replies
        assert "must have a hash tag" in min(replies)
        assert all(node.server.dump() == {} and queues(node.server) == 0 for node in nodes)


@pytest.mark.parametrize("form", ["{{{}}}", "x{{{}}}y", "{}"], ids=["{x}", "a{x}b", "x"])
def test_list_and_keys_are_in_one_slot_whatever_its_name(nodes, form):
    one, two = nodes
    tag, slot = name_of(one)
    name = form.format(tag)
    push(one.server.control, "a", HOUR, name=name)
    assert keys_in(one, slot) == {due_of(name), value_of(name)}
    begin_move(slot, one, two)
    fall_due(one.server.control, "a", name=name)
    finish_move(slot, one, two)
    wait_delivered(two.server.control, "va", name=name)
    assert keys_in(two, slot) == {name}
