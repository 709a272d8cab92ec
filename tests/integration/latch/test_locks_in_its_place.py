"""A lock has come in the latch's place: who waits for the latch is told as soon as that lock has gone.

The server's own expiry is switched off, so that the end of a lease is noticed by the module or not at all.
"""

import pytest

from harness import scaled_ms, wait_for
from model.latch_scene import HOUR, Scene

pytestmark = pytest.mark.usefixtures("no_active_expiry")

SHORT = scaled_ms(60)
A_WHILE = scaled_ms(500)


def both_are_told_soon(scene):
    """By the short lease, or the session; the lease that the drain knew of is much longer."""
    assert [waiter.reply(timeout=2) for waiter in scene.waiters] == [1, 1]


def in_its_place(server, *commands):
    scene = Scene(server)
    scene.do("MULTI", "DEL l", *commands, "EXEC")
    scene.both_wait_on()
    return scene


KINDS = {
    "plain": "LOCK.ACQUIRE l {} PX {}",
    "read": "LOCK.RWREAD l {} PX {}",
    "write": "LOCK.RWWRITE l {} PX {}",
    "permit": "LOCK.SEMAPHORE l {} 3 PX {}",
}
SHARED = {kind: KINDS[kind] for kind in ("read", "permit")}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_lease_that_is_renewed_for_a_short_time(server, kind):
    scene = in_its_place(server, kind.format("o", HOUR))
    assert scene.do(f"LOCK.RENEW l o PX {SHORT}") == 1
    both_are_told_soon(scene)


@pytest.mark.parametrize("kind", SHARED.values(), ids=SHARED)
def test_lease_of_the_last_that_is_renewed_for_a_short_time(server, kind):
    scene = in_its_place(server, kind.format("a", A_WHILE), kind.format("b", HOUR))
    assert scene.do(f"LOCK.RENEW l b PX {SHORT}") == 1
    both_are_told_soon(scene)


@pytest.mark.parametrize("releases", ["LOCK.RELEASE l b", "MULTI;LOCK.RELEASE l b;EXEC"])
@pytest.mark.parametrize("kind", SHARED.values(), ids=SHARED)
def test_release_of_the_longest_lease(server, kind, releases):
    scene = in_its_place(server, kind.format("a", A_WHILE), kind.format("b", HOUR))
    scene.do(*releases.split(";"))
    both_are_told_soon(scene)


@pytest.mark.parametrize("somebody_waits", [False, True])
def test_session_that_ends_while_writes_are_refused(server, actor, somebody_waits):
    """Who waits for the lock gets it when writes are accepted; the latch has been open before that."""
    server.control.config_set("lock.session-grace", 1)
    scene, session, waiter = Scene(server), actor("session"), actor("w")
    for words in ("MULTI", "DEL l", "LOCK.ACQUIRE l o SESSION", "EXEC"):
        session.call(*words.split())
    if somebody_waits:
        waiter.send("LOCK.ACQUIRE", "l", "w", "PX", HOUR, "BLOCK", 0)
        waiter.wait_blocked()
    scene.both_wait_on()
    server.control.config_set("min-replicas-to-write", 1)
    session.kill_socket()
    both_are_told_soon(scene)
    assert not waiter.has_reply()
    server.control.config_set("min-replicas-to-write", 0)
    if somebody_waits:
        assert waiter.reply() == 1
    wait_for(lambda: server.info("lock")["lock_latch_waiters"] == 0, what="nobody to wait")
