"""Two features at one lock: sessions, reserved positions, several keys, guards, swaps, loads, limits.

Each feature has its own files; here are combinations.
"""

import pytest

from harness import code_of, scaled_ms, wait_for
from harness.listener import Listener
from harness.schedule import as_map
from model.fair_scene import ask, detached, end_all_positions, hold, lose, order, release
from model.gone_scene import GrantScene
from model.session_scene import GRACE, LEASE, LONG, begin_to_wait, grace_passes, holders, session, sessions, wait_free

BOTH = ("k", "l")
FREE = ("redisson_lock__channel:{k}", "0")


@pytest.fixture
def server(server):
    server.control.config_set("lock.session-grace", GRACE)
    server.control.config_set("lock.fair-reserve", LONG)
    yield server
    server.control.config_set("lock.max-waiters", 0)
    end_all_positions(server)


def takes(client, *words):
    assert client.call(*words) == 1
    return client


def waits_for_both(actor, owner, *options):
    client = actor(owner)
    client.send("LOCK.MACQUIRE", 2, *BOTH, owner, "BLOCK", 0, *options)
    return client.wait_blocked()


def owner_of(server, key="k", db=0):
    return {owner for owner, _ in holders(server, key, db)}


# ---- several keys and sessions ----


@pytest.mark.parametrize("end", ["LOCK.RELEASE l x", "LOCK.FORCE l", "DEL l", "PEXPIRE l 1"])
def test_multikey_wait_binds_all_keys_to_the_session(server, actor, end):
    """Whatever frees the last of them; and the end of the connection hands each of them off."""
    server.control.execute_command("LOCK.ACQUIRE", "l", "x")
    first = waits_for_both(actor, "o", "SESSION")
    server.control.execute_command(*end.split())
    assert first.reply() == 2
    assert [session(server, key) for key in BOTH] == [first.client_id] * 2
    behind = [begin_to_wait(actor, f"w{key}", key=key) for key in BOTH]
    first.kill_socket()
    assert [waiter.reply() for waiter in behind] == [1, 1]


def test_cancelled_multikey_wait_keeps_the_session_of_its_owner(server, actor):
    """The session of the owner at k is bound to another connection, which stays open."""
    bound = takes(actor(), "LOCK.ACQUIRE", "k", "o", "SESSION")
    server.control.execute_command("LOCK.ACQUIRE", "l", "x")
    waits = waits_for_both(actor, "o", "SESSION")
    assert server.control.execute_command("LOCK.CANCEL", "l", "o") == 1
    assert waits.reply() is None
    waits.kill_socket()
    grace_passes(server)
    assert holders(server) == {("o", "exclusive"): (1, bound.client_id)}
    bound.kill_socket()
    wait_free(server, "k")


def test_released_keys_of_a_session_are_not_bound_any_more(server, actor):
    """The next hold of one of them is not bound."""
    first = actor()
    assert first.call("LOCK.MACQUIRE", 2, *BOTH, "o", "SESSION") == 2
    assert first.call("LOCK.MRELEASE", 2, *BOTH, "o") == 2
    takes(actor(), "LOCK.ACQUIRE", "k", "o", "PX", LONG)
    first.kill_socket()
    grace_passes(server)
    assert holders(server) == {("o", "exclusive"): (1, None)}


def test_multikey_wait_continues_until_a_session_and_a_lease_have_ended(server, actor):
    reader = takes(actor(), "LOCK.RWREAD", "k", "a", "SESSION")
    assert server.control.execute_command("LOCK.RWREAD", "k", "b", "PX", LONG) == 1
    both = waits_for_both(actor, "o")
    reader.kill_socket()
    wait_for(lambda: owner_of(server) == {"b"}, what="the reader's session to end")
    assert both.is_blocked() and not server.control.exists("l")
    assert server.control.execute_command("LOCK.RENEW", "k", "b", "PX", 50) == 1
    assert both.reply() == 2


# ---- sessions and waiters ----


def test_upgrade_waits_as_a_write_after_its_read_ended_with_its_session(server, actor):
    """Its owner waits at the head, on a different connection than the one that reads."""
    reads = takes(actor(), "LOCK.RWREAD", "k", "o", "SESSION")
    takes(actor(), "LOCK.RWREAD", "k", "p", "PX", LONG)
    upgrade = begin_to_wait(actor, "o", "PX", LONG, command="LOCK.RWWRITE")
    behind = begin_to_wait(actor, "q", "PX", LONG, command="LOCK.RWWRITE")
    reads.kill_socket()
    wait_for(lambda: owner_of(server) == {"p"}, what="the session to end")
    assert upgrade.is_blocked()
    assert server.control.execute_command("LOCK.RELEASE", "k", "p") == 0
    assert upgrade.reply() == 1
    assert server.control.hgetall("k") == {"mode": "write", "o:write": "1"}
    assert behind.is_blocked()


def test_session_is_bound_to_the_connection_that_took_the_position(server, actor):
    """The first connections have died or received null; the owner reconnects."""
    hold(server, "x")
    dies = begin_to_wait(actor, "o", "SESSION", command="LOCK.FAIR")
    dies.kill_socket()
    wait_for(lambda: detached(server) == ["o"], what="the position to be reserved")
    answered = begin_to_wait(actor, "o", "SESSION", command="LOCK.FAIR")
    last = begin_to_wait(actor, "o", "SESSION", command="LOCK.FAIR")
    assert answered.reply() is None
    release(server, "x")
    assert last.reply() == 1
    answered.kill_socket()
    grace_passes(server)
    assert holders(server) == {("o", "exclusive"): (1, last.client_id)}
    last.kill_socket()
    wait_free(server)


def test_closed_connection_releases_its_hold_and_keeps_its_position(server, actor):
    """The hold is released; the position is reserved, and its owner may bind it again."""
    hold(server, "x", key="l")
    both = takes(actor(), "LOCK.ACQUIRE", "k", "o", "SESSION")
    both.send("LOCK.FAIR", "l", "o", "BLOCK", 0, "SESSION")
    both.wait_blocked()
    behind = ask(server, "p", key="l")
    both.kill_socket()
    wait_free(server, "k")
    assert (order(server, "l"), detached(server, "l")) == (["o", "p"], ["o"])
    again = begin_to_wait(actor, "o", "SESSION", command="LOCK.FAIR", key="l")
    release(server, "x", "l")
    assert again.reply() == 1
    assert session(server, "l") == again.client_id
    again.kill_socket()
    assert behind.reply() == 1


# ---- reserved positions ----


def test_owner_of_a_reserved_position_counts_for_max_waiters(server, actor):
    """If its request is refused, its position remains."""
    hold(server, "x")
    lose(server, ask(server, "o"))
    waiter = ask(server, "p")
    server.control.config_set("lock.max-waiters", 1)
    again = actor()
    assert code_of(again.attempt("LOCK.FAIR", "k", "o", "BLOCK", 0)) == "ERR"
    assert (order(server), detached(server)) == (["o", "p"], ["o"])
    server.control.config_set("lock.max-waiters", 2)
    again.send("LOCK.FAIR", "k", "o", "BLOCK", 0)
    again.wait_blocked()
    assert (order(server), detached(server)) == (["o", "p"], [])
    release(server, "x")
    assert again.reply() == 1 and waiter.is_blocked()


@pytest.mark.parametrize("end", ["LOCK.CANCEL k o", "FLUSHDB", "LOCK.FAIR k o"])
def test_multikey_wait_is_granted_when_the_reserved_position_ends(server, actor, end):
    """Both keys are free, except for the reserved position at one of them."""
    hold(server, "x")
    lose(server, ask(server, "o"))
    both = waits_for_both(actor, "p")
    release(server, "x")
    assert both.is_blocked()
    server.control.execute_command(*end.split())
    if "FAIR" in end:
        assert both.is_blocked()
        release(server, "o")
    assert both.reply() == 2


# ---- loads and swaps of the data ----


def test_session_survives_a_load(make_server):
    lease = scaled_ms(2000)  # longer than a reload takes
    server = make_server(lock_default_lease=lease, lock_session_grace=GRACE)
    first = takes(server.actor(), "LOCK.RWREAD", "k", "o", "SESSION")
    server.control.execute_command("LOCK.RWREAD", "k", "p", "PX", LONG)
    waiter = begin_to_wait(server.actor, "w", command="LOCK.RWWRITE")
    server.control.execute_command("DEBUG", "RELOAD")
    server.let_pass(lease + LEASE)
    assert holders(server) == {("o", "read"): (1, first.client_id), ("p", "read"): (1, None)}
    assert server.control.execute_command("LOCK.RELEASE", "k", "p") == 0
    first.kill_socket()
    assert waiter.reply() == 1
    assert sessions(server) == 0


def test_swap_grants_several_keys_and_moves_their_session(server, actor):
    for key in BOTH:
        server.control.execute_command("LOCK.ACQUIRE", key, "x", "PX", LONG)
    both = waits_for_both(actor, "o", "SESSION")
    server.control.swapdb(0, 1)
    assert both.reply() == 2
    assert [session(server, key) for key in BOTH] == [both.client_id] * 2
    server.control.swapdb(0, 1)
    assert [owner_of(server, key) for key in BOTH] == [{"x"}] * 2
    both.kill_socket()
    wait_free(server, *BOTH, db=1)
    assert [owner_of(server, key) for key in BOTH] == [{"x"}] * 2


def test_persist_keeps_a_session_bound_and_another_reader_without_lease(make_server):
    server = make_server(lock_default_lease=LEASE, lock_session_grace=GRACE)
    first = takes(server.actor(), "LOCK.RWREAD", "k", "o", "SESSION")
    with server.control.pipeline() as both:  # in one step: the lease is short
        both.execute_command("LOCK.RWREAD", "k", "p", "PX", LEASE)
        both.persist("k")
        assert both.execute() == [1, True]
    server.let_pass(3 * LEASE)
    assert holders(server) == {("o", "read"): (1, first.client_id), ("p", "read"): (1, None)}
    assert server.control.ttl("k") == -1
    first.kill_socket()
    wait_for(lambda: owner_of(server) == {"p"}, what="the session to end")
    assert server.control.ttl("k") == -1


# ---- messages and tokens ----


def test_redisson_message_when_a_session_ends(server, actor):
    server.control.config_set("lock.redisson-interop", "yes")
    first, listener = takes(actor(), "LOCK.ACQUIRE", "k", "o", "SESSION"), Listener(server)
    first.kill_socket()
    wait_free(server)
    assert listener.new_messages() == [FREE]


def test_redisson_message_when_a_grant_to_a_dead_waiter_is_released(server):
    server.control.config_set("lock.redisson-interop", "yes")
    scene = GrantScene(server)
    assert server.control.execute_command("LOCK.CANCEL", "k", "oc") == 1
    listener = Listener(server)
    scene.send_at_once("LOCK.RELEASE k oa", "CLIENT KILL ID {b}")
    wait_for(lambda: not server.control.exists("k"), what="the hold to be released")
    assert listener.new_messages() == [FREE]


def test_token_of_a_lost_grant_is_not_used_again(server, actor):
    server.control.execute_command("LOCK.ACQUIRE", "k", "x")
    dies, waiter = (begin_to_wait(actor, owner, "FENCED") for owner in "op")
    pipeline = server.control.pipeline(transaction=False)
    for command in ("LOCK.RELEASE k x", f"CLIENT KILL ID {dies.client_id}", "HGET lock:token:{k} token"):
        pipeline.execute_command(*command.split())
    lost = int(pipeline.execute()[-1])
    assert waiter.reply() > lost > 0


# ---- guards ----


@pytest.mark.parametrize("inner", ["LOCK.FORCE k", "LOCK.MRELEASE 2 k l o", "DEL k"])
def test_guard_that_frees_its_own_lock_grants_a_multikey_waiter(server, actor, inner):
    """In one step if the inner command is one of the module."""
    first = actor()
    assert first.call("LOCK.MACQUIRE", 2, *BOTH, "o", "SESSION") == 2
    both = waits_for_both(actor, "p", "PX", LONG)
    first.call("LOCK.GUARD", "k", "o", *inner.split())
    if "MRELEASE" not in inner:
        assert both.is_blocked()
        assert first.call("LOCK.RELEASE", "l", "o") == 0
    assert both.reply() == 2
    first.kill_socket()
    grace_passes(server)
    assert [owner_of(server, key) for key in BOTH] == [{"p"}] * 2


def test_guard_may_cancel_a_wait_of_its_owner(server, actor):
    """The fair position of the owner at l is removed, and its session at k remains."""
    hold(server, "x", key="l")
    first = takes(actor(), "LOCK.ACQUIRE", "k", "o", "SESSION")
    waits, behind = ask(server, "o", key="l"), ask(server, "p", key="l")
    assert first.call("LOCK.GUARD", "k", "o", "LOCK.CANCEL", "l", "o") == 1
    assert waits.reply() is None
    release(server, "x", "l")
    assert behind.reply() == 1
    assert session(server) == first.client_id
    assert as_map(server.control.execute_command("LOCK.INFO", "l"))["waiting"] == 0


def test_lease_of_a_reader_expires_during_the_grace_of_another(server, actor):
    """Both holds end, and the waiting writer is granted; no hold is released twice."""
    server.control.config_set("lock.session-grace", scaled_ms(200))
    first = takes(actor(), "LOCK.RWREAD", "k", "o", "SESSION")
    takes(actor(), "LOCK.RWREAD", "k", "p", "PX", scaled_ms(100))
    waiter = begin_to_wait(actor, "w", "PX", LONG, command="LOCK.RWWRITE")
    first.kill_socket()
    assert waiter.reply() == 1
    assert server.control.hgetall("k") == {"mode": "write", "w:write": "1"}
    assert server.control.pttl("k") > LONG - 60_000
