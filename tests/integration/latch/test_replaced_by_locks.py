"""A lock has replaced the latch: clients that wait for the latch are notified as soon as that lock has ended.

The active expiry of the server is switched off, so that only the module can notice the end of a lease.
"""

import pytest

from harness import scaled_ms, wait_for
from model.latch_scene import HOUR, Scene

pytestmark = pytest.mark.usefixtures("no_active_expiry")

SHORT = scaled_ms(60)
A_WHILE = scaled_ms(500)


def both_are_notified_soon(scene):
    """When the short lease, or the session, ends; the lease that the drain knew of is much longer."""
    assert [waiter.reply(timeout=2) for waiter in scene.waiters] == [1, 1]


def in_its_place(server, *commands):
    scene = Scene(server)
    scene.do("MULTI", "DEL l", *commands, "EXEC")
    scene.both_still_wait()
    return scene


KINDS = {
    "plain": "LOCK.ACQUIRE l {} PX {}",
    "read": "LOCK.RWREAD l {} PX {}",
    "write": "LOCK.RWWRITE l {} PX {}",
    "permit": "LOCK.SEMAPHORE l {} 3 PX {}",
}
SHARED = {kind: KINDS[kind] for kind in ("read", "permit")}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_renewal_for_a_shorter_time_notifies_at_the_new_end(server, kind):
    scene = in_its_place(server, kind.format("o", HOUR))
    assert scene.do(f"LOCK.RENEW l o PX {SHORT}") == 1
    both_are_notified_soon(scene)


@pytest.mark.parametrize("kind", SHARED.values(), ids=SHARED)
def test_shorter_renewal_of_the_longest_lease_notifies_at_the_new_end(server, kind):
    scene = in_its_place(server, kind.format("a", A_WHILE), kind.format("b", HOUR))
    assert scene.do(f"LOCK.RENEW l b PX {SHORT}") == 1
    both_are_notified_soon(scene)


@pytest.mark.parametrize("releases", ["LOCK.RELEASE l b", "MULTI;LOCK.RELEASE l b;EXEC"])
@pytest.mark.parametrize("kind", SHARED.values(), ids=SHARED)
def test_release_of_the_longest_lease_notifies_when_the_other_expires(server, kind, releases):
    scene = in_its_place(server, kind.format("a", A_WHILE), kind.format("b", HOUR))
    scene.do(*releases.split(";"))
    both_are_notified_soon(scene)


@pytest.mark.parametrize("lock_has_waiter", [False, True])
def test_end_of_a_session_notifies_while_writes_are_refused(server, actor, lock_has_waiter):
    """A waiter for the lock is granted when writes are accepted again; the latch waiters are notified before that."""
    server.control.config_set("lock.session-grace", 1)
    scene, session, waiter = Scene(server), actor("session"), actor("w")
    for words in ("MULTI", "DEL l", "LOCK.ACQUIRE l o SESSION", "EXEC"):
        session.call(*words.split())
    if lock_has_waiter:
        waiter.send("LOCK.ACQUIRE", "l", "w", "PX", HOUR, "BLOCK", 0)
        waiter.wait_blocked()
    scene.both_still_wait()
    server.control.config_set("min-replicas-to-write", 1)
    session.kill_socket()
    both_are_notified_soon(scene)
    assert not waiter.has_reply()
    server.control.config_set("min-replicas-to-write", 0)
    if lock_has_waiter:
        assert waiter.reply() == 1
    wait_for(lambda: server.info("lock")["lock_latch_waiters"] == 0, what="the last wait to end")
