"""In the millisecond at which a lease expires all commands agree: LOCK.INFO shows no hold as expired that its owner can
still renew or release, and a hold that it has shown as expired does not appear again."""

import time

import pytest

from harness.schedule import as_map

KINDS = {
    "plain": ("LOCK.ACQUIRE", "k", "o"),
    "reader": ("LOCK.RWREAD", "k", "o"),
    "writer": ("LOCK.RWWRITE", "k", "o"),
    "semaphore": ("LOCK.SEMAPHORE", "k", "o", 3, "PERMITS", 2),
}
ROUNDS = 150


def wait_until_expiry(actor):
    """Waits until the wall clock, which the server uses too, shows the millisecond at which the key expires."""
    end_ms = actor.call("PEXPIRETIME", "k")
    while time.time() * 1000 < end_ms:
        pass


@pytest.mark.parametrize("command", ["LOCK.RENEW", "LOCK.RELEASE"])
@pytest.mark.parametrize("kind", KINDS)
def test_hold_shown_as_expired_cannot_be_renewed_or_released(actor, kind, command):
    actor = actor()
    for _ in range(ROUNDS):
        actor.call(*KINDS[kind], "PX", 2)
        wait_until_expiry(actor)
        actor.send("LOCK.INFO", "k")
        actor.send(command, "k", "o")
        shown, reply = actor.outcome(), actor.outcome()
        if not shown or not as_map(shown)["holders"]:
            assert "NOTHELD" in str(reply)
        actor.call("LOCK.FORCE", "k")


@pytest.mark.parametrize("kind", ["reader", "semaphore"])
def test_hold_shown_as_expired_is_not_shown_again(actor, kind):
    """Also when a hold that expired before it, and was still in the key, is removed."""
    actor = actor()
    command, key, _, *limit = KINDS[kind]
    for _ in range(ROUNDS):
        actor.call(command, key, "earlier", *limit[:1], "PX", 1)
        actor.call(command, key, "o", *limit[:1], "PX", 3)
        wait_until_expiry(actor)
        actor.send("LOCK.INFO", "k")
        actor.send("LOCK.CANCEL", "k", "earlier", "RELEASE")
        actor.send("LOCK.INFO", "k")
        before, _, after = actor.outcome(), actor.outcome(), actor.outcome()
        if not before or not as_map(before)["holders"]:
            assert not after or not as_map(after)["holders"]
        actor.call("LOCK.FORCE", "k")
