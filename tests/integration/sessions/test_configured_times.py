"""lock.session-grace and lock.default-lease are changed while sessions are connected or in their grace; and sessions
whose data has been flushed."""

import pytest

from harness import scaled_ms, wait_for
from model.session_scene import LEASE, LONG, holders, leases_pass, sessions, wait_free, wait_noticed

LONGEST = 10**15  # the longest time that a setting accepts


@pytest.fixture
def server(make_server):
    """A server on which no session ends by itself, and none is renewed."""
    return make_server(lock_session_grace=LONGEST, lock_default_lease=LONGEST, databases=4)


def bind(server, *keys, db=0):
    client = server.actor(db=db)
    for key in keys or ("k",):
        assert client.call("LOCK.ACQUIRE", key, "o", "SESSION") == 1
    return client


def bind_and_close(server, *keys, db=0):
    bind(server, *keys, db=db).kill_socket()
    wait_noticed(server, (keys or ("k",))[0], db)


def no_session_is_left(server):
    wait_for(lambda: sessions(server) == 0, what="no session to be counted")


def test_lower_grace_ends_the_grace_of_closed_sessions(server):
    bind_and_close(server, "k", "l")
    server.control.config_set("lock.session-grace", 0)
    wait_free(server, "k", "l")
    no_session_is_left(server)


def test_lower_grace_counts_from_the_close(server):
    bind_and_close(server)
    server.let_pass(scaled_ms(300))
    before = server.now_ms()
    server.control.config_set("lock.session-grace", scaled_ms(10_000))
    server.control.config_set("lock.session-grace", scaled_ms(200))
    wait_free(server)
    assert server.now_ms() - before < scaled_ms(5_000)


def test_higher_grace_prolongs_the_grace_of_closed_sessions(server):
    server.control.config_set("lock.session-grace", scaled_ms(200))
    client = bind(server)
    server.control.execute_command("CLIENT", "PAUSE", scaled_ms(60_000), "WRITE")  # nothing is released meanwhile
    client.kill_socket()
    wait_noticed(server)
    server.control.config_set("lock.session-grace", LONGEST)
    server.control.execute_command("CLIENT", "UNPAUSE")
    server.let_pass(scaled_ms(300))
    assert holders(server) == {("o", "exclusive"): (1, None)}


FLUSHES = ["FLUSHALL", "FLUSHALL ASYNC", "FLUSHDB", "FLUSHDB ASYNC"]


@pytest.mark.parametrize("flush", FLUSHES)
@pytest.mark.parametrize("begin", [bind, bind_and_close])
def test_flushed_sessions_are_not_counted(server, begin, flush):
    kept = begin(server, "k", "l")
    server.control.execute_command(*flush.split())
    no_session_is_left(server)
    del kept


def test_flush_after_the_grace_was_lowered_forgets_the_session(server):
    bind_and_close(server)
    server.control.config_set("lock.session-grace", 1)
    server.control.flushall()
    no_session_is_left(server)


def test_flush_of_another_database_keeps_sessions(server):
    clients = [bind(server, f"k{number}", db=number) for number in range(3)]
    bind_and_close(server, "closed", db=3)
    server.client(db=1).flushdb()
    wait_for(lambda: sessions(server) == 3, what="the flushed session to be forgotten")
    assert [holders(server, f"k{number}", number) for number in (0, 2)] == [
        {("o", "exclusive"): (1, clients[number].client_id)} for number in (0, 2)
    ]
    server.control.config_set("lock.session-grace", 0)
    wait_free(server, "closed", db=3)


def test_flush_forgets_thousands_of_sessions_of_its_database(server):
    """As many sessions are connected as have closed; those of another database are kept."""
    keys = [f"k{number}" for number in range(2000)]
    alive, stays = bind(server, *keys), bind(server, "stays", db=1)
    bind_and_close(server, *[f"closed{number}" for number in range(2000)])
    assert sessions(server) == 4001
    server.control.flushdb()
    wait_for(lambda: sessions(server) == 1, 10, "the sessions of the database to be forgotten")
    assert alive.call("LOCK.ACQUIRE", "k0", "o", "SESSION") == 1
    assert sessions(server) == 2
    del stays


def test_reload_without_the_data_forgets_sessions(make_server):
    server = make_server(lock_session_grace=LONGEST, lock_default_lease=LONGEST)
    server.control.save()
    client = bind(server)
    server.control.execute_command("DEBUG", "RELOAD", "NOSAVE")
    no_session_is_left(server)
    assert client.call("EXISTS", "k") == 0


def test_lower_default_lease_applies_within_a_third_of_it(server):
    """Otherwise a crash would leave a lease of the old length."""
    client = bind(server)
    server.control.config_set("lock.default-lease", LEASE)
    wait_for(lambda: 0 < server.control.pttl("k") <= LEASE, what="the lease to have the new length")
    assert client.call("LOCK.RELEASE", "k", "o") == 0


def test_short_lease_is_renewed_when_the_default_is_extended(server):
    server.control.config_set("lock.default-lease", LEASE)
    early = bind(server, "early")
    server.control.config_set("lock.default-lease", LONGEST)
    late = bind(server, "late")
    leases_pass(server)
    assert holders(server, "early") == {("o", "exclusive"): (1, early.client_id)}
    assert holders(server, "late") == {("o", "exclusive"): (1, late.client_id)}


def test_leases_are_renewed_in_time_when_the_default_changes_often(server):
    clients = []
    for number, lease in enumerate((LONGEST, LEASE, LONGEST, 2 * LEASE, LONGEST, LEASE)):
        server.control.config_set("lock.default-lease", lease)
        clients.append(bind(server, f"k{number}"))
    leases_pass(server, 6)
    for number, client in enumerate(clients):
        assert holders(server, f"k{number}") == {("o", "exclusive"): (1, client.client_id)}
    wait_for(lambda: max(server.control.pttl(f"k{number}") for number in range(6)) <= LEASE, what="short leases")
