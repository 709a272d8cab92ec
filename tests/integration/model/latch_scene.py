"""A latch, and clients that wait for it."""

from .key_scene import HOUR, KeyScene

__all__ = ["HOUR", "Scene", "begins_to_wait", "latch_waiters"]


def latch_waiters(server):
    return server.info("lock")["lock_latch_waiters"]


def begins_to_wait(server, name=None, key="l", block_ms=0, **options):
    """An actor that waits for the latch."""
    waiter = server.actor(name, **options)
    waiter.send("LATCH.WAIT", key, "BLOCK", block_ms)
    return waiter.wait_blocked()


class Scene(KeyScene):
    """b and c wait for the latch l, which z has set to 2."""

    def __init__(self, server, db=0, count=2, px=None):
        super().__init__(server, db, "l", "lock_latch_waiters")
        expiry = ("PX", px) if px else ()
        assert self.other.call("LATCH.SET", "l", count, *expiry) == "OK"
        self.end = self.other.call("PEXPIRETIME", "l")
        self.waiters = [begins_to_wait(server, name, db=db) for name in "bc"]

    def both_are_notified(self):
        self.both_receive(1)
