"""A cluster of two nodes: requests are redirected to the node of the slot, and so are waiters when the slot moves.

Which redirection a waiter receives depends on the progress of the move; but it always receives one.
"""

import pytest

from harness import code_of, scaled_ms, wait_for
from harness.schedule import as_map, error, matches
from model.cluster_scene import HALF, LAST, LONG, Node, Scene, begin_move, is_redirection, make_nodes, migrate
from model.cluster_scene import is_moved

LEASE = scaled_ms(250)


# ---- nothing moves ----


ON_A_KEY = ("FORCE", "INFO")
ON_A_KEY_BY_AN_OWNER = ("ACQUIRE", "RELEASE", "RENEW", "CANCEL")


def test_commands_for_another_nodes_slot_are_redirected(nodes, key):
    one, two = nodes
    name, slot = key
    client = two.server.actor()
    for command in (*ON_A_KEY, *ON_A_KEY_BY_AN_OWNER):
        owner = ("o",) if command in ON_A_KEY_BY_AN_OWNER else ()
        assert is_moved(slot, one)(client.attempt("LOCK." + command, name, *owner))
    assert is_moved(slot, one)(client.attempt("LOCK.ACQUIRE", name, "o", "BLOCK", 0))
    assert two.server.blocked_clients() == 0


def test_several_locks_have_to_be_in_one_slot_of_this_node(nodes, key):
    (one, two), (name, _) = nodes, key
    other = next(name for name in map(str, range(1000)) if one.cluster("KEYSLOT", name) > HALF)
    near = next(n for n in map(str, range(1000)) if n != name and one.cluster("KEYSLOT", n) <= HALF)
    for command in ("LOCK.MACQUIRE", "LOCK.MRELEASE"):
        for names in (name, near), (name, other), (f"{{{name}}}a", f"{{{name}}}b", near):
            assert code_of(one.actor.attempt(command, len(names), *names, "o")) == "CROSSSLOT"
        moved = one.actor.attempt(command, 2, f"{{{other}}}a", f"{{{other}}}b", "o")
        assert str(moved).startswith("MOVED ") and str(moved).endswith(f":{two.server.port}")
        assert one.actor.call(command, 2, f"{{{name}}}a", f"{{{name}}}b", "o") == 2
        assert two.actor.call(command, 1, other, "o") == 1


@pytest.mark.parametrize("how", ["release", "lease end", "DEL"])
def test_locks_are_handed_off_as_on_a_single_server(nodes, key, how):
    scene = Scene(nodes[0], key[0], LEASE if how == "lease end" else LONG)
    if how == "release":
        assert scene.a.call("LOCK.RELEASE", scene.key, "oa") == 0
    if how == "DEL":
        assert scene.a.call("DEL", scene.key) == 1
    assert scene.b.reply(timeout=10) == 1
    assert scene.b.call("LOCK.RELEASE", scene.key, "ob") == 0
    assert scene.c.reply() == 1


def test_module_can_be_unloaded_when_all_waits_have_ended(make_server):
    """The check of the slots, once a second while there are waiters, ends with the last wait."""
    node = Node(make_server(cluster_enabled="yes"))
    node.cluster("ADDSLOTSRANGE", 0, LAST)
    wait_for(node.is_up, 20, "the cluster to be whole")
    scene = Scene(node, "k")
    for owner, waiter in (("oa", scene.b), ("ob", scene.c)):
        assert scene.a.call("LOCK.RELEASE", "k", owner) == 0
        assert waiter.reply() == 1
    node.server.disconnect_clients()
    wait_for(lambda: node.server.info("clients")["connected_clients"] == 1, what="the clients to be gone")
    node.server.unload()


def test_cluster_that_is_down_for_a_while_leaves_no_client_hanging(nodes, key):
    """Some servers reply CLUSTERDOWN to their blocked clients, others let them wait; then they are granted the lock."""
    one, _ = nodes
    other_slot = (key[1] + 1) % HALF
    scene = Scene(one, key[0], scaled_ms(1000))
    end = scene.a.call("PEXPIRETIME", scene.key)
    one.cluster("DELSLOTS", other_slot)
    wait_for(lambda: not one.is_up(), 10, "the cluster to be down")
    wait_for(lambda: one.server.now_ms() > end, 10, "the lease to end")
    one.server.settle(30)
    for waiter in (scene.b, scene.c):
        if waiter.has_reply():
            assert error("CLUSTERDOWN")(waiter.outcome())
            waiter.send("PING")
        else:
            assert waiter.is_blocked()
    one.cluster("ADDSLOTS", other_slot)
    wait_for(one.is_up, 20, "the cluster to be up")
    if scene.b.outcome(timeout=10) == 1:
        assert scene.b.call("LOCK.RELEASE", scene.key, "ob") == 0
        assert scene.c.reply() == 1
    else:
        assert scene.b.call("LOCK.ACQUIRE", scene.key, "ob", "BLOCK", 0) == 1
    assert one.server.info("lock")["lock_waiters"] == 0


# ---- the slot moves to the other node ----


def test_waiters_are_redirected_when_another_node_takes_over_the_slot(nodes, key):
    """A message on the bus: the first node learns that it no longer serves the slot, and deletes its keys."""
    one, two = nodes
    name, slot = key
    scene = Scene(one, name)
    elsewhere = Scene(two, "other" if two.cluster("KEYSLOT", "other") > HALF else "another")
    two.cluster("SETSLOT", slot, "IMPORTING", one.id)
    two.cluster("SETSLOT", slot, "NODE", two.id)
    wait_for(lambda: one.port_of(slot) == two.server.port, 20, "the first node to learn of it")
    scene.both_receive(is_moved(slot, two))
    elsewhere.both_still_wait()
    assert two.server.actor().call("LOCK.ACQUIRE", name, "ob") == 1


def test_waiters_follow_a_lock_that_is_migrated(nodes, key):
    """They repeat their requests on the node to which they are redirected, and wait there for the same holder."""
    one, two = nodes
    name, slot = key
    scene = Scene(one, name)
    begin_move(slot, one, two)
    scene.both_still_wait()
    migrate(name, one, two)
    scene.both_receive(is_redirection)
    assert matches(error("ASK"), scene.b.attempt("LOCK.ACQUIRE", name, "ob", "BLOCK", 0))
    a, b = two.server.actor("a"), two.server.actor("b")
    assert b.call("ASKING") == "OK"
    b.send("LOCK.ACQUIRE", name, "ob", "BLOCK", 0)
    b.wait_blocked()
    for node in (two, one):
        node.cluster("SETSLOT", slot, "NODE", two.id)
    assert a.call("LOCK.RELEASE", name, "oa") == 0
    assert b.reply() == 1
    assert is_moved(slot, two)(scene.b.attempt("LOCK.ACQUIRE", name, "ob", "BLOCK", 0))


ENDPOINTS = {
    "ip": ("ip", "node.example"),
    "hostname": ("hostname", "node.example"),
    "hostname that is not set": ("hostname", ""),
    "none": ("unknown-endpoint", "node.example"),
}


@pytest.mark.parametrize("kind, hostname", ENDPOINTS.values(), ids=ENDPOINTS)
def test_waiters_are_redirected_to_the_preferred_endpoint(make_server, kind, hostname):
    """With the name that the administrator prefers, in ASK and in MOVED, as the server redirects other clients."""
    names = {"cluster_preferred_endpoint_type": kind, "cluster_announce_hostname": hostname}
    one, two = make_nodes(make_server, **{name: value for name, value in names.items() if value})
    wait_for(lambda: one.cluster("NODES").count(hostname) >= 2, 20, "the nodes to know their names")
    name = next(name for name in map(str, range(1000)) if one.cluster("KEYSLOT", name) <= HALF)
    slot = one.cluster("KEYSLOT", name)
    newcomer = one.server.actor()

    asked = Scene(one, name)
    begin_move(slot, one, two)
    migrate(name, one, two)
    ask = str(newcomer.attempt("LOCK.ACQUIRE", name, "oz"))
    assert ask.startswith(f"ASK {slot} ") and ask.endswith(f":{two.server.port}")
    asked.both_receive(lambda reply: str(reply) == ask)

    for node in (one, two):
        node.cluster("SETSLOT", slot, "STABLE")
    moved = Scene(one, name)
    two.cluster("SETSLOT", slot, "IMPORTING", one.id)
    two.cluster("SETSLOT", slot, "NODE", two.id)
    wait_for(lambda: one.port_of(slot) == two.server.port, 20, "the first node to learn of it")
    move = str(newcomer.attempt("LOCK.ACQUIRE", name, "oz"))
    assert move.startswith(f"MOVED {slot} ") and move.endswith(f":{two.server.port}")
    moved.both_receive(lambda reply: str(reply) == move)


def cancel_and_delete(scene):
    assert scene.a.call("LOCK.CANCEL", scene.key, "ob") == 1
    assert scene.a.call("DEL", scene.key) == 1


CAUSES = {
    "DEL": lambda scene: scene.a.call("DEL", scene.key),
    "release": lambda scene: scene.a.call("LOCK.RELEASE", scene.key, "oa"),
    "force": lambda scene: scene.a.call("LOCK.FORCE", scene.key),
    "lease end": lambda scene: scene.a.call("PEXPIRE", scene.key, LEASE),
    "head cancelled, DEL": cancel_and_delete,
}


@pytest.mark.parametrize("cause", CAUSES.values(), ids=CAUSES)
def test_lock_that_ends_while_its_slot_moves_leaves_no_client_hanging(nodes, key, cause):
    """Each waiter is granted the lock here, or is redirected."""
    scene = Scene(nodes[0], key[0])
    begin_move(key[1], *nodes)
    cause(scene)
    for waiter, owner in ((scene.b, "ob"), (scene.c, "oc")):
        reply = waiter.outcome(timeout=10)
        if reply == 1:
            assert scene.a.call("LOCK.RELEASE", scene.key, owner) == 0
        else:
            assert is_redirection(reply) or (reply is None and waiter is scene.b)
    info = scene.node.server.info("lock")
    assert (info["lock_waiters"], info["lock_contended_locks"]) == (0, 0)


def test_waiter_on_the_importing_node_is_not_left_hanging(nodes, key):
    """It sent its request there with ASKING; the lock's lease expires there before the move has ended."""
    one, two = nodes
    name, slot = key
    assert one.server.actor().call("LOCK.ACQUIRE", name, "oa", "PX", LONG) == 1
    begin_move(slot, one, two)
    migrate(name, one, two)
    b, z = two.server.actor("b"), two.server.actor("z")
    assert b.call("ASKING") == "OK"
    b.send("LOCK.ACQUIRE", name, "ob", "BLOCK", 0)
    b.wait_blocked()
    z.call("ASKING")
    assert z.call("PEXPIRE", name, LEASE) == 1
    reply = b.outcome(timeout=10)
    assert reply == 1 or is_redirection(reply)


def test_move_that_is_aborted_changes_nothing(nodes, key):
    one, two = nodes
    name, slot = key
    scene = Scene(one, name)
    begin_move(slot, one, two)
    for node in nodes:
        node.cluster("SETSLOT", slot, "STABLE")
    scene.both_still_wait()
    assert as_map(scene.a.call("LOCK.INFO", name))["waiting"] == 2
    assert scene.a.call("LOCK.RELEASE", name, "oa") == 0
    assert scene.b.reply() == 1


# The check of the slots


def test_waiters_of_a_slot_that_no_node_serves_receive_an_error(clock, make_server):
    """Only the check once a second notices it; it has already run some times before."""
    server = make_server(cluster_enabled="yes", cluster_require_full_coverage="no")
    node = Node(server)
    node.cluster("ADDSLOTSRANGE", 0, LAST)
    wait_for(node.is_up, 20, "the cluster to be whole")
    scene = Scene(node, "k")
    for seconds in (2, 4, 6):
        clock.advance(server, seconds)
    node.cluster("DELSLOTS", node.cluster("KEYSLOT", "k"))
    scene.both_receive(lambda reply: any(error(code)(reply) for code in ("TRYAGAIN", "CLUSTERDOWN")))


def _cpu_seconds(server):
    found = server.info("cpu")
    return found["used_cpu_user"] + found["used_cpu_sys"]


def _cost_of_checks(server):
    """The server's CPU time while it checks each contended lock three times."""
    before = _cpu_seconds(server)
    server.let_pass(3 * 1000)  # it checks them once a second
    return _cpu_seconds(server) - before


@pytest.mark.timing
def test_check_of_the_slots_does_not_visit_every_holder(make_server):
    """With 50,000 readers of a lock it costs as much as with one."""
    server = make_server(cluster_enabled="yes")
    server.control.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, LAST)
    wait_for(Node(server).is_up, 20, "the cluster to be whole")
    locks = [f"k{number}" for number in range(10)]
    for lock in locks:
        server.control.execute_command("LOCK.RWREAD", lock, "o", "PX", LONG)
        server.actor().send("LOCK.RWWRITE", lock, "w", "BLOCK", 0)
    wait_for(lambda: server.info("lock")["lock_waiters"] == len(locks), what="all to wait")
    with_one = _cost_of_checks(server)
    for lock in locks:
        server.control.eval("for o = 1, 50000 do redis.call('HSET', KEYS[1], 'o' .. o, 1) end", 1, lock)
    server.settle()
    assert _cost_of_checks(server) < 4 * with_one
