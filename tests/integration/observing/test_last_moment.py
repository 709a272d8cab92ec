"""At the very millisecond at which a lease ends, whoever asks is told the same: LOCK.INFO shows no hold as over that
its owner can still renew or release."""

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
