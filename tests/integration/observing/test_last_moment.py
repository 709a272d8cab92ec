"""At the very millisecond at which a lease ends, whoever asks is told the same: LOCK.INFO shows no hold as over that
its owner can still renew or release, and none that was over comes back."""

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


def wait_until_it_ends(actor):
    """Until the clock, which is the server's too, says the millisecond at which the key expires."""
    end_ms = actor.call("PEXPIRETIME", "k")
    while time.time() * 1000 < end_ms:
        pass


@pytest.mark.parametrize("said", ["LOCK.RENEW", "LOCK.RELEASE"])
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_shown_as_over_is_over(actor, kind, said):
    actor = actor()
    for _ in range(ROUNDS):
        actor.call(*KINDS[kind], "PX", 2)
        wait_until_it_ends(actor)
        actor.send("LOCK.INFO", "k")
        actor.send(said, "k", "o")
        shown, heard = actor.outcome(), actor.outcome()
        if not shown or not as_map(shown)["holders"]:
            assert "NOTHELD" in str(heard)
        actor.call("LOCK.FORCE", "k")


@pytest.mark.parametrize("kind", ["reader", "semaphore"])
def test_what_is_shown_as_over_stays_over(actor, kind):
    """Also when a hold that was over before it, and was still written down, is taken away."""
    actor = actor()
    command, key, _, *asks = KINDS[kind]
    for _ in range(ROUNDS):
        actor.call(command, key, "earlier", *asks[:1], "PX", 1)
        actor.call(command, key, "o", *asks[:1], "PX", 3)
        wait_until_it_ends(actor)
        actor.send("LOCK.INFO", "k")
        actor.send("LOCK.CANCEL", "k", "earlier", "RELEASE")
        actor.send("LOCK.INFO", "k")
        before, _, after = actor.outcome(), actor.outcome(), actor.outcome()
        if not before or not as_map(before)["holders"]:
            assert not after or not as_map(after)["holders"]
        actor.call("LOCK.FORCE", "k")
