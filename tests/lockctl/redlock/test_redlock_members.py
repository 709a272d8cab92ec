"""RedLock needs independent masters: what is no majority of those is refused, with the reason."""

import pytest

from harness import scaled, wait_for
from harness.schedule import as_map
from model.cluster_scene import HALF, LAST, Node, make_nodes
from runs import NOT_HAD, UNAVAILABLE

KEY = "lock"


def names(*servers):
    return [word for server in servers for word in ("-u", f"redis://127.0.0.1:{server.port}")]


@pytest.fixture
def refused(run, tmp_path):
    """refused(words): the message of a `lockctl run` that does not start the command, with status 69."""

    def start(*words):
        one = run(None, *words, KEY, "touch", tmp_path / "started")
        assert one.wait() == UNAVAILABLE
        assert not (tmp_path / "started").exists()
        return one.stderr

    return start


WAITS = pytest.mark.parametrize("wait", [[], ["--wait", 0]], ids=["wait", "try once"])


# Servers that are not independent


@WAITS
def test_a_master_and_its_replicas(make_server, refused, wait):
    master = make_server()
    one, two = master.start_replica(), master.start_replica()
    text = refused(*wait, *names(master, one, two))
    assert text in [f"lockctl: {KEY}: 127.0.0.1:{port} is a replica: a majority needs independent servers\n" for port in (one.port, two.port)]
    assert master.control.execute_command("LOCK.INFO", KEY) is None


@WAITS
@pytest.mark.parametrize("url", ["redis://127.0.0.1:{port}", "redis://localhost:{port}", "redis://127.0.0.1:{port}/0"])
def test_one_server_under_two_names(make_server, refused, wait, url):
    one, two = make_server(), make_server()
    text = refused(*wait, *names(one, two), "-u", url.format(port=one.port))
    assert "are the same server: a majority needs independent servers" in text
    assert str(one.port) in text and str(two.port) not in text
    assert one.control.execute_command("LOCK.INFO", KEY) is None
    assert two.control.execute_command("LOCK.INFO", KEY) is None


def test_one_server_by_its_socket(make_server, refused, tmp_path):
    path = tmp_path / "socket"
    one, two = make_server(unixsocket=path), make_server()
    assert "are the same server" in refused(*names(one, two), "-u", f"unix://{path}")


def test_another_server_that_is_restarted_is_another(make_ring, lock_run):
    ring = make_ring(3)
    run = lock_run(ring, "-l", f"{scaled(2):g}")
    owner = run.wait_holds().owner
    ring.wait_held(owner, 0, 1, 2)
    ring.kill(0)
    ring.start(0)
    ring.wait_held(owner, 0)
    assert run.finish() == (0, "")


@WAITS
def test_masters_of_one_cluster(make_server, refused, wait):
    nodes = three_nodes(make_server)
    text = refused(*wait, *names(*(node.server for node in nodes)))
    assert "are nodes of one cluster: a majority needs independent servers" in text


def three_nodes(make_server):
    nodes = [Node(make_server(cluster_enabled="yes", cluster_node_timeout=3000)) for _ in range(3)]
    ranges = (0, 5000), (5001, 10000), (10001, LAST)
    for number, (node, (first, last)) in enumerate(zip(nodes, ranges, strict=True)):
        node.cluster("ADDSLOTSRANGE", first, last)
        node.cluster("SET-CONFIG-EPOCH", number + 1)
    for node in nodes[1:]:
        bus = node.server.control.config_get("cluster-port")["cluster-port"]
        nodes[0].cluster("MEET", "127.0.0.1", node.server.port, bus)
    for node in nodes:
        wait_for(node.is_up, 20, "the cluster to be whole")
        wait_for(lambda node=node: len(node.cluster("NODES").split("\n")) >= 4, 20, "the nodes to know each other")
    return nodes


def test_clusters_of_their_own_are_independent(make_server, run):
    clusters = [make_nodes(make_server) for _ in range(3)]
    key = next(name for name in map(str, range(1000)) if clusters[0][0].cluster("KEYSLOT", name) > HALF)
    words = [word for one, _ in clusters for word in ("-u", f"redis+cluster://127.0.0.1:{one.server.port}")]
    # The lock is on the second node of each.
    for wait in [], ["--wait", 0]:
        done = run(None, *words, *wait, key, "sh", "-c", "exit 9")
        assert (done.wait(), done.stderr) == (9, "")


def test_a_name_that_leads_to_another_server_later(make_ring, lock_run):
    # While the lock is held: the name counts as a server that has lost the lock, and the other two are a majority.
    ring = make_ring(3, proxied=True)
    run = lock_run(ring, "-l", f"{scaled(1):g}")
    owner = run.wait_holds().owner
    ring.wait_held(owner, 0, 1, 2)
    ring.proxies[0].target = ring.servers[1].port
    ring.proxies[0].close_all()
    before = ring.calls(1, "lock.renew")
    wait_for(lambda: ring.calls(1, "lock.renew") > before + 3, 20, "some renewals")
    assert run.lives_on()
    status, text = run.finish()
    assert status == 0
    assert "are the same server" in text


def test_a_majority_that_leads_to_one_server_later(make_ring, lock_run):
    ring = make_ring(3, proxied=True)
    run = lock_run(ring, "-l", f"{scaled(1):g}")
    run.wait_holds()
    for number in (0, 2):
        ring.proxies[number].target = ring.servers[1].port
        ring.proxies[number].close_all()
    assert run.end()[0] == 76


# Users who may not do everything


def limited(server, *rules):
    server.control.execute_command("ACL", "SETUSER", "some", "on", ">secret", "~*", "-@all", "+lock.acquire", "+lock.renew", "+lock.release", *rules)
    return ["-u", f"redis://some:secret@127.0.0.1:{server.port}"]


def test_a_user_without_info(make_server, run):
    words = [word for _ in range(3) for word in limited(make_server())]
    done = run(None, *words, KEY, "sh", "-c", "exit 9")
    assert (done.wait(), done.stderr) == (9, "")


def test_a_user_without_info_on_a_replica(make_server, refused):
    master = make_server()
    replica = master.start_replica()
    words = [word for server in (master, replica, make_server()) for word in limited(server)]
    assert f"127.0.0.1:{replica.port} is a replica" in refused(*words)


def test_a_user_with_info_of_one_server(make_server, refused):
    one, two = make_server(), make_server()
    words = limited(one, "+info")
    assert "are the same server" in refused(*words, *words, *limited(two))


def test_a_user_who_may_not_lock(make_server, refused):
    servers = [make_server() for _ in range(3)]
    for server in servers:
        limited(server, "-lock.acquire")
    words = [word for server in servers for word in ("-u", f"redis://some:secret@127.0.0.1:{server.port}")]
    text = refused(*words)
    assert "NOPERM" in text and text.count("NOPERM") == 1  # the reason of all


# A majority that refuses


@WAITS
def test_a_majority_cannot_write(make_server, refused, wait):
    # Which only the error of the acquisition shows.
    servers = [make_server() for _ in range(3)]
    for server in servers[:2]:
        server.control.config_set("min-replicas-to-write", 1)
    text = refused(*wait, "--timeout", scaled(0.5), *names(*servers))
    assert "NOREPLICAS" in text and "another client" not in text
    assert servers[2].control.execute_command("LOCK.INFO", KEY) is None


def test_different_reasons_are_all_named(make_server, refused):
    one, two, three = (make_server() for _ in range(3))
    one.control.config_set("min-replicas-to-write", 1)
    words = limited(two, "-lock.acquire")
    text = refused("--timeout", scaled(0.5), *names(one), *words, *names(three))
    assert f"127.0.0.1:{one.port}: NOREPLICAS" in text and f"127.0.0.1:{two.port}: NOPERM" in text


@WAITS
def test_a_majority_cannot_grant_it_now(make_server, refused, wait):
    # Two servers in cluster mode that serve no slot yet: lockctl gives them --timeout.
    servers = [make_server(cluster_enabled="yes"), make_server(cluster_enabled="yes"), make_server()]
    text = refused(*wait, "--timeout", scaled(0.5), *names(*servers))
    assert "CLUSTERDOWN" in text and "another client" not in text
    assert servers[2].control.execute_command("LOCK.INFO", KEY) is None


def test_a_server_that_serves_a_slot_a_little_later(make_server, run):
    nodes = [Node(make_server(cluster_enabled="yes")) for _ in range(3)]
    words = names(*(node.server for node in nodes))
    waiter = run(None, "--wait", 0, "--timeout", scaled(20), *words, KEY, "sh", "-c", "exit 9")
    stats = lambda node: node.server.info("commandstats")  # noqa: E731
    wait_for(lambda: all(any("lock.acquire" in name.lower() for name in stats(node)) for node in nodes), 20, "requests")
    for node in nodes:
        node.cluster("ADDSLOTSRANGE", 0, LAST)
    assert waiter.wait() == 9


def test_another_client_is_still_another_client(make_server, run):
    # One refuses, but the other two could be a majority.
    one, two, three = (make_server() for _ in range(3))
    one.control.config_set("min-replicas-to-write", 1)
    two.control.execute_command("LOCK.ACQUIRE", KEY, "o", "PX", 3_600_000)
    done = run(None, "--wait", 0, *names(one, two, three), KEY, "true")
    assert (done.wait(), done.stderr) == (NOT_HAD, f"lockctl: {KEY}: another client holds the lock\n")
    assert as_map(two.control.execute_command("LOCK.INFO", KEY))["holders"]
