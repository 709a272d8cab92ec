"""How locks are named, the same in both flavours. Times are in seconds."""

from .spec import Spec


class Factory:
    """Options of every kind:

    lease    how long the lock outlives this program, or its connection to the server; renewed at a third of it
    wait     how long to wait for it: None for ever, 0 not at all
    session  the server renews it, for as long as its connection lives
    fenced   ask for a fencing token (only for lock(), fair() and write())
    replicas (n, seconds): wait until so many replicas have the grant
    renew    False: it ends with its lease
    on_lost  called once, with the hold, when it is lost before it was released: soon, if the server can be asked
    """

    def lock(self, key, **options):
        """A lock with one owner at a time."""
        return self._named("lock", (key,), **options)

    def fair(self, key, **options):
        """The same lock, strictly first come, first served."""
        return self._named("fair", (key,), **options)

    def read(self, key, **options):
        """A shared hold of a read-write lock."""
        return self._named("read", (key,), **options)

    def write(self, key, **options):
        """An exclusive hold of a read-write lock."""
        return self._named("write", (key,), **options)

    def multi(self, *keys, **options):
        """A multi-key lock: all of these keys, or none. In a cluster the keys must share a hash tag."""
        return self._named("multi", keys, **options)

    def semaphore(self, key, limit, permits=1, **options):
        """So many permits, if all that are taken are at most `limit` then."""
        return self._named("semaphore", (key,), limit=limit, permits=permits, **options)

    def _named(self, kind, keys, *, lease=30.0, wait=None, on_lost=None, replicas=None, **options):
        replicas = (replicas[0], round(replicas[1] * 1000)) if replicas else None
        spec = Spec(kind, tuple(keys), lease_ms=round(lease * 1000), replicas=replicas, **options)
        return self._make(spec, wait, on_lost)
