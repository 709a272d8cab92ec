"""Sessions on a replica, after a promotion, a demotion, a restart, and without the module."""

from harness import scaled_ms, wait_for_sync
from model.session_scene import COMMANDS, GRACE, LEASE, each_command, holders, leases_pass, session, sessions
from model.session_scene import server, short_leases, wait_free  # noqa: F401


def test_replica_receives_renewals_and_releases(server, actor, short_leases):
    replica = server.start_replica()
    a = actor(db=2)
    for command in COMMANDS:
        a.call(command, command, "o", "SESSION")
    leases_pass(server)
    wait_for_sync(server, replica)
    with replica.client(db=2) as client:
        assert client.exists(*COMMANDS) == 4
        assert min(client.pttl(key) for key in COMMANDS) > 0
    assert holders(replica, "LOCK.ACQUIRE", db=2) == {("o", "exclusive"): (1, None)}
    a.kill_socket()
    wait_free(server, *COMMANDS, db=2)
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump() == {}


@each_command
def test_promoted_replica_keeps_the_hold_up_to_its_lease(make_server, command):
    lease = scaled_ms(1500)
    master = make_server(lock_default_lease=lease, lock_session_grace=GRACE)
    replica = master.start_replica(lock_default_lease=lease, lock_session_grace=GRACE)
    master.actor().call(command, "k", "o", "SESSION")
    master.let_pass(lease)
    wait_for_sync(master, replica)
    master.kill()
    replica.control.execute_command("REPLICAOF", "NO", "ONE")
    assert session(replica) is None
    left = replica.control.pttl("k")
    assert 0 < left <= lease
    taker = replica.actor()
    taker.send("LOCK.RWWRITE" if "RW" in command else command, "k", "w", "BLOCK", 0)
    assert taker.reply(timeout=10) == 1


def test_promoted_replica_can_bind_the_hold_again(make_server):
    lease = scaled_ms(1500)
    master = make_server(lock_default_lease=lease)
    replica = master.start_replica(lock_default_lease=lease, lock_session_grace=GRACE)
    master.actor().call("LOCK.ACQUIRE", "k", "o", "SESSION")
    wait_for_sync(master, replica)
    master.kill()
    replica.control.execute_command("REPLICAOF", "NO", "ONE")
    again = replica.actor()
    assert again.call("LOCK.RENEW", "k", "o", "SESSION") == 1
    replica.let_pass(lease * 3 // 2)
    assert session(replica) == again.client_id
    again.kill_socket()
    wait_free(replica)


def test_hold_lasts_as_long_as_its_lease_after_a_restart(make_server):
    server = make_server(appendonly="yes", lock_default_lease=scaled_ms(3000))
    server.actor().call("LOCK.ACQUIRE", "k", "o", "SESSION")
    before = server.dump()
    server.kill()
    server.start()
    assert server.dump() == before
    assert session(server) is None
    wait_free(server)


def test_demoted_master_writes_nothing_more(make_server):
    """Only the new master renews and releases."""
    master = make_server()
    old = make_server(appendonly="yes", lock_default_lease=LEASE, lock_session_grace=GRACE)
    a, b = old.actor(), old.actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    b.call("LOCK.ACQUIRE", "l", "o", "SESSION")
    master.control.hset("k", "o", 1)
    master.control.hset("l", "o", 1)
    old.control.execute_command("REPLICAOF", "127.0.0.1", master.port)
    wait_for_sync(master, old)
    a.kill_socket()
    old.let_pass(3 * LEASE)
    assert old.dump() == master.dump()
    assert old.is_running() and set(old.control.keys("*")) == {"k", "l"}
    assert session(old, "l") is None
    old.control.execute_command("REPLICAOF", "NO", "ONE")
    old.let_pass(3 * GRACE)
    assert old.control.hgetall("k") == {"o": "1"}, "a hold of the new master was released"


def test_demotion_for_a_moment_forgets_sessions(make_server):
    server = make_server(lock_session_grace=GRACE)
    a, b = server.actor(), server.actor()
    for key, client in (("k", a), ("l", b)):
        client.call("LOCK.ACQUIRE", key, "o", "SESSION")
    server.control.execute_command("REPLICAOF", "127.0.0.1", 1)
    assert session(server, "l") is None
    server.control.execute_command("REPLICAOF", "NO", "ONE")
    assert sessions(server) == 0
    a.kill_socket()
    server.let_pass(3 * GRACE)
    assert server.control.exists("k", "l") == 2
    assert b.call("LOCK.RENEW", "l", "o", "SESSION") == 1
    assert session(server, "l") == b.client_id


def test_demotion_for_a_moment_releases_no_closed_session(make_server):
    """The connection closes before the demotion, and its grace ends after it: all commands are in one packet."""
    grace = scaled_ms(500)
    server = make_server(lock_session_grace=grace)
    a = server.actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    pipeline = server.control.pipeline(transaction=False)
    for command in (f"CLIENT KILL ID {a.client_id}", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"):
        pipeline.execute_command(*command.split())
    pipeline.execute()
    assert sessions(server) == 0
    server.let_pass(2 * grace)
    assert server.control.hgetall("k") == {"o": "1"}


def test_unload_is_refused_or_the_hold_lasts_as_long_as_its_lease(make_server):
    server = make_server(lock_session_grace=GRACE, lock_default_lease=scaled_ms(3000))
    a = server.actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    if not server.unloads():
        assert a.call("LOCK.ACQUIRE", "k", "o", "SESSION") == 2
        a.kill_socket()
        wait_free(server)
        server.unload()  # no session is left
        return
    assert 0 < server.control.pttl("k") <= scaled_ms(3000)
    a.kill_socket()
    wait_free(server)
