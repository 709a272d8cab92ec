"""Locks for threads, on redis-py's Redis and RedisCluster, and on the client that a Sentinel's master_for() returns."""

import logging
import os
import threading
import time
import uuid
import weakref

from .connections import Connections, Link
from .errors import Cancelled, LockError, NotHeld
from .factory import Factory
from .keeper import Keeper
from .steps import GIVE_UP_WITHIN, MAX_BLOCK, Attempt, Send, State, give_up

_log = logging.getLogger("lock_so")
_DEFAULT = object()


def run(steps, link):
    """Executes the steps of a generator: sends commands and pauses. Returns what the generator returns."""
    try:
        step = next(steps)
        while True:
            try:
                result = link.send(step.words, step.limit) if isinstance(step, Send) else time.sleep(step.seconds)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(result)
    except StopIteration as end:
        return end.value


class Locks(Factory):
    """Locks on the server that a client connects to. `max_block`: how long one command blocks at most, in s."""

    def __init__(self, client, max_block=MAX_BLOCK):
        self.max_block, self._client = max_block, client
        self.begin()
        _all.add(self)

    def begin(self):
        """Starts without connections and a thread; also in the child after a fork, where these are the parent's."""
        self.connections, self.keeper = Connections(self._client), Keeper()

    def _make(self, spec, wait, on_lost):
        return Lock(self, spec, wait, on_lost)

    def send(self, key, steps):
        link = Link(self.connections, key)
        try:
            return run(steps, link)
        finally:
            link.close()

    def in_background(self, work, *args):
        thread = threading.Thread(target=_logged, args=(work, *args), name="lock-so", daemon=True)
        thread.start()
        return thread

    def close(self):
        """Closes idle connections. Locks that are held stay held, but are not renewed any more."""
        self.keeper.close()
        self.connections.close()


_all = weakref.WeakSet()


def _begin_all():
    for locks in list(_all):
        locks.begin()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all)


def _logged(work, *args):
    try:
        work(*args)
    except Exception as error:
        _log.warning("%s", error)


class Cancellation:
    """Ends waits from another thread: those of acquire() with this object as `cancel`."""

    def __init__(self):
        self._is_set, self._lock, self._calls = False, threading.Lock(), set()

    def cancel(self):
        with self._lock:
            self._is_set, calls = True, list(self._calls)
        for call in calls:
            call()

    def add(self, call):
        with self._lock:
            self._calls.add(call)
            is_set = self._is_set
        if is_set:
            call()

    def remove(self, call):
        with self._lock:
            self._calls.discard(call)


class _Acquisition:
    """An attempt that may be cancelled by another thread."""

    def __init__(self, locks, spec, wait):
        self.attempt, self._locks = Attempt(spec, str(uuid.uuid4()), wait, locks.max_block), locks
        self.link, self._over, self._lock = Link(locks.connections, spec.key), threading.Event(), threading.Lock()
        self._is_done, self._helper = False, None

    def run(self):
        """Returns the reply. Without one, nothing is left on the server."""
        try:
            answer = run(self.attempt.run(), self.link)
            with self._lock:
                self._is_done = not self.attempt.given_up
            if self._is_done:
                return answer
        except BaseException as error:
            with self._lock:
                self._is_done = not self.attempt.given_up
            if not isinstance(error, LockError):
                self.link.drop()
                self.attempt.was_cut = True
            if self._is_done and self.attempt.was_cut:
                self._give_up()
            if self._is_done:
                self._end()
                raise
        self._end()
        raise Cancelled(f"{self.attempt.spec.key}: given up")

    def cancel(self):
        with self._lock:
            if self._is_done or self.attempt.given_up:
                return
            self.attempt.given_up = True
            self._give_up()
        # If the server does not respond, the waiting thread is released after this time.
        self._locks.in_background(lambda: self._over.wait(GIVE_UP_WITHIN) or self.link.drop())

    def _give_up(self):
        steps = give_up(self.attempt, self._over.is_set)
        self._helper = self._locks.in_background(self._locks.send, self.attempt.spec.key, steps)

    def _end(self):
        self._over.set()
        self.link.close()
        if self._helper:
            self._helper.join(GIVE_UP_WITHIN)


class Lock:
    """A lock that can be acquired any number of times: `with lock as hold:`, or acquire() and release()."""

    def __init__(self, locks, spec, wait, on_lost):
        self._locks, self.spec, self._wait, self._on_lost = locks, spec, wait, on_lost
        self._entered = threading.local()

    def acquire(self, wait=_DEFAULT, cancel=None):
        """Returns a Hold. `wait`: seconds; None has no limit, 0 only tries. `cancel`: a Cancellation. Raises
        NotAcquired, Cancelled, Deadlock, NoReplicas, Refused, or redis-py's error if there was no connection when the
        wait timed out."""
        acquisition = _Acquisition(self._locks, self.spec, self._wait if wait is _DEFAULT else wait)
        if cancel:
            cancel.add(acquisition.cancel)
        try:
            answer = acquisition.run()
        finally:
            if cancel:
                cancel.remove(acquisition.cancel)
        return Hold(self._locks, State(self.spec, acquisition.attempt.owner, answer, acquisition.attempt.sent),
                    acquisition.link, self._on_lost)

    def __enter__(self):
        hold = self.acquire()
        self._holds().append(hold)
        return hold

    def __exit__(self, _, error, __):
        try:
            self._holds().pop().release()
        except Exception as problem:
            if error is None:
                raise
            _log.warning("the release after %r: %s", error, problem)

    def _holds(self):
        self._entered.__dict__.setdefault("holds", [])
        return self._entered.holds


class Hold:
    """A lock that is held, from one acquisition: `owner`, `keys`, `token` (or None), `is_lost`."""

    def __init__(self, locks, state, link, on_lost):
        self._locks, self._state, self._on_lost = locks, state, on_lost
        self.owner, self.keys, self.token = state.owner, state.spec.keys, state.token
        watched = self.keys if on_lost else self.keys[:1] if state.spec.session else ()
        for key in watched:
            is_bound = state.spec.session and key == self.keys[0]
            block = state.third if state.spec.session else min(locks.max_block, MAX_BLOCK)
            locks.in_background(self._watch, key, block, link if is_bound else Link(locks.connections, key))
        if not state.spec.session:
            link.close()
        locks.keeper.add(self, self._due())

    @property
    def is_lost(self):
        """Whether it is known to be lost, without a request to the server."""
        return self._state.is_lost

    def release(self):
        """Releases the lock. Raises NotHeld if it was lost before, or redis-py's error if there was no reply in the lease."""
        self._locks.keeper.forget(self)
        self._locks.send(self._state.spec.key, self._state.released())

    def tend(self):
        """For the keeper: renews the lease, or notices that it has expired. Returns when to call it again, or None."""
        state = self._state
        if state.has_ended():
            return None
        if time.monotonic() >= state.until:
            self._lost()
            return None
        if self._renews() and time.monotonic() >= state.renew_at:
            try:
                self._locks.send(state.spec.key, state.renewed())
            except NotHeld:
                self._lost()
                return None
            except Exception as error:
                _log.warning("%s could not be renewed: %s", state.spec.key, error)
        return self._due()

    def _renews(self):
        return self._state.spec.renew and not self._state.spec.session

    def _due(self):
        return min(self._state.renew_at, self._state.until) if self._renews() else self._state.until

    def _watch(self, key, block, link):
        try:
            if run(self._state.watched(key, block), link):
                self._lost()
        finally:
            link.close()

    def _lost(self):
        if self._state.lose() and self._on_lost:
            self._locks.in_background(self._on_lost, self)
