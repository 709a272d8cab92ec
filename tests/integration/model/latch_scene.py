"""A latch, and who waits for it."""

from harness import wait_for

HOUR = 3_600_000


def latch_waiters(server):
    return server.info("lock")["lock_latch_waiters"]


def begins_to_wait(server, name=None, key="l", block_ms=0, **options):
    """An actor that waits for the latch."""
    waiter = server.actor(name, **options)
    waiter.send("LATCH.WAIT", key, "BLOCK", block_ms)
    return waiter.wait_blocked()


class Scene:
    """b and c wait for the latch l, which z has set to 2; then z, or somebody, does something."""

    OTHER_DB = 9

    def __init__(self, server, db=0, count=2, px=None):
        self.server, self.db = server, db
        self.other = server.actor("z", db=db)
        expiry = ("PX", px) if px else ()
        assert self.other.call("LATCH.SET", "l", count, *expiry) == "OK"
        self.end = self.other.call("PEXPIRETIME", "l")
        self.waiters = [begins_to_wait(server, name, db=db) for name in "bc"]

    def do(self, *commands):
        """Texts, or functions of the scene. Returns the last answer."""
        answer = None
        for command in commands:
            if callable(command):
                command(self)
            else:
                answer = self.other.call(*command.format(db=self.db, other_db=self.OTHER_DB, HOUR=HOUR).split())
        return answer

    def restore_over(self, value, ttl=0):
        with self.server.client(db=self.db, decode_responses=False) as client:
            client.set("spare", value)
            client.execute_command("RESTORE", "l", ttl, client.dump("spare"), "REPLACE")
            client.delete("spare")

    def both_are_told(self):
        assert [waiter.reply(timeout=10) for waiter in self.waiters] == [1, 1]
        wait_for(lambda: latch_waiters(self.server) == 0, what="nobody to wait")

    def both_wait_on(self):
        self.server.settle(30)
        for waiter in self.waiters:
            assert not waiter.has_reply(), f"{waiter} was to wait, but heard {waiter.outcome()!r}"
            assert waiter.is_blocked()
