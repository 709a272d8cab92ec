"""The delayed queue in a cluster: redirections, and queues whose slot goes to another node.

The new owner delivers although nobody tells it anything: no command of the queue is ever said to it.
"""

from itertools import count, permutations

import pytest

from harness import fewer, scaled_ms, wait_for
from harness.cluster import manage
from model.cluster_scene import HALF, HOST, begin_move, make_nodes, migrate, says_moved
from model.delay_scene import HOUR, delivered, due_of, fall_due, pending, push, queues, value_of, wait_delivered
from model.moving_scene import TRY_AGAIN, ends_of, finish_move, keys_in


def name_of(node, begins=""):
    """A list of this node's, and its slot."""
    for number in count():
        name = f"{begins}{number}"
        slot = node.cluster("KEYSLOT", name)
        if node.port_of(slot) == node.server.port:
            return name, slot


@pytest.fixture(params=["to the larger epoch", "to the smaller epoch"])
def way(request, nodes):
    """Source and target: with the larger epoch already, the target needs no new one when it is given a slot."""
    return nodes if request.param == "to the larger epoch" else nodes[::-1]


@pytest.fixture(params=["first queue", "has queues"])
def met_before(request):
    """Whether the target knows of queues already, and so is told of what happens to keys."""
    return request.param == "has queues"


def arrange(source, target, met_before, name):
    """Two elements that are overdue, one that soon is and one much later; their slot has begun to move."""
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


# ---- the slot goes to the other node ----


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
def test_nothing_is_delivered_while_the_keys_are_apart(way, met_before, kinds):
    source, target = way
    name, slot = name_of(source)
    keys = {"due": due_of(name), "value": value_of(name), "list": name}
    source.server.control.rpush(name, "first")
    arrange(source, target, met_before, name)
    for kind in kinds:
        migrate(keys[kind], source, target)
        # Both have looked a few times, and what was soon due is.
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


def test_list_that_is_there_gets_nothing_while_its_slot_moves(way):
    """Its name is in braces: the server is asked by it whether it would take a write, and has the key."""
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
def test_move_that_is_called_off_leaves_the_queue_where_it_is(way, met_before, there_and_back):
    source, target = way
    name, slot = name_of(source)
    arrange(source, target, met_before, name)
    for side in there_and_back:
        migrate(side(name), source, target)
        source.server.settle(300)
    # The source first: the server takes nothing back while it gives the slot away.
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


def test_queue_that_comes_back_is_delivered(way):
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


def test_many_slots_one_after_the_other(nodes):
    """No sooner has one come than the next does; of none of them the new owner has known before."""
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


def test_slot_with_many_other_keys(way):
    """More than are looked at in one go; on Redis 7.0 those that come last are seen first."""
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


def test_slot_that_another_node_takes_over(nodes):
    """By the bus: the first node hears that the slot is no longer its own, and drops its keys. Redis 7.0 says nothing
    of them, so that the queue is forgotten only when its time has come."""
    one, two = nodes
    name, slot = name_of(one)
    push(one.server.control, "a", scaled_ms(2500), name=name)
    two.cluster("SETSLOT", slot, "IMPORTING", one.id)
    two.cluster("SETSLOT", slot, "NODE", two.id)
    two.cluster("BUMPEPOCH")
    wait_for(lambda: one.port_of(slot) == two.server.port, 20, "the first node to hear of it")
    wait_for(lambda: queues(one.server) == 0, 10, "the first node to forget the queue")
    assert not keys_in(one, slot) and not keys_in(two, slot)
    assert one.server.info("lock")["lock_delay_delivered"] == 0


def test_slot_that_nobody_serves_for_a_while(make_server):
    """Its keys stay where they are, as the server has it, and so does its queue."""
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


def test_queues_go_where_the_administrators_tool_moves_them(make_server):
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


# ---- who is asked ----


COMMANDS = ("DELAY.PUSH {} a 3600000 va", "DELAY.CANCEL {} a", "DELAY.LIST {}")
each_command = pytest.mark.parametrize("command", COMMANDS)


@each_command
def test_command_for_another_nodes_slot_is_moved(nodes, command):
    one, two = nodes
    name, slot = name_of(one)
    assert says_moved(slot, one)(two.actor.attempt(*command.format(name).split()))


@each_command
def test_command_for_a_queue_whose_slot_moves(nodes, command):
    """Wherever its keys are. Nothing is made at either end."""
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
    heard = two.actor.call(*words)
    assert heard in ("a", 0) or [id_ for id_, _, _ in heard] == ["b"]
    assert source.attempt(*words) == f"MOVED {slot} {HOST}:{two.server.port}"


@each_command
def test_list_whose_keys_would_be_elsewhere_is_refused(nodes, command):
    for name in "", "}", "}x{", "{}x":
        words = [name if word == "{}" else word for word in command.split()]
        heard = [str(node.actor.attempt(*words)) for node in nodes]
        assert [text.split()[0] for text in sorted(heard)] == ["ERR", "MOVED"], heard
        assert "needs a name with a hash tag" in min(heard)
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
