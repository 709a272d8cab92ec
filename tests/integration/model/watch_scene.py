"""A lock, its holder, and clients that watch it."""

from harness.schedule import as_map

from .key_scene import HOUR, KeyScene


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
    "multikey": "LOCK.MACQUIRE 2 k l o PX {HOUR}",
    "modes": "LOCK.MACQUIRE 2 k l o MODES READ WRITE PX {HOUR}",
    "permit": "LOCK.SEMAPHORE k o 5 PX {HOUR}",
}


class Scene(KeyScene):
    """o holds k; two clients watch it."""

    def __init__(self, server, db=0, hold="LOCK.ACQUIRE k o PX {HOUR}", words=()):
        super().__init__(server, db, "k", "lock_watchers")
        assert self.do(hold) in (1, 2)
        self.end = self.do("PEXPIRETIME k")
        self.waiters = [watches(server, "o", *words, db=db) for _ in range(2)]
