"""A key, two clients that are blocked because of it, and a third client, z, that changes it."""

from harness import scaled_ms, wait_for

HOUR = 3_600_000


class KeyScene:
    """A subclass sets `waiters` when they are blocked. `counter` is the field of INFO that counts them."""

    OTHER_DB = 9
    SHORT = scaled_ms(60)

    def __init__(self, server, db, key, counter="lock_waiters"):
        self.server, self.db, self.key, self.counter = server, db, key, counter
        self.other = server.actor("z", db=db)

    def do(self, *commands):
        """Each is a string, or a function of the scene. Returns the last reply."""
        reply = None
        for command in commands:
            if callable(command):
                command(self)
            else:
                text = command.format(db=self.db, other_db=self.OTHER_DB, HOUR=HOUR, SHORT=self.SHORT)
                reply = self.other.call(*text.split())
        return reply

    def restore_over(self, command, *words, ttl=0, options=()):
        """Makes another key with this command, and restores it over the key: restore_over("HSET", "field", 1)."""
        with self.server.client(db=self.db, decode_responses=False) as client:
            client.execute_command(command, "spare", *words)
            client.execute_command("RESTORE", self.key, ttl, client.dump("spare"), "REPLACE", *options)
            client.delete("spare")

    def evict(self):
        """In one packet: the key has been evicted before PING, and later commands have memory again."""
        before = self.server.info("stats")["evicted_keys"]
        self.server.raw_connection().sendall(
            b"CONFIG SET maxmemory-policy allkeys-random maxmemory 1\r\nPING\r\nCONFIG SET maxmemory 0\r\n"
        )
        wait_for(lambda: self.server.info("stats")["evicted_keys"] > before, what="the eviction")

    def both_receive(self, reply):
        assert [waiter.reply(timeout=10) for waiter in self.waiters] == [reply, reply]
        wait_for(lambda: self.server.info("lock")[self.counter] == 0, what="all waits to end")

    def both_still_wait(self):
        self.server.settle(30)
        for waiter in self.waiters:
            assert not waiter.has_reply(), f"{waiter} was to wait, but received {waiter.outcome()!r}"
            assert waiter.is_blocked()
