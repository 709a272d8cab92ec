"""A key, two clients that are blocked because of it, and a third, z, that does something to it."""

from harness import scaled_ms, wait_for

HOUR = 3_600_000


class KeyScene:
    """`waiters` are set by who inherits it, when they are blocked. `counter` is the field of INFO that counts them."""

    OTHER_DB = 9
    SHORT = scaled_ms(60)

    def __init__(self, server, db, key, counter="lock_waiters"):
        self.server, self.db, self.key, self.counter = server, db, key, counter
        self.other = server.actor("z", db=db)

    def do(self, *commands):
        """Texts, or functions of the scene. Returns the last answer."""
        answer = None
        for command in commands:
            if callable(command):
                command(self)
            else:
                text = command.format(db=self.db, other_db=self.OTHER_DB, HOUR=HOUR, SHORT=self.SHORT)
                answer = self.other.call(*text.split())
        return answer

    def restore_over(self, command, *words, ttl=0, options=()):
        """RESTORE over the key what this command makes of another one: restore_over("HSET", "field", 1)."""
        with self.server.client(db=self.db, decode_responses=False) as client:
            client.execute_command(command, "spare", *words)
            client.execute_command("RESTORE", self.key, ttl, client.dump("spare"), "REPLACE", *options)
            client.delete("spare")

    def evict(self):
        """In one write: the key has gone before PING, and what follows finds room again."""
        before = self.server.info("stats")["evicted_keys"]
        self.server.raw_connection().sendall(
            b"CONFIG SET maxmemory-policy allkeys-random maxmemory 1\r\nPING\r\nCONFIG SET maxmemory 0\r\n"
        )
        wait_for(lambda: self.server.info("stats")["evicted_keys"] > before, what="the eviction")

    def both_hear(self, answer):
        assert [waiter.reply(timeout=10) for waiter in self.waiters] == [answer, answer]
        wait_for(lambda: self.server.info("lock")[self.counter] == 0, what="nobody to wait")

    def both_wait_on(self):
        self.server.settle(30)
        for waiter in self.waiters:
            assert not waiter.has_reply(), f"{waiter} was to wait, but received {waiter.outcome()!r}"
            assert waiter.is_blocked()
