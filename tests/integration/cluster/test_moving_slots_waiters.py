"""Clients that wait for a lock, or have bound it to a connection, while its slot moves to another node key by key."""

from itertools import islice

import pytest

from harness import wait_for
from model.cluster_scene import LONG, begin_move, is_redirection, migrate
from model.moving_scene import SHORT, TRY_AGAIN, assert_nothing_twice, call_off, ends_of, finish_move, as_text, keys_in
from model.moving_scene import names_of, side

# ---- waiters when the slot begins to move ----

WAITS = {
    "fair": "LOCK.FAIR {} {} BLOCK 0",
    "fenced": "LOCK.ACQUIRE {} {} FENCED BLOCK 0",
    "read": "LOCK.RWREAD {} {} BLOCK 0",
    "write": "LOCK.RWWRITE {} {} BLOCK 0",
    "multikey-read": "LOCK.MACQUIRE 1 {} {} MODES READ BLOCK 0",
    "multikey-write": "LOCK.MACQUIRE 1 {} {} MODES WRITE BLOCK 0",
    "permits": "LOCK.SEMAPHORE {} {} 1 BLOCK 0",
    "plain": "LOCK.ACQUIRE {} {} BLOCK 0",
}


def begins_to_wait(node, words, name, owner):
    waiter = node.server.actor(owner)
    waiter.send(*words.format(name, owner).split())
    return waiter.wait_blocked()


def test_release_in_a_moving_slot_hands_off_to_a_waiter_without_side_keys(nodes):
    """The other waiters have to repeat their requests.

    So has that waiter if the server was interrupted during the release: the time slice has ended then, and the next
    check finds no key in the slot. One of some locks shows the hand-off.
    """
    one, two = nodes
    assert any(_is_handed_off(one, two, name) for name in islice(names_of(one), 5))
    for node in nodes:
        assert node.server.info("lock")["lock_waiters"] == 0
    wait_for(lambda: one.server.info("lock")["lock_contended_locks"] == 0, what="the locks to be gone from memory")


def _is_handed_off(one, two, name):
    slot = one.cluster("KEYSLOT", name)
    assert one.actor.call("LOCK.ACQUIRE", name, "oa", "PX", LONG) == 1
    waiters = {kind: begins_to_wait(one, words, name, kind) for kind, words in WAITS.items()}
    second = begins_to_wait(one, WAITS["plain"], name, "second")
    begin_move(slot, one, two)
    before = keys_in(one, slot)
    assert one.actor.call("LOCK.RELEASE", name, "oa") == 0
    granted = waiters.pop("plain").outcome()
    if granted != 1:
        for waiter in (*waiters.values(), second):
            assert is_redirection(waiter.outcome())
        assert is_redirection(granted)
        finish_move(slot, one, two)
        return False
    for waiter in waiters.values():
        assert str(waiter.outcome()) == TRY_AGAIN
    assert not second.has_reply()
    assert keys_in(one, slot) == before  # no token, no leases
    assert one.actor.call("HGETALL", name) == ["plain", "1"]
    migrate(name, one, two)
    assert is_redirection(second.outcome())
    finish_move(slot, one, two)
    assert two.actor.call("LOCK.RELEASE", name, "plain") == 0
    return True


@pytest.mark.parametrize("cause", ["lease end", "DEL"])
def test_lock_that_ends_in_a_moving_slot_leaves_no_client_hanging(nodes, cause):
    one, two = nodes
    for name, (kind, words) in zip(names_of(one), WAITS.items(), strict=False):
        slot = one.cluster("KEYSLOT", name)
        assert one.actor.call("LOCK.ACQUIRE", name, "oa", "PX", LONG) == 1
        waiter = begins_to_wait(one, words, name, kind)
        begin_move(slot, one, two)
        before = keys_in(one, slot)
        assert one.actor.call(*(("DEL", name) if cause == "DEL" else ("PEXPIRE", name, SHORT))) == 1
        assert is_redirection(waiter.outcome(timeout=10))
        assert keys_in(one, slot) - {name} == before - {name}  # an expired key may still exist
        finish_move(slot, one, two)
        # A multi-key request with modes is redirected as soon as it is checked, which may be before the lease has ended.
        assert two.actor.call("LOCK.FAIR", name, kind, "BLOCK", 0) == 1


def test_readers_that_wait_behind_a_writer_are_redirected(nodes, key):
    (one, two), (name, slot) = nodes, key
    assert one.actor.call("LOCK.RWWRITE", name, "oa", "PX", LONG) == 1
    assert one.actor.call("LOCK.RWREAD", name, "oa", "PX", LONG) == 1  # so that there is a set of leases
    readers = [begins_to_wait(one, WAITS["read"], name, f"o{number}") for number in range(3)]
    begin_move(slot, one, two)
    migrate(side("lease", name), one, two)
    assert str(one.actor.attempt("LOCK.RELEASE", name, "oa", "WRITE")) == TRY_AGAIN
    one.server.settle(30)
    assert not any(reader.has_reply() for reader in readers)
    finish_move(slot, one, two)
    for reader in readers:
        assert is_redirection(reader.outcome())
    assert two.actor.call("LOCK.RELEASE", name, "oa", "WRITE") == 0


def fair_wait(nodes, key, reserve_ms):
    (one, _), (name, _) = nodes, key
    one.server.control.config_set("lock.fair-reserve", reserve_ms)
    assert one.actor.call("LOCK.ACQUIRE", name, "oa", "PX", LONG) == 1
    return begins_to_wait(one, WAITS["fair"], name, "of")


def test_fair_waiter_that_dies_while_its_slot_moves_writes_nothing(nodes, key):
    """Its position is reserved for a while; the key with its deadline is on the other node."""
    (one, two), (name, slot) = nodes, key
    waiter = fair_wait(nodes, key, LONG)
    begin_move(slot, one, two)
    migrate(side("timeout", name), one, two)
    waiter.kill_socket()
    wait_for(lambda: one.server.info("lock")["lock_waiters"] == 0, what="the waiter to be gone")
    one.server.settle(30)
    assert one.actor.call("LOCK.RENEW", name, "oa", "PX", LONG) == 1
    assert_nothing_twice(nodes, slot)
    finish_move(slot, one, two)
    wait_for(lambda: one.server.info("lock")["lock_contended_locks"] == 0, 10, "the lock to be gone from memory")
    assert not keys_in(one, slot)


def test_position_that_has_expired_is_removed_when_the_move_is_aborted(nodes, key):
    (one, two), (name, slot) = nodes, key
    waiter = fair_wait(nodes, key, 1)
    begin_move(slot, one, two)
    waiter.kill_socket()
    wait_for(lambda: one.server.info("lock")["lock_waiters"] == 0, what="the waiter to be gone")
    one.server.settle(30)
    assert one.actor.call("ZRANGE", side("queue", name), 0, -1) == ["of"]
    call_off(nodes, slot)
    wait_for(lambda: keys_in(one, slot) == {name}, 10, "the position to be removed")
    wait_for(lambda: one.server.info("lock")["lock_contended_locks"] == 0, 10, "the lock to be gone from memory")


def test_positions_are_not_read_while_their_keys_move(nodes, key):
    """A plain request just after a start reads the keys of a fair queue, but not while only one of them is here."""
    (one, two), (name, slot) = nodes, key
    two.server.control.config_set("lock.fair-reserve", LONG)
    fair_wait(nodes, key, LONG)
    begin_move(slot, one, two)
    migrate(side("queue", name), one, two)
    migrate(name, one, two)
    assert ends_of(nodes)[1].attempt("LOCK.ACQUIRE", name, "ox") is None
    assert two.server.info("lock")["lock_contended_locks"] == 0
    finish_move(slot, one, two)
    assert two.actor.call("LOCK.RELEASE", name, "oa") == 0
    assert two.actor.call("LOCK.FAIR", name, "ox") is None
    assert two.actor.call("LOCK.FAIR", name, "of") == 1


def test_cancel_in_a_moving_slot_is_refused_only_for_a_fair_wait(nodes):
    """A wait that is only in memory is cancelled."""
    one, two = nodes
    for name, (kind, words) in zip(names_of(one), WAITS.items(), strict=False):
        slot = one.cluster("KEYSLOT", name)
        assert one.actor.call("LOCK.ACQUIRE", name, "oa", "PX", LONG) == 1
        waiter = begins_to_wait(one, words, name, kind)
        begin_move(slot, one, two)
        reply = as_text(one.actor.attempt("LOCK.CANCEL", name, kind))
        if kind == "fair":
            assert reply == TRY_AGAIN
            assert waiter.is_blocked()
            call_off(nodes, slot)
            assert one.actor.call("LOCK.CANCEL", name, kind) == 1
        else:
            assert reply == 1
        assert waiter.reply() is None


def test_cancelled_multikey_wait_grants_no_lock_held_on_the_other_node(nodes, key):
    """A lock that has only waiters has no key here, so in a moving slot it may be held on the other node."""
    (one, two), (name, slot) = nodes, key
    x, y = f"{{{name}}}x", f"{{{name}}}y"
    assert one.actor.call("LOCK.ACQUIRE", x, "oa", "PX", LONG) == 1
    both = one.server.actor("both")
    both.send("LOCK.MACQUIRE", 2, x, y, "ob", "BLOCK", 0)
    both.wait_blocked()
    behind = begins_to_wait(one, WAITS["plain"], y, "oc")
    begin_move(slot, one, two)
    two.actor.call("ASKING")
    assert two.actor.call("LOCK.ACQUIRE", y, "od", "PX", LONG) == 1
    assert one.actor.call("LOCK.CANCEL", x, "ob") == 1
    assert both.reply() is None
    assert is_redirection(behind.outcome())
    assert_nothing_twice(nodes, slot)


# ---- sessions ----


@pytest.fixture
def session(nodes, key):
    """A connection that holds a read lock with SESSION, which is renewed each third of SHORT * 3."""
    one, _ = nodes
    one.server.control.config_set("lock.default-lease", 3 * SHORT)
    one.server.control.config_set("lock.session-grace", 1)
    actor = one.server.actor("session")
    assert actor.call("LOCK.RWREAD", key[0], "oa", "SESSION") == 1
    return actor


def test_renewal_of_a_read_lock_waits_for_its_slot(nodes, key, session):
    """The leases are on the other node: nothing is written here, and the session is kept."""
    (one, two), (name, slot) = nodes, key
    assert one.actor.call("LOCK.RWREAD", name, "ob", "PX", LONG) == 1
    begin_move(slot, one, two)
    migrate(side("lease", name), one, two)
    one.server.let_pass(2 * SHORT)
    assert_nothing_twice(nodes, slot)
    assert one.server.info("lock")["lock_sessions"] == 1
    finish_move(slot, one, two)
    wait_for(lambda: one.server.info("lock")["lock_sessions"] == 0, 10, "the session to be gone from memory")
    assert not keys_in(one, slot)


def test_read_lock_of_a_closed_connection_is_released_after_the_move(nodes, key, session):
    (one, two), (name, slot) = nodes, key
    assert one.actor.call("LOCK.RENEW", name, "oa", "PX", LONG) == 1
    assert session.call("LOCK.RENEW", name, "oa", "SESSION") == 1
    assert one.actor.call("LOCK.RWREAD", name, "ob", "PX", LONG) == 1  # the lock remains when the session has ended
    begin_move(slot, one, two)
    session.close()
    wait_for(lambda: one.server.info("clients")["connected_clients"] <= 3, what="the connection to close")
    one.server.settle(50)
    assert one.actor.call("HGETALL", name) == ["mode", "read", "oa", "1", "ob", "1"]
    assert one.server.info("lock")["lock_sessions"] == 1
    call_off(nodes, slot)
    wait_for(lambda: one.actor.call("HGETALL", name) == ["mode", "read", "ob", "1"], 10, "the hold to be released")
    assert one.server.info("lock")["lock_sessions"] == 0


def test_plain_session_in_a_moving_slot_is_renewed_and_released_as_usual(nodes, key, session):
    (one, two), (name, slot) = nodes, key
    plain = f"{{{name}}}plain"
    assert session.call("LOCK.ACQUIRE", plain, "oa", "SESSION") == 1
    end = one.actor.call("PEXPIRETIME", plain)
    begin_move(slot, one, two)
    wait_for(lambda: one.actor.call("PEXPIRETIME", plain) > end, 10, "a renewal")
    waiter = begins_to_wait(one, WAITS["plain"], plain, "ob")
    session.close()
    assert waiter.reply(timeout=10) == 1
