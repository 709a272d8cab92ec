"""Several locks as one, in both flavours: multi-key locks over several slots of a cluster, and locks of several servers."""

import time
import weakref
from asyncio import CancelledError
from dataclasses import replace
from functools import partial
from typing import Any, Callable, Dict, Generator, List, Optional, Sequence, Tuple

import redis.exceptions as library

from ._info import LockInfo, joined
from ._spec import Spec, Use, encoded
from ._steps import LATE, MARGIN, AnyOf, Do, State, Steps
from .errors import Cancelled, NotAcquired, NotHeld, closed, not_acquired

GROUP = "combined"  # of workers: a release that waits for a silent server delays no other ones


def ordered(locks: Sequence[Any]) -> List[Any]:
    """The locks to acquire, in the order that is the same in all programs."""
    if any(isinstance(lock, BaseCombined) and lock._use.on_lost for lock in locks):
        raise ValueError("on_lost: that of a combined lock must be given to the outer one")
    if any(lock._use.cancel_on_loss for lock in locks):
        raise ValueError("cancel_on_loss: that of a member has no body to cancel; it is an option of combine()")
    if any(lock._spec.kind == "redlock" for lock in locks):
        raise ValueError("locks: a RedLock cannot be combined")
    members = [part for lock in locks for part in (lock._members if isinstance(lock, BaseCombined) else [lock])]
    if not members:
        raise ValueError("locks must not be empty")
    keys = [(lock._shared.pool.name, key) for lock in members for key in lock._spec.identity[1]]
    if len(set(keys)) < len(keys):
        raise ValueError("locks: the same one is given twice, or two of them have a key in common")
    return sorted(members, key=_rank)


def combined_spec(members: Sequence[Any]) -> Spec:
    keys = tuple(key for lock in members for key in lock._spec.keys)
    return Spec("combined", keys, min(lock._spec.lease for lock in members))


def _rank(lock: Any) -> Tuple[bytes, int, bytes, str]:
    pool, spec = lock._shared.pool, lock._spec
    return encoded(pool.name), pool.slot(spec.key), min(map(encoded, spec.keys)), spec.kind


def parts_of(spec: Spec, slot: Callable[[Any], int]) -> List[Spec]:
    """The locks of which a multi-key lock consists: one for each slot."""
    found: Dict[int, List[int]] = {}
    for number in sorted(range(len(spec.keys)), key=lambda number: slot(spec.keys[number])):
        found.setdefault(slot(spec.keys[number]), []).append(number)
    parts = []
    for numbers in found.values():
        keys = tuple(spec.keys[n] for n in numbers)
        modes = tuple(spec.modes[n] for n in numbers if spec.modes)
        kind = "multi" if len(set(keys)) > 1 else modes[0].lower() if modes else "lock"
        parts.append(replace(spec, kind=kind, keys=keys if kind == "multi" else keys[:1], modes=modes if kind == "multi" else ()))
    return parts


class Combination:
    """One acquisition of all members, in their order."""

    owner = ""
    was_cut = False

    def __init__(self, lock: Any, wait: Optional[float], acquire: Callable[[Any, Any], Any], entries: Sequence[Any]):
        """`acquire()` begins an attempt of a member. It returns a function that cancels it, and one that waits for it."""
        self.spec, self._lock, self._wait, self._acquire = lock._spec, lock, wait, acquire
        self._cancel: Callable[[], Any] = lambda: None
        self.entries, self.given_up = entries, False
        self.began = self.sent = time.monotonic()
        self.until = float("inf") if wait is None else self.began + (wait or LATE)
        self._state = CombinedState(self.spec)

    def run(self) -> Steps:
        while True:
            self._state = state = CombinedState(self.spec)
            state.interrupt = lambda: self._cancel()  # that of the member for which it waits then
            try:
                for member, entries in zip(self._lock._members, self.entries):
                    hold = yield from self._acquired(member, entries)
                    hold._state.wholes.append(weakref.ref(state))
                    state.members.append(hold)
                    if state.is_lost or self.given_up:
                        break
                else:
                    state.interrupt = None
                    return state
            except BaseException as error:
                is_interrupted = state.is_lost and not self.given_up and isinstance(error, (Cancelled, CancelledError))
                state.give_back()
                if not is_interrupted:
                    raise
            else:
                state.give_back()
            if self.given_up or time.monotonic() >= self.until:
                raise not_acquired(self.spec, self._wait or 0)

    def _acquired(self, member: Any, entries: Any) -> Steps:
        left = self.until - time.monotonic()
        if left <= 0 or self.given_up:
            raise not_acquired(member._spec, self._wait or 0)
        wait = None if self._wait is None else left if self._wait else 0
        lock = member._watched() if self._lock._use.on_lost or self._lock._use.cancel_on_loss else member
        attempt = lock._attempt(wait, entries, self.until + (LATE if self._wait else 0.0))
        self._cancel, acquired = self._acquire(lock, attempt)
        if self.given_up or self._state.is_lost:
            self._cancel()
        try:
            return (yield Do(acquired))
        except NotAcquired as error:
            cause: Any = error.__cause__
            raise not_acquired(member._spec, self._wait or 0, error.holders, cause) from cause

    def state(self, answer: "CombinedState") -> "CombinedState":
        answer.owner = answer.members[0].owner
        return answer

    def give_up(self, _: Any) -> Steps:
        self._cancel()
        self._state.give_back()
        return
        yield


class CombinedState(State):
    """The state of one acquisition of several locks. What is lost, renewed and released are their holds."""

    is_listed = False

    def __init__(self, spec: Spec):
        super().__init__(spec, "", None, time.monotonic(), None)
        self.members: List[Any] = []
        self.interrupt: Optional[Callable[[], Any]] = None  # ends the wait for another member
        self._released: List[Any] = []

    def _has_expired(self) -> bool:
        return not self.is_ending and any(hold.is_lost or hold._state.has_ended() for hold in self.members)

    def notify(self) -> None:
        if self.holds:
            super().notify()
        elif self.interrupt:  # it is being acquired
            self.interrupt()

    def not_held(self) -> NotHeld:
        lost = [hold for hold in self.members if hold.is_lost]
        return lost[0]._state.not_held() if lost else super().not_held()

    def give_back(self) -> None:
        for hold in reversed(self.members):
            hold._give_back()

    def released(self) -> Steps:
        if self.is_released:
            raise self.not_held()
        was_lost = self.is_lost
        self.is_ending = True
        results = yield from self._each_released([hold for hold in reversed(self.members) if hold not in self._released])
        self._released += [hold for hold, found in results.items() if not found or isinstance(found[0], NotHeld)]
        errors = [error for found in results.values() for error in found]
        self.is_released = len(self._released) == len(self.members)
        for error in sorted(errors, key=lambda error: isinstance(error, NotHeld)):
            raise error
        if was_lost:
            raise self.not_held()

    @staticmethod
    def _each_released(holds: List[Any]) -> Generator[Any, Any, Dict[Any, List[Exception]]]:
        """Releases them in this order. One whose server does not reply delays the others by LATE only: it continues in the
        background. Returns the errors of each."""
        jobs: Dict[Any, Any] = {}
        results: Dict[Any, List[Exception]] = {}
        until = max([time.monotonic(), *(hold._state.until for hold in holds)]) + 2 * MARGIN
        for hold in holds:
            if hold._shared.is_closed:  # nothing runs in its background any more
                results[hold] = yield from _errors_of(hold.release)
                continue
            job = hold._shared.start(hold._state.spec.key, _errors_of(hold.release), group=GROUP)
            jobs[job] = hold
            yield AnyOf({job}, time.monotonic() + LATE)
        while jobs and time.monotonic() < until:
            for job in (yield AnyOf(set(jobs), until)):
                hold = jobs.pop(job)
                results[hold] = [closed(hold._state.spec)] if job.cancelled() else job.result()
        return {**results, **{hold: [closed(hold._state.spec)] for hold in jobs.values()}}  # closed before it began

    def renew(self, lease: Optional[float]) -> Steps:
        self.check()
        errors = []
        for hold in self.members:
            errors += yield from _errors_of(partial(hold.renew, lease))
        if any(isinstance(error, NotHeld) for error in errors):
            self.notify()
        for error in errors:
            raise error

    def guarded(self, command: Any) -> Steps:
        raise ValueError("guard: use the method of one of the holds")
        yield


def _errors_of(call: Callable[[], Any]) -> Generator[Do, Any, List[Exception]]:
    try:
        yield Do(call)
        return []
    except Exception as error:
        return [error]


class Several:
    """What locks that consist of others are in both flavours."""

    _members: List[Any]

    def _entries(self) -> Any:
        return [member._entries() for member in self._members]

    def _again(self, _: Any) -> None:
        return None  # its members may be entered again

    def _enough(self) -> int:
        """How many members must reply."""
        return len(self._members)

    def _replies(self, steps: Callable[[Any], Steps]) -> Generator[Any, Any, List[Any]]:
        """What the members reply, which are requested at the same time. If too few do, the first error is raised."""
        results: Dict[Any, Any] = {}
        jobs: Dict[Any, Any] = {}
        until = time.monotonic() + MARGIN + LATE
        for member in self._members:
            if member._shared.is_closed:
                results[member] = closed(member._spec)
            else:
                jobs[member._shared.start(member._spec.key, steps(member), group=GROUP)] = member
        while jobs and time.monotonic() < until:
            for job in (yield AnyOf(set(jobs), until)):
                member = jobs.pop(job)
                results[member] = closed(member._spec) if job.cancelled() else job.exception() or job.result()
        late = library.TimeoutError(f"no reply within {MARGIN:g} s")
        found = [results.get(member, late) for member in self._members]
        errors = [each for each in found if isinstance(each, Exception)]
        if len(found) - len(errors) < self._enough():
            raise errors[0]
        return [each for each in found if not isinstance(each, Exception)]

    def _inspected(self, count: int) -> Generator[Any, Any, LockInfo]:
        return joined((yield from self._replies(lambda member: member._inspected(count))))

    def _forced(self) -> Generator[Any, Any, bool]:
        return any((yield from self._replies(lambda member: member._forced())))


class BaseCombined(Several):
    """What combined locks are in both flavours."""

    _use: Use


class BaseCombinedHold:
    """What the holds of combined locks are in both flavours."""

    _state: Any

    @property
    def holds(self) -> List[Any]:
        return list(self._state.members)

    def _watches(self, _: bool) -> Any:
        return ()

    def _keep(self) -> None:
        """Its members are renewed; one may have been lost before there was a hold to notify."""
        if self._state.is_lost:
            self._state.notify()
