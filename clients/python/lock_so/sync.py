"""Locks for threads, on redis-py's Redis, RedisCluster and what a Sentinel's master_for() returns."""

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
from .steps import GIVE_UP_WITHIN, MAX_BLOCK, Attempt, Say, State, give_up

_log = logging.getLogger("lock_so")
_DEFAULT = object()


def run(steps, link):
    """Says and waits for what the steps want, and returns what they return."""
    try:
        step = next(steps)
        while True:
            try:
                heard = link.say(step.words, step.limit) if isinstance(step, Say) else time.sleep(step.seconds)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(heard)
    except StopIteration as end:
        return end.value


class Locks(Factory):
    """Locks on the server that a client connects to. `max_block`: how long one command blocks at most, in s."""

    def __init__(self, client, max_block=MAX_BLOCK):
        self.max_block, self._client = max_block, client
        self.begin()
        _all.add(self)

    def begin(self):
        """With no connections and no thread; also in the child after a fork, where those are the parent's."""
        self.connections, self.keeper = Connections(self._client), Keeper()

    def _make(self, spec, wait, on_lost):
        return Lock(self, spec, wait, on_lost)

    def say(self, key, steps):
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
        """Closes what is idle. Locks that are held stay held, and nobody renews them."""
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
    """Ends the waits that it was given to, from another thread."""

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
        """The answer. Whatever else comes of it leaves nothing behind."""
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
        # The server is silent: who waits need not wait for that.
        self._locks.in_background(lambda: self._over.wait(GIVE_UP_WITHIN) or self.link.drop())

    def _give_up(self):
        steps = give_up(self.attempt, self._over.is_set)
        self._helper = self._locks.in_background(self._locks.say, self.attempt.spec.key, steps)

    def _end(self):
        self._over.set()
        self.link.close()
        if self._helper:
            self._helper.join(GIVE_UP_WITHIN)


class Lock:
    """A lock that can be taken, again and again: `with lock as hold:`, or acquire() and release()."""

    def __init__(self, locks, spec, wait, on_lost):
        self._locks, self.spec, self._wait, self._on_lost = locks, spec, wait, on_lost
        self._entered = threading.local()

    def acquire(self, wait=_DEFAULT, cancel=None):
        """A Hold. `wait`: s, None for ever, 0 to try; `cancel`: a Cancellation. Raises NotAcquired, Cancelled, Deadlock,
        NoReplicas, Refused, or redis-py's error when there was no connection to the end."""
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
    """What one acquisition has got: `owner`, `keys`, `token` (or None), `is_lost`."""

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
        """Whether it is lost, as far as can be known without asking the server."""
        return self._state.is_lost

    def release(self):
        """Raises NotHeld if it was lost before, or redis-py's error if nobody answered until the lease was over."""
        self._locks.keeper.forget(self)
        self._locks.say(self._state.spec.key, self._state.released())

    def tend(self):
        """For the keeper: renews, or finds that it is too late. Returns when to come again, or None."""
        state = self._state
        if state.is_over():
            return None
        if time.monotonic() >= state.until:
            self._lost()
            return None
        if self._renews() and time.monotonic() >= state.renew_at:
            try:
                self._locks.say(state.spec.key, state.renewed())
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
