"""RedLock, in both flavours: a lock on the majority of several independent servers. docs/redlock.md describes the algorithm."""

import random
import re
import time
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any, Callable, Dict, Generator, List, Optional, Sequence, Set

import redis.exceptions as library

from ._combine import Several
from ._spec import Spec, Words, fields_of, holders_of, ms_of, new_owner, text_of
from ._steps import LATE, AnyOf, Connect, Do, Pause, Send, State, Steps, log, repeated
from .errors import Busy, Closed, code_of, is_connection, is_not_held, is_transient, not_acquired, typed

LEAST = 3  # servers: fewer tolerate no failure
GROUP = "redlock"  # of workers: one that waits for a silent server delays no other renewals
HOLDERS = 0.1  # s: how late the replies may be that name the holders
PAUSE = 0.02, 0.2  # s: between two rounds, so that two clients that blocked each other do not collide again


def slept() -> float:
    """For how long the machine was suspended, since it was started: the lease has expired in that time, too."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic() if hasattr(time, "CLOCK_BOOTTIME") else 0.0


def reply_time(lease: float) -> float:
    """How long a round waits for replies at most."""
    return min(max(lease / 20, 0.02), 1.0)


def drift(lease: float) -> float:
    """By how much the clocks may differ after a lease, and 2 ms, because a lease expires at a whole millisecond."""
    return lease * 0.01 + 0.002


Results = Dict[Any, Any]  # of the parts of a lock: a result, or an error


def replies_in(results: Results) -> int:
    """How many servers have replied, also with an error."""
    return sum(not (isinstance(result, Exception) and is_connection(result)) for result in results.values())


class Servers:
    """The servers of a RedLock, and which ones they are. `shared`: those of their Locks."""

    def __init__(self, shared: Sequence[Any]):
        if len(shared) < LEAST:
            raise ValueError(f"locks: a RedLock needs at least {LEAST} servers, not {len(shared)}")
        if len(set(shared)) < len(shared):
            raise ValueError("locks: the same one is given twice")
        if not all(each.pool.is_single for each in shared):
            raise ValueError("locks: a RedLock needs single servers, not a cluster or the client of a Sentinel")
        self.shared, self.majority = list(shared), len(shared) // 2 + 1
        self.is_prepared = False
        self._identities: Dict[int, Set[str]] = {}
        self._known: Dict[int, int] = {}
        self._replied_at = [0.0] * len(self.shared)
        self._outages: Dict[int, List[str]] = {}

    def replied(self, number: int, named: str) -> None:
        self._replied_at[number] = time.monotonic()
        if self._outages.pop(number, None):
            log.warning("%s: %s replies again", named, self.shared[number].pool.name)

    def failed(self, number: int, named: str, began: float, error: Exception) -> None:
        """Logs the first error of an outage. There is none if the server has replied to another request since this one began."""
        outage = [str(error)]  # not the error, whose traceback refers to the hold
        if self._replied_at[number] < began and self._outages.setdefault(number, outage) is outage:
            log.warning("%s: no reply from %s (%s)", named, self.shared[number].pool.name, error)

    def identified(self, number: int, until: float) -> Steps:
        """Opens a connection, and refuses a server that is another one's, a replica, or in one cluster with another one."""
        pool = self.shared[number].pool
        yield Connect(until)
        opened = pool.opened_count
        if self._known.get(number) == opened:
            return
        hello = fields_of((yield Send(["HELLO"], until)))
        if text_of(hello["role"]) != "master":
            raise ValueError(f"locks: {pool.name} is a {text_of(hello['role'])}")
        info = ""
        try:
            info = text_of((yield Send(["INFO", "server"], until)))
        except library.ResponseError as error:
            if code_of(error) != "NOPERM":
                raise
        found = set(re.findall(r"run_id:(\w+)", info))
        if text_of(hello.get("mode", "")) == "cluster":
            nodes = text_of((yield Send(["CLUSTER", "NODES"], until)))
            found.update(line.split()[0] for line in nodes.splitlines() if line)
        self._identities[number] = found
        for other, theirs in sorted(self._identities.items()):
            if other != number and found & theirs:
                names = " and ".join(sorted((self.shared[other].pool.name, pool.name)))
                raise ValueError(f"locks: {names} are the same server, or nodes of one cluster")
        self._known[number] = opened


class Part(State):
    """What one server has granted."""

    def __init__(self, whole: "MajorityState", number: int):
        self.whole, self.number, self.shared = whole, number, whole.servers.shared[number]
        super().__init__(replace(whole.spec, kind="lock"), whole.owner, None, time.monotonic(), self.shared.pool)
        self.job: Any = None  # the last one, which may still wait for its reply
        self.began = 0.0  # when it began
        self.last = 0.0  # until when the server may have it
        self.silent: List[Any] = []  # the connections on which a request had no reply
        self.is_granted = False
        self.has_kept = False  # the server has had it all the time, as far as is known

    @property
    def counts(self) -> bool:
        return self.has_kept and self.is_granted and not self.has_ended()

    @property
    def is_unwanted(self) -> bool:
        """Whether a grant must be released: the hold has ended, or the Locks of this server were closed."""
        return self.is_ending or self.whole.has_ended()

    def _replied(self) -> None:
        self.whole.servers.replied(self.number, self.whole.spec.named)

    def failed(self, began: float, error: Exception) -> None:
        """An error of what began then, unless it shows nothing about the server: it had less time than a reply has."""
        was_short = isinstance(error, library.TimeoutError) and time.monotonic() - began < reply_time(self.whole.spec.lease) / 2
        if is_connection(error) and not was_short and not isinstance(error, Busy):
            self.whole.servers.failed(self.number, self.whole.spec.named, began, error)

    def noted(self, steps: Steps, began: float) -> Steps:
        try:
            return (yield from steps)
        except Exception as error:
            self.failed(began, error)
            raise

    def acquired(self, until: float, is_first: bool = True) -> Steps:
        """Returns the token, or None. The reply is read however late it is: it may be a grant that must be released."""
        yield from self.whole.servers.identified(self.number, until)
        if self.is_unwanted:
            return None
        sent, spec = time.monotonic(), self.whole.spec
        self.last = sent + spec.lease
        try:
            token = yield Send(spec.acquire(self.owner, None), self.last, silent=self.silent)
            self._replied()
        except Exception as error:
            if self.is_unwanted and not isinstance(error, library.ResponseError):
                yield from self.released()  # it may have been granted
            raise
        if token is None:
            self.last = 0.0
            return None
        self.confirm(sent, spec.lease)
        self.is_granted, self.has_kept = True, is_first
        self.shared.holds[id(self)] = self
        if self.is_unwanted:
            yield from self.released()
        else:
            yield from self._caught_up(spec.lease)
        return token

    def holders(self, until: float) -> Generator[Send, Any, List[str]]:
        """Who holds it on this server."""
        return holders_of((yield Send(["LOCK.INFO", self.spec.key, "COUNT", 0], until)))

    def _caught_up(self, lease: float) -> Steps:
        """The reply may have been so late that the renewal with another lease was not sent to this server."""
        if self.whole.spec.lease != lease and not self.is_unwanted:
            yield from self.renewed_once(time.monotonic() + reply_time(lease), self.whole.spec.lease)

    def renewed_once(self, until: float, lease: float) -> Steps:
        """Returns whether the server has renewed what it has had all the time. If it has lost it, it is requested again."""
        try:
            if self.is_granted:
                yield from self.whole.servers.identified(self.number, until)
                sent = time.monotonic()
                self.last = max(self.last, sent + lease)
                yield Send(["LOCK.RENEW", self.spec.key, self.owner, "PX", ms_of(lease)], self.last)
                self._replied()
                self.confirm(sent, lease)
                yield from self._caught_up(lease)
                return self.counts
        except ValueError:
            self.is_granted = False  # this is another server now
            raise
        except library.ResponseError as error:
            if not is_not_held(error):
                raise
            self.is_granted = False
        yield from self.acquired(until, is_first=False)
        return False

    def released(self) -> Steps:
        """Returns whether it was held. It is repeated until the lease has expired, and once more without a grant, because the
        request may arrive later."""
        self.is_ending, was_held, until = True, False, self.last
        self.shared.holds.pop(id(self), None)
        for _ in range(1 if self.is_granted else 2):
            if not self.last:
                break  # nothing was requested, or a late reply says that it was not granted
            try:
                yield from self._released_once(until)
                was_held = True
                break
            except Exception as error:
                if not is_not_held(error):
                    yield from self._left()
                    raise typed(error, self.whole.spec, self.shared.pool) from error
            if not self.is_granted:
                yield Pause(0.1)
        yield from self._left()
        self.is_released = True
        return was_held

    def _left(self) -> Steps:
        """A server that is stopped for longer than the lease reads a request when it continues, also on a connection that
        was closed meanwhile, and grants it. So the release follows the request."""
        while self.silent:
            try:
                connection = self.silent.pop()
            except IndexError:
                return
            yield Do(partial(self.shared.pool.leave, connection, self._release()))

    def _release(self) -> Words:
        return ["LOCK.RELEASE", self.spec.key, self.owner]

    def _released_once(self, until: float) -> Steps:
        words = self._release()
        try:
            yield from repeated(words, until, is_repeatable=False)
        except Exception as error:
            if not is_connection(error):
                raise
            try:
                yield from repeated(words, until)
            except library.ResponseError as problem:
                if not (is_not_held(problem) and self.is_granted):
                    raise  # otherwise the first one was executed


class MajorityState(State):
    """The state of one round, and of the hold if it had a majority."""

    def __init__(self, spec: Spec, servers: Servers):
        super().__init__(spec, new_owner(), None, time.monotonic(), servers.shared[0].pool)
        self.servers = servers
        self.until, self._slept = time.monotonic(), slept()
        self.parts = [Part(self, number) for number in range(len(servers.shared))]

    @property
    def may_be_left(self) -> bool:
        return True

    def _has_expired(self) -> bool:
        return time.monotonic() + slept() - self._slept >= self.until

    def _lasting(self, lease: float) -> float:
        return lease - drift(lease)

    def _has_majority(self) -> bool:
        return sum(part.counts for part in self.parts) >= self.servers.majority

    def asked(self, work: Callable[[Part], Steps], until: float, is_enough: Callable[[Results], bool], frees: bool = False,
              parts: Optional[List[Part]] = None) -> Generator[Any, Any, Results]:  # fmt: skip
        """Executes steps for all servers, or for these, at once; for those that have not replied to the last ones, when they
        have, unless the steps free something. Returns the results when they are enough or the time has passed; what has not ended then
        continues."""
        jobs: Dict[Any, Part] = {}
        results: Results = {}
        busy, limit = list(self.parts if parts is None else parts), reply_time(self.spec.lease)
        while True:
            for part in list(busy):
                if part.shared.is_closed:
                    results[part] = Closed()
                elif frees or part.job is None or part.job.done():
                    part.began = time.monotonic()
                    part.job = part.shared.start(part.spec.key, part.noted(work(part), part.began), group=GROUP, frees=frees)
                    jobs[part.job] = part
                else:
                    if time.monotonic() - part.began >= limit:
                        part.failed(part.began, library.TimeoutError(f"no reply within {limit:.3g} s"))
                    continue
                busy.remove(part)
            awaited = {*jobs, *(part.job for part in busy)}
            if not awaited or is_enough(results) or time.monotonic() >= until:
                return results
            for job in (yield AnyOf(awaited, until)):
                if job in jobs:
                    results[jobs.pop(job)] = Closed() if job.cancelled() else job.exception() or job.result()

    def acquired(self, last: float) -> Generator[Any, Any, Results]:
        """One round. It has a token if it had a majority in time."""
        sent, self._slept = time.monotonic(), slept()
        until = min(sent + reply_time(self.spec.lease), last)

        def tokens(results: Results) -> List[int]:
            return [token for token in results.values() if isinstance(token, int)]

        def is_decided(results: Results) -> bool:
            granted, missing, majority = len(tokens(results)), len(self.parts) - len(results), self.servers.majority
            return granted >= majority or (replies_in(results) >= majority and granted + missing < majority)

        results = yield from self.asked(lambda part: part.acquired(until), until, is_decided)
        if len(tokens(results)) >= self.servers.majority:
            self.confirm(sent, self.spec.lease)
            self.token = None if self._has_expired() else max(tokens(results))
        return results

    def _renewed(self) -> Generator[Any, Any, bool]:
        """One round of renewals. Returns whether it had a majority."""
        sent, before, lease = time.monotonic(), slept(), self._request_lease()
        until = min(sent + reply_time(lease), self.until)

        def has_majority(results: Results) -> bool:
            return sum(result is True for result in results.values()) >= self.servers.majority

        if not has_majority((yield from self.asked(lambda part: part.renewed_once(until, lease), until, has_majority))):
            return False
        self.confirm(sent, lease)
        self._slept = before
        for part in self.parts:
            part.has_kept = part.has_kept or part.is_granted  # this round had a majority without it
        return True

    def renewed(self, schedule: int = 0) -> Steps:
        while not self.has_ended() and self.schedule == schedule:
            now = time.monotonic()
            if self._has_expired() or not self._has_majority():
                return True
            if now < self.due():
                yield Pause(self.due() - now)
            elif not (yield from self._renewed()):
                self.renew_at = max(time.monotonic(), now + self.spec.lease / 10)
        return False

    def renew(self, lease: Optional[float]) -> Steps:
        self._change(lease)
        if not (yield from self._renewed()):
            if self._has_majority() and not self._has_expired():
                raise library.TimeoutError(f"{self.spec.named}: no majority of the servers has replied")
            self.notify()
            raise self.not_held()

    def guarded(self, command: Words) -> Steps:
        raise ValueError("guard: a RedLock has no server of its own")
        yield

    def released(self) -> Steps:
        if self.is_released:
            raise self.not_held()
        was_lost, self.is_ending = self.is_lost, True
        until = time.monotonic() + reply_time(self.spec.lease)
        granted = {part for part in self.parts if part.is_granted}
        results = yield from self.asked(Part.released, until, lambda results: granted <= results.keys(), frees=True)
        self.is_released = True
        if was_lost or len(self.parts) - sum(held is False for held in results.values()) < self.servers.majority:
            self._lose()
            raise self.not_held()

    def give_back(self) -> None:
        """Releases in the background what a server may have granted."""
        self.is_ending = True
        for part in self.parts:
            if part.last and not part.is_ending:
                part.shared.start(part.spec.key, part.released(), self.spec.named, GROUP)


class Majority:
    """One acquisition: rounds, until one has a majority."""

    was_cut, entries = False, None

    def __init__(self, lock: Any, wait: Optional[float]):
        self.spec, self._servers, self._wait, self.given_up = lock._spec, lock._servers, wait, False
        self.began = self.sent = self._reached = time.monotonic()
        self.until = float("inf") if wait is None else self.began + (wait or LATE)
        self._last = self.until + (LATE if wait else 0.0)
        self._state = MajorityState(self.spec, self._servers)

    @property
    def owner(self) -> str:
        return self._state.owner

    def state(self, answer: MajorityState) -> MajorityState:
        return answer

    def give_up(self, _: Any) -> Steps:
        self._state.give_back()
        return
        yield

    def run(self) -> Steps:
        yield from self._prepared()
        while True:
            self._state = state = MajorityState(self.spec, self._servers)
            try:
                results = yield from state.acquired(self._last)
            except BaseException:
                state.give_back()
                raise
            if state.token is not None and not self.given_up:
                return state
            state.give_back()
            error = self._failed(results)
            left = self.until - time.monotonic()
            if left > 0 and self._wait != 0 and not self.given_up:
                yield Pause(min(random.uniform(*PAUSE), left))
            if self._wait == 0 or self.given_up or time.monotonic() >= self.until:
                holders = [] if error else (yield from self._holders(results))
                raise not_acquired(self.spec, self._wait or 0, holders, error) from error

    def _holders(self, results: Results) -> Generator[Any, Any, List[str]]:
        """Who holds it on the servers that refused it, on most of them first, as far as there is time for that."""
        refused = [] if self.given_up else [part for part, token in results.items() if token is None]
        until = min(time.monotonic() + HOLDERS, self._last)
        found = yield from self._state.asked(lambda part: part.holders(until), until, lambda _: False, parts=refused)
        return [owner for owner, _ in Counter(o for each in found.values() if isinstance(each, list) for o in each).most_common()]

    def _prepared(self) -> Steps:
        """Before the first use: identifies the servers that reply in time; the others are identified when they do."""
        if self._servers.is_prepared:
            return
        now = time.monotonic()
        until = now + min(reply_time(self.spec.lease), (self._last - now) / 2)  # a silent server may not use up the wait
        results = yield from self._state.asked(lambda part: self._servers.identified(part.number, until), until, lambda _: False)
        self._failed(results)
        self._servers.is_prepared = True

    def _failed(self, results: Results) -> Optional[Exception]:
        """Raises the error with which the acquisition ends after this round. Returns that of the connections, if no majority
        has replied."""
        errors = {part: error for part, error in results.items() if isinstance(error, Exception)}
        refusals = [typed(error, self.spec, part.shared.pool) for part, error in errors.items() if not is_transient(error)]
        for refusal in refusals:
            if isinstance(refusal, ValueError) or len(refusals) > len(self._servers.shared) - self._servers.majority:
                raise refusal
        if replies_in(results) >= self._servers.majority:
            self._reached = time.monotonic()
            return None
        unreached = [error for error in errors.values() if is_connection(error)]
        error = unreached[-1] if unreached else library.TimeoutError("no majority of the servers has replied in time")
        if self._wait == 0 or time.monotonic() - self._reached >= self._servers.shared[0].connect_timeout:
            raise error
        return error


def servers_of(locks: Sequence[Any], flavour: type) -> Servers:
    if not all(isinstance(each, flavour) for each in locks):
        raise TypeError(f"locks must be {flavour.__module__}.{flavour.__name__}, one of each server")
    return Servers([each._shared for each in locks])


class BaseRedLock:
    """What RedLocks are in both flavours."""

    _locks: List[Any]

    def __repr__(self) -> str:
        return f"RedLock({self._locks!r})"


class BaseMajorityLock(Several):
    """What the locks of a RedLock are in both flavours."""

    _servers: Servers

    def _attempt(self, wait: Any, *_: Any) -> Majority:
        return Majority(self, wait)

    def _enough(self) -> int:
        return self._servers.majority


class BaseMajorityHold:
    """What their holds are in both flavours."""

    def __init__(self, lock: Any, state: MajorityState):
        super().__init__(lock, state)  # type: ignore[call-arg]
        self._all_locks = [member._locks for member in lock._members]  # must not be collected while it is held

    def _watches(self, _: bool) -> Any:
        return ()
