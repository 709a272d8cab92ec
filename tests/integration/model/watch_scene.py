"""A lock, its holder, and who watches it."""

from harness import wait_for
from harness.schedule import as_map

HOUR = 3_600_000


def watchers(server):
    return server.info("lock")["lock_watchers"]


def watchers_of(server, key="k", db=0):
    with server.client(db=db) as client:
        return as_map(client.execute_command("LOCK.INFO", key)).get("watchers", 0)


def watches(server, owner="o", *words, key="k", block_ms=0, **options):
    """An actor that watches the lock for this owner."""
    watcher = server.actor(**options)
    watcher.send("LOCK.WATCH", key, owner, *words, "BLOCK", block_ms)
    return watcher.wait_blocked()


HOLDS = {
    "plain": "LOCK.ACQUIRE k o PX {HOUR}",
    "fair": "LOCK.FAIR k o PX {HOUR}",
    "read": "LOCK.RWREAD k o PX {HOUR}",
    "write": "LOCK.RWWRITE k o PX {HOUR}",
    "one of several": "LOCK.MACQUIRE 2 k l o PX {HOUR}",
    "permit": "LOCK.SEMAPHORE k o 5 PX {HOUR}",
}


class Scene:
    """o holds k; two watch it; then z, or somebody, does something."""

    OTHER_DB = 9

    def __init__(self, server, db=0, hold="LOCK.ACQUIRE k o PX {HOUR}", words=()):
        self.server, self.db = server, db
        self.other = server.actor("z", db=db)
        assert self.do(hold) in (1, 2)
        self.end = self.do("PEXPIRETIME k")
        self.watchers = [watches(server, "o", *words, db=db) for _ in range(2)]

    def do(self, *commands):
        """Texts, or functions of the scene. Returns the last answer."""
        answer = None
        for command in commands:
            if callable(command):
                command(self)
            else:
                text = command.format(db=self.db, other_db=self.OTHER_DB, HOUR=HOUR)
                answer = self.other.call(*text.split())
        return answer

    def restore_over(self, *owners):
        with self.server.client(db=self.db, decode_responses=False) as client:
            client.hset("spare", mapping={owner: 1 for owner in owners})
            client.execute_command("RESTORE", "k", 0, client.dump("spare"), "REPLACE")
            client.delete("spare")

    def both_hear(self, word="LOST"):
        heard = [watcher.reply(timeout=10) for watcher in self.watchers]
        assert heard == [word, word]
        wait_for(lambda: watchers(self.server) == 0, what="nobody to watch")

    def both_watch_on(self):
        self.server.settle(30)
        for watcher in self.watchers:
            assert not watcher.has_reply(), f"{watcher} was to watch on, but heard {watcher.outcome()!r}"
            assert watcher.is_blocked()
