"""Groups of servers: a master that Sentinels name, and a cluster whose slots move."""

import pytest

from harness import scaled, wait_for, wait_for_sync
from harness.sentinel import NAME, Sentinel, SentinelGroup
from model.cluster_scene import HALF, begin_move, make_nodes
from model.moving_scene import finish_move
from runs import LOST, NOT_HAD, UNAVAILABLE, holders, is_free, wait_waiting, wait_watched

# Sentinels take some seconds to agree that a master is gone. A lease must last for that time and half as long again.
LEASE = ["--lease", scaled(30)]


# Sentinels


@pytest.fixture
def group(launch, make_server):
    made = SentinelGroup(launch, make_server)
    yield made
    problems = made.end()
    assert not problems, "\n".join(problems)


def url_of(group):
    return f"redis+sentinel://{NAME}@" + ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in group.sentinels)


@pytest.fixture(params=["killed", "stopped"])
def master_goes(request, group):
    """master_goes(): the master is killed, or stopped with all its connections open; returns the next master."""

    def go():
        old = group.master()
        old.kill() if request.param == "killed" else group.stop(old)
        return group.wait_failover(old)

    go.closes_connections = request.param == "killed"
    return go


def test_a_lease_outlives_the_master(group, master_goes, run, witness):
    command, bound = witness("beat"), witness()
    held = run(url_of(group), *LEASE, "--replicas", 1, "k", *command.words)
    session = run(url_of(group), "session", *bound.words)
    command.wait_begun()
    bound.wait_begun()
    new = master_goes()
    # A lock that the new master knows of is still held there, and is watched there.
    wait_watched(new, "k", 60)
    assert [holder["owner"] for holder in holders(new, "k")] == [command.variables["LOCK_OWNER"]]
    assert not held.has_ended() and command.heard() == []
    if master_goes.closes_connections:
        # A session cannot outlive its connection for that long.
        assert session.wait() == LOST
    else:
        # Whether the next master was available when the renewal was given up depends on timing.
        bound.finish(0)
        assert session.wait() in (0, LOST)
    command.finish(9)
    assert held.wait() == 9
    assert is_free(new, "k")


def test_a_wait_outlives_the_master(group, master_goes, run, witness):
    command = witness()
    group.master().control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", 3_600_000)
    for replica in set(group.servers) - {group.master()}:
        wait_for_sync(group.master(), replica)
    waits = run(url_of(group), "--timeout", scaled(20), "k", *command.words)
    wait_waiting(group.master(), "k")
    new = master_goes()
    wait_waiting(new, "k", timeout=60)
    assert not command.has_begun()
    new.control.execute_command("LOCK.FORCE", "k")
    command.wait_begun()
    assert [holder["owner"] for holder in holders(new, "k")] == [command.variables["LOCK_OWNER"]]
    command.finish(9)
    assert waits.wait() == 9
    assert is_free(new, "k")


@pytest.fixture
def sentinel(launch, server):
    """A Sentinel that monitors a server without replicas."""
    made = Sentinel(launch, server.port, 1)
    yield made
    problems = made.end()
    assert not problems, "\n".join(problems)


def test_a_sentinel_that_is_not_there(server, sentinel, run):
    url = f"redis+sentinel://{NAME}@127.0.0.1:1,127.0.0.1:{sentinel.port}"
    assert run(url, "k", "sh", "-c", "exit 9").wait() == 9


def test_no_sentinel_is_there(run, tmp_path):
    url = f"redis+sentinel://{NAME}@127.0.0.1:1,127.0.0.1:2"
    refused = run(url, "--timeout", scaled(1), "k", "touch", tmp_path / "started")
    assert refused.wait() == UNAVAILABLE
    assert "sentinel: " in refused.stderr
    assert not (tmp_path / "started").exists()


def test_no_such_master(sentinel, run, tmp_path):
    url = f"redis+sentinel://another@127.0.0.1:{sentinel.port}"
    refused = run(url, "--timeout", scaled(1), "k", "touch", tmp_path / "started")
    assert refused.wait() == UNAVAILABLE
    assert "does not know this master" in refused.stderr
    assert not (tmp_path / "started").exists()


def test_passwords_of_both_kinds(server, sentinel, run):
    server.control.execute_command("ACL", "SETUSER", "me", "on", ">mine", "~*", "+@all")
    sentinel.control.execute_command("ACL", "SETUSER", "asks", "on", ">this", "+@all", "&*")
    logins = "user=me&password=mine&sentinel-user=asks&sentinel-password=this"
    done = run(f"redis+sentinel://{NAME}@127.0.0.1:{sentinel.port}/2?{logins}", "k", "sh", "-c", "exit 9")
    assert (done.wait(), done.stderr) == (9, "")
    wrong = logins.replace("=this", "=wrong")
    refused = run(f"redis+sentinel://{NAME}@127.0.0.1:{sentinel.port}?{wrong}", "--timeout", scaled(1), "k", "true")
    assert refused.wait() == UNAVAILABLE
    assert "WRONGPASS" in refused.stderr


# A cluster


@pytest.fixture
def nodes(make_server):
    """Two nodes: the first serves the slots up to HALF, the second serves the rest."""
    return make_nodes(make_server)


@pytest.fixture
def key(nodes):
    """A key that the second node serves."""
    one, _ = nodes
    return next(name for name in map(str, range(1000)) if one.cluster("KEYSLOT", name) > HALF)


def seed(*nodes):
    return "redis+cluster://" + ",".join(f"127.0.0.1:{node.server.port}" for node in nodes)


KINDS = {"plain": [], "fair": ["--fair"], "shared": ["--shared"], "semaphore": ["--semaphore", 2], "lease": LEASE}


@pytest.mark.parametrize("wait", [[], ["--wait", 0]], ids=["wait", "try once"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_key_of_another_node(nodes, key, run, witness, kind, wait):
    one, two = nodes
    command = witness()
    held = run(seed(one), *KINDS[kind], *wait, key, *command.words)
    command.wait_begun()
    assert [holder["owner"] for holder in holders(two.server, key)] == [command.variables["LOCK_OWNER"]]
    wait_watched(two.server, key)
    command.finish(9)
    assert (held.wait(), held.stderr) == (9, "")
    assert is_free(two.server, key)


def test_a_key_of_another_node_that_somebody_has(nodes, key, run, tmp_path):
    one, two = nodes
    two.server.control.execute_command("LOCK.ACQUIRE", key, "o")
    refused = run(seed(one), "--wait", 0, key, "touch", tmp_path / "started")
    assert refused.wait() == NOT_HAD
    assert not (tmp_path / "started").exists()


def test_a_seed_that_is_not_there(nodes, key, run):
    one, _ = nodes
    url = f"redis+cluster://127.0.0.1:1,127.0.0.1:{one.server.port}"
    assert run(url, key, "sh", "-c", "exit 9").wait() == 9


def test_one_server_of_a_cluster_by_its_own_url(nodes, key, run):
    # The server replies with the address of the node that has the lock, and lockctl follows it.
    one, _ = nodes
    assert run(f"redis://127.0.0.1:{one.server.port}", key, "sh", "-c", "exit 9").wait() == 9


@pytest.mark.parametrize("kind", ["plain lease", "shared lease"])
def test_the_slot_moves_while_it_is_held(nodes, key, run, witness, kind):
    one, two = nodes
    slot = one.cluster("KEYSLOT", key)
    command = witness("beat")
    shared = ["--shared"] if kind.startswith("shared") else []
    held = run(seed(one), *shared, "--lease", scaled(6), key, *command.words)
    command.wait_begun()
    wait_watched(two.server, key)
    begin_move(slot, two, one)
    finish_move(slot, two, one)
    wait_watched(one.server, key)
    before = one.server.control.pexpiretime(key)
    wait_for(lambda: one.server.control.pexpiretime(key) > before, 20, "a renewal at the other node")
    assert command.heard() == []
    command.finish(9)
    assert (held.wait(), held.stderr) == (9, "")
    assert is_free(one.server, key)


def test_the_slot_moves_for_a_while(nodes, key, run, witness):
    # While the slot moves, a lock may be split between two nodes, and renewals are refused.
    one, two = nodes
    slot = one.cluster("KEYSLOT", key)
    command = witness("beat")
    held = run(seed(two), "--shared", "--lease", scaled(9), key, *command.words)
    command.wait_begun()
    begin_move(slot, two, one)
    two.server.let_pass(scaled(1) * 1000)
    finish_move(slot, two, one)
    wait_watched(one.server, key)
    command.finish(9)
    assert (held.wait(), held.stderr) == (9, "")
    assert is_free(one.server, key)


def test_the_slot_moves_while_it_waits(nodes, key, run, witness):
    one, two = nodes
    slot = one.cluster("KEYSLOT", key)
    two.server.control.execute_command("LOCK.ACQUIRE", key, "o", "PX", 3_600_000)
    command = witness()
    waits = run(seed(two), key, *command.words)
    wait_waiting(two.server, key)
    begin_move(slot, two, one)
    finish_move(slot, two, one)
    wait_waiting(one.server, key)
    assert not command.has_begun()
    one.server.control.execute_command("LOCK.RELEASE", key, "o")
    command.wait_begun()
    command.finish(9)
    assert (waits.wait(), waits.stderr) == (9, "")
    assert is_free(one.server, key)


def test_a_node_that_is_gone(nodes, key, run, witness):
    # The other node replies that the cluster is down, which does not count as a reply.
    one, two = nodes
    command = witness("beat")
    held = run(seed(one, two), "--lease", scaled(3), "--timeout", scaled(2), key, *command.words)
    command.wait_begun()
    two.server.kill()
    assert held.wait() == LOST
