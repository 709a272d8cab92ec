"""The methods that create locks, the same in both flavours. Times are in seconds."""

from typing import Any, Callable, Generic, Optional, Tuple, TypeVar

from ._spec import Key, Spec, check_wait

L = TypeVar("L")
H = TypeVar("H")
Replicas = Optional[Tuple[int, float]]
OnLost = Optional[Callable[[H], Any]]


class Factory(Generic[L, H]):
    """Options of every kind:

    wait     how long to wait for the lock: None has no limit, 0 only tries
    lease    how long the lock stays held if this program ends or cannot reach the server; renewed after a third of it
    session  the server renews the lease, for as long as the connection of the hold lives
    fenced   request a fencing token (only for lock(), fair() and write())
    replicas (n, seconds): n replicas must acknowledge the grant within this time
    renew    False: the lease is not renewed
    on_lost  called once, with the hold, when it is lost before the release: soon, if the server can be reached
    cancel_on_loss  only with asyncio: a loss cancels the body of `async with`, which then ends with NotHeld
    """

    def lock(self, key: Key, *, wait: Optional[float] = None, lease: float = 30.0, session: bool = False,
             fenced: bool = False, replicas: Replicas = None, renew: bool = True, on_lost: OnLost[H] = None,
             cancel_on_loss: bool = False) -> L:  # fmt: skip
        """A lock with one owner at a time."""
        spec = Spec("lock", (key,), lease, session, fenced, replicas, renew)
        return self._checked(spec, wait, on_lost, cancel_on_loss)

    def fair(self, key: Key, *, wait: Optional[float] = None, lease: float = 30.0, session: bool = False,
             fenced: bool = False, replicas: Replicas = None, renew: bool = True, on_lost: OnLost[H] = None,
             cancel_on_loss: bool = False) -> L:  # fmt: skip
        """The same lock, strictly first come, first served."""
        spec = Spec("fair", (key,), lease, session, fenced, replicas, renew)
        return self._checked(spec, wait, on_lost, cancel_on_loss)

    def read(self, key: Key, *, wait: Optional[float] = None, lease: float = 30.0, session: bool = False,
             replicas: Replicas = None, renew: bool = True, on_lost: OnLost[H] = None,
             cancel_on_loss: bool = False) -> L:  # fmt: skip
        """The read lock of a read-write lock, shared with other readers."""
        spec = Spec("read", (key,), lease, session, False, replicas, renew)
        return self._checked(spec, wait, on_lost, cancel_on_loss)

    def write(self, key: Key, *, wait: Optional[float] = None, lease: float = 30.0, session: bool = False,
              fenced: bool = False, replicas: Replicas = None, renew: bool = True, on_lost: OnLost[H] = None,
              cancel_on_loss: bool = False) -> L:  # fmt: skip
        """The write lock of a read-write lock, held alone."""
        spec = Spec("write", (key,), lease, session, fenced, replicas, renew)
        return self._checked(spec, wait, on_lost, cancel_on_loss)

    def multi(self, *keys: Key, wait: Optional[float] = None, lease: float = 30.0, session: bool = False,
              replicas: Replicas = None, renew: bool = True, on_lost: OnLost[H] = None,
              cancel_on_loss: bool = False) -> L:  # fmt: skip
        """A multi-key lock: all of these keys, or none. In a cluster the keys must share a hash tag."""
        spec = Spec("multi", keys, lease, session, False, replicas, renew)
        return self._checked(spec, wait, on_lost, cancel_on_loss)

    def semaphore(self, key: Key, limit: int, permits: int = 1, *, wait: Optional[float] = None, lease: float = 30.0,
                  session: bool = False, replicas: Replicas = None, renew: bool = True, on_lost: OnLost[H] = None,
                  cancel_on_loss: bool = False) -> L:  # fmt: skip
        """`permits` permits of a semaphore; a grant requires that at most `limit` are held then."""
        spec = Spec("semaphore", (key,), lease, session, False, replicas, renew, limit, permits)
        return self._checked(spec, wait, on_lost, cancel_on_loss)

    def _checked(self, spec: Spec, wait: Optional[float], on_lost: OnLost[H], cancel_on_loss: bool) -> L:
        check_wait(wait)
        return self._make(spec, wait, on_lost, cancel_on_loss)

    def _make(self, spec: Spec, wait: Optional[float], on_lost: OnLost[H], cancel_on_loss: bool) -> L:
        raise NotImplementedError
