"""A cluster of two nodes: requests go where the slot is, and so do waiters when it goes elsewhere.

Which redirection a waiter gets depends on how far the slot's move has come; that it gets one does not.
"""

import pytest

from harness import code_of, scaled_ms, wait_for
from harness.schedule import as_map, error, matches
from model.cluster_scene import HALF, LAST, LONG, Node, Scene, begin_move, is_redirection, make_nodes, migrate
from model.cluster_scene import says_moved

LEASE = scaled_ms(250)


# ---- nothing moves ----


ON_A_KEY = ("FORCE", "INFO")
ON_A_KEY_BY_AN_OWNER = ("ACQUIRE", "RELEASE", "RENEW", "CANCEL")


def test_commands_for_another_nodes_slot_are_moved(nodes, key):
    one, two = nodes
    name, slot = key
    client = two.server.actor()
    for command in (*ON_A_KEY, *ON_A_KEY_BY_AN_OWNER):
        owner = ("o",) if command in ON_A_KEY_BY_AN_OWNER else ()
        assert says_moved(slot, one)(client.attempt("LOCK." + command, name, *owner))
    assert says_moved(slot, one)(client.attempt("LOCK.ACQUIRE", name, "o", "BLOCK", 0))
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
def test_locks_are_handed_off_as_elsewhere(nodes, key, how):
    scene = Scene(nodes[0], key[0], LEASE if how == "lease end" else LONG)
    if how == "release":
        assert scene.a.call("LOCK.RELEASE", scene.key, "oa") == 0
    if how == "DEL":
        assert scene.a.call("DEL", scene.key) == 1
    assert scene.b.reply(timeout=10) == 1
    assert scene.b.call("LOCK.RELEASE", scene.key, "ob") == 0
    assert scene.c.reply() == 1


def test_module_is_unloaded_when_nobody_waits_any_more(make_server):
    """What looks after the slots once a second, while anybody waits, ends with the last wait."""
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


def test_cluster_that_is_down_for_a_while_leaves_nobody_hanging(nodes, key):
    """Some servers answer their blocked clients CLUSTERDOWN, some let them wait; then grants follow."""
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


# ---- the slot goes to the other node ----


def test_slot_that_another_node_takes_over_takes_its_waiters_along(nodes, key):
    """By the bus: the first node hears that the slot is no longer its own, and drops its keys."""
    one, two = nodes
    name, slot = key
    scene = Scene(one, name)
    elsewhere = Scene(two, "other" if two.cluster("KEYSLOT", "other") > HALF else "another")
    two.cluster("SETSLOT", slot, "IMPORTING", one.id)
    two.cluster("SETSLOT", slot, "NODE", two.id)
    wait_for(lambda: one.port_of(slot) == two.server.port, 20, "the first node to hear of it")
    scene.both_hear(says_moved(slot, two))
    elsewhere.both_wait_on()
    assert two.server.actor().call("LOCK.ACQUIRE", name, "ob") == 1


def test_waiters_follow_a_lock_that_is_migrated(nodes, key):
    """Asked again where they are sent, they wait behind the same holder."""
    one, two = nodes
    name, slot = key
    scene = Scene(one, name)
    begin_move(slot, one, two)
    scene.both_wait_on()
    migrate(name, one, two)
    scene.both_hear(is_redirection)
    assert matches(error("ASK"), scene.b.attempt("LOCK.ACQUIRE", name, "ob", "BLOCK", 0))
    a, b = two.server.actor("a"), two.server.actor("b")
    assert b.call("ASKING") == "OK"
    b.send("LOCK.ACQUIRE", name, "ob", "BLOCK", 0)
    b.wait_blocked()
    for node in (two, one):
        node.cluster("SETSLOT", slot, "NODE", two.id)
    assert a.call("LOCK.RELEASE", name, "oa") == 0
    assert b.reply() == 1
    assert says_moved(slot, two)(scene.b.attempt("LOCK.ACQUIRE", name, "ob", "BLOCK", 0))


ENDPOINTS = {
    "ip": ("ip", "node.example"),
    "hostname": ("hostname", "node.example"),
    "hostname that nobody gave": ("hostname", ""),
    "none": ("unknown-endpoint", "node.example"),
}


@pytest.mark.parametrize("kind, hostname", ENDPOINTS.values(), ids=ENDPOINTS)
def test_waiters_are_sent_where_the_server_sends_others(make_server, kind, hostname):
    """By the name that the administrator prefers, in ASK and in MOVED."""
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
    asked.both_hear(lambda heard: str(heard) == ask)

    for node in (one, two):
        node.cluster("SETSLOT", slot, "STABLE")
    moved = Scene(one, name)
    two.cluster("SETSLOT", slot, "IMPORTING", one.id)
    two.cluster("SETSLOT", slot, "NODE", two.id)
    wait_for(lambda: one.port_of(slot) == two.server.port, 20, "the first node to hear of it")
    move = str(newcomer.attempt("LOCK.ACQUIRE", name, "oz"))
    assert move.startswith(f"MOVED {slot} ") and move.endswith(f":{two.server.port}")
    moved.both_hear(lambda heard: str(heard) == move)


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
def test_lock_that_goes_while_its_slot_is_on_its_way_leaves_nobody_hanging(nodes, key, cause):
    """Each waiter is granted the lock here, or is sent away."""
    scene = Scene(nodes[0], key[0])
    begin_move(key[1], *nodes)
    cause(scene)
    for waiter, owner in ((scene.b, "ob"), (scene.c, "oc")):
        heard = waiter.outcome(timeout=10)
        if heard == 1:
            assert scene.a.call("LOCK.RELEASE", scene.key, owner) == 0
        else:
            assert is_redirection(heard) or (heard is None and waiter is scene.b)
    info = scene.node.server.info("lock")
    assert (info["lock_waiters"], info["lock_contended_locks"]) == (0, 0)


def test_waiter_on_the_importing_node_is_not_left_hanging(nodes, key):
    """It got there by ASKING; the lock's lease ends there before the move is over."""
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
    heard = b.outcome(timeout=10)
    assert heard == 1 or is_redirection(heard)


def test_move_that_is_called_off_changes_nothing(nodes, key):
    one, two = nodes
    name, slot = key
    scene = Scene(one, name)
    begin_move(slot, one, two)
    for node in nodes:
        node.cluster("SETSLOT", slot, "STABLE")
    scene.both_wait_on()
    assert as_map(scene.a.call("LOCK.INFO", name))["waiting"] == 2
    assert scene.a.call("LOCK.RELEASE", name, "oa") == 0
    assert scene.b.reply() == 1


# The look at the slots


def test_waiters_of_a_slot_that_nobody_serves_are_sent_away(clock, make_server):
    """Nothing tells of it but the look once a second, which has come round some times before."""
    server = make_server(cluster_enabled="yes", cluster_require_full_coverage="no")
    node = Node(server)
    node.cluster("ADDSLOTSRANGE", 0, LAST)
    wait_for(node.is_up, 20, "the cluster to be whole")
    scene = Scene(node, "k")
    for seconds in (2, 4, 6):
        clock.pass_on(server, seconds)
    node.cluster("DELSLOTS", node.cluster("KEYSLOT", "k"))
    scene.both_hear(lambda heard: any(error(code)(heard) for code in ("TRYAGAIN", "CLUSTERDOWN")))


def _cpu_seconds(server):
    found = server.info("cpu")
    return found["used_cpu_user"] + found["used_cpu_sys"]


def _cost_of_looks(server):
    """The server's CPU time while it looks at each contended lock three times."""
    before = _cpu_seconds(server)
    server.let_pass(3 * 1000)  # it looks once a second
    return _cpu_seconds(server) - before


@pytest.mark.timing
def test_look_at_the_slots_does_not_ask_every_holder(make_server):
    """It costs with 50,000 readers of a lock what it costs with one."""
    server = make_server(cluster_enabled="yes")
    server.control.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, LAST)
    wait_for(Node(server).is_up, 20, "the cluster to be whole")
    locks = [f"k{number}" for number in range(10)]
    for lock in locks:
        server.control.execute_command("LOCK.RWREAD", lock, "o", "PX", LONG)
        server.actor().send("LOCK.RWWRITE", lock, "w", "BLOCK", 0)
    wait_for(lambda: server.info("lock")["lock_waiters"] == len(locks), what="all to wait")
    with_one = _cost_of_looks(server)
    for lock in locks:
        server.control.eval("for o = 1, 50000 do redis.call('HSET', KEYS[1], 'o' .. o, 1) end", 1, lock)
    server.settle()
    assert _cost_of_looks(server) < 4 * with_one
