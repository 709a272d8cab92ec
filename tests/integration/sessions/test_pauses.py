"""Sessions while clients are paused, or the server has no memory left for writes."""

from harness import scaled_ms, wait_for
from model.session_scene import GRACE, LONG, begin_to_wait, holders, leases_pass, session, wait_free, wait_noticed
from model.session_scene import server, short_leases  # noqa: F401


def test_session_that_ends_during_a_pause_is_released_after_it(make_server):
    server = make_server(appendonly="yes", lock_session_grace=GRACE)
    server.start_replica()
    a, b = server.actor(), server.actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    b.call("LOCK.ACQUIRE", "l", "o", "SESSION")
    c = begin_to_wait(server.actor, "w")
    server.control.execute_command("CLIENT", "PAUSE", LONG, "WRITE")
    a.kill_socket()
    wait_noticed(server)
    server.let_pass(3 * GRACE)
    assert not c.has_reply()
    server.control.execute_command("CLIENT", "UNPAUSE")
    assert c.reply() == 1
    assert session(server, "l") == b.client_id


def test_session_that_ends_during_a_pause_of_all_is_released_after_it(make_server):
    """Such a pause also delays the command that would end it."""
    server = make_server(appendonly="yes", lock_session_grace=GRACE)
    server.start_replica()
    a = server.actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    c = begin_to_wait(server.actor, "w")
    server.control.execute_command("CLIENT", "PAUSE", 5 * GRACE, "ALL")
    a.kill_socket()
    assert c.reply() == 1
    assert holders(server) == {("w", "exclusive"): (1, None)}


def test_renewal_waits_for_the_end_of_a_pause(make_server):
    """A write while paused would end the server."""
    server = make_server(appendonly="yes", lock_default_lease=scaled_ms(1500))
    server.start_replica()
    a, other = server.actor(), server.actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    other.call("CLIENT", "PAUSE", LONG, "WRITE")
    server.let_pass(scaled_ms(900))
    before = other.call("PTTL", "k")
    assert before < scaled_ms(900), "renewed while paused"
    other.call("CLIENT", "UNPAUSE")
    wait_for(lambda: other.call("PTTL", "k") > before, what="the renewal")
    assert session(server) == a.client_id


def test_session_is_renewed_and_released_without_memory(server, actor, short_leases):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    server.control.config_set("maxmemory", 1)
    leases_pass(server, 2)
    assert session(server) == a.client_id
    a.kill_socket()
    wait_free(server)
