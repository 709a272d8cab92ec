"""The methods that create locks, the same in both flavours. Times are in seconds."""

from .spec import Spec


class Factory:
    """Options of every kind:

    lease    how long the lock stays held if this program ends or cannot reach the server; renewed after a third of it
    wait     how long to wait for the lock: None has no limit, 0 does not wait
    session  the server renews the lease, for as long as the connection of the hold lives
    fenced   request a fencing token (only for lock(), fair() and write())
    replicas (n, seconds): n replicas must acknowledge the grant within this time
    renew    False: the lease is not renewed
    on_lost  called once, with the hold, when it is lost before the release: soon, if the server can be reached
    """

    def lock(self, key, **options):
        """A lock with one owner at a time."""
        return self._named("lock", (key,), **options)

    def fair(self, key, **options):
        """The same lock, strictly first come, first served."""
        return self._named("fair", (key,), **options)

    def read(self, key, **options):
        """The read lock of a read-write lock, shared with other readers."""
        return self._named("read", (key,), **options)

    def write(self, key, **options):
        """The write lock of a read-write lock, held alone."""
        return self._named("write", (key,), **options)

    def multi(self, *keys, **options):
        """A multi-key lock: all of these keys, or none. In a cluster the keys must share a hash tag."""
        return self._named("multi", keys, **options)

    def semaphore(self, key, limit, permits=1, **options):
        """`permits` permits of a semaphore; a grant requires that at most `limit` are held then."""
        return self._named("semaphore", (key,), limit=limit, permits=permits, **options)

    def _named(self, kind, keys, *, lease=30.0, wait=None, on_lost=None, replicas=None, **options):
        replicas = (replicas[0], round(replicas[1] * 1000)) if replicas else None
        spec = Spec(kind, tuple(keys), lease_ms=round(lease * 1000), replicas=replicas, **options)
        return self._make(spec, wait, on_lost)
