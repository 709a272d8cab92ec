"""Read-write locks of several keys, requested one by one or several at once: rules 1 to 4 and 6, and cycles.

Written from the rules, without the shortcuts of the module: after each release every waiter is checked again.
Each owner sends one command at a time: it has at most one wait.
"""

from copy import deepcopy
from dataclasses import dataclass, field
from itertools import combinations

from .rules import READ, conflict

WAITS, REFUSED, NOT_HELD = "WAITS", "REFUSED", "NOT HELD"


@dataclass
class Key:
    holds: dict = field(default_factory=dict)
    """{(owner, mode): count}"""
    queue: list = field(default_factory=list)
    """Requests, head first."""

    def owns(self, owner):
        return any(holder == owner for holder, _ in self.holds)

    def holders_in_the_way(self, owner, mode):
        return {holder for holder, held in self.holds if holder != owner and conflict(mode, held)}


@dataclass(eq=False)
class Request:
    owner: str
    modes: dict
    """{name of a key: mode}"""
    multikey: bool


class Locks:
    def __init__(self, names):
        self.keys = {name: Key() for name in names}

    def request(self, owner, modes, multikey):
        """The reply to a request with BLOCK 0; or WAITS, or REFUSED."""
        request = Request(owner, modes, multikey)
        if all(self._fits(request, name, self.keys[name].queue) for name in modes):
            return self._take(request)
        for name, mode in modes.items():
            key = self.keys[name]
            key.queue.insert(0 if key.owns(owner) and not multikey else len(key.queue), request)
        if self._waits_for_itself(owner):
            self._leave(request)
            return REFUSED
        return WAITS

    def release(self, owner, modes, multikey):
        """The reply to a release, or NOT_HELD; and {owner: reply} of the grants that it makes."""
        if any((owner, mode) not in self.keys[name].holds for name, mode in modes.items()):
            return NOT_HELD, {}
        left = {name: self._change(owner, name, mode, -1) for name, mode in modes.items()}
        granted = {}
        for name, count in left.items():
            if count == 0:
                self._grant(name, granted)
        assert not any(self._fits_waiting(one) for one in self._requests()), "a waiter that fits was not reached"
        return sum(count == 0 for count in left.values()) if multikey else left[next(iter(left))], granted

    def has_one_outcome(self, owner, modes):
        """Whether the grants after this release do not depend on which of several freed locks is handed off first."""
        after = deepcopy(self)
        for name, mode in modes.items():
            after._change(owner, name, mode, -1)
        fits = [request for request in after._requests() if after._fits_waiting(request)]
        return not any(
            conflict(one.modes[name], other.modes[name])
            for one, other in combinations(fits, 2)
            for name in one.modes.keys() & other.modes.keys()
        )

    def holds_of(self, owner):
        """[(name, mode)], as often as it holds them."""
        return [
            (name, mode)
            for name, key in self.keys.items()
            for (holder, mode), count in key.holds.items()
            for _ in range(count)
            if holder == owner
        ]

    def waiting(self):
        """The owners that wait."""
        return {request.owner for request in self._requests()}

    # Implementation

    def _requests(self):
        return {request for key in self.keys.values() for request in key.queue}

    def _fits(self, request, name, ahead):
        key, mode = self.keys[name], request.modes[name]
        if key.holders_in_the_way(request.owner, mode):
            return False
        return key.owns(request.owner) or not any(conflict(mode, other.modes[name]) for other in ahead)

    def _fits_waiting(self, request):
        queues = {name: self.keys[name].queue for name in request.modes}
        return all(self._fits(request, name, queue[: queue.index(request)]) for name, queue in queues.items())

    def _take(self, request):
        self._leave(request)
        counts = [self._change(request.owner, name, mode, 1) for name, mode in request.modes.items()]
        return len(counts) if request.multikey else counts[0]

    def _leave(self, request):
        for name in request.modes:
            if request in self.keys[name].queue:
                self.keys[name].queue.remove(request)

    def _change(self, owner, name, mode, by):
        holds = self.keys[name].holds
        count = holds.pop((owner, mode), 0) + by
        if count:
            holds[owner, mode] = count
        return count

    def _grant(self, name, granted):
        """Grants the waiters of this key that fit: its holders, then the first in the queue."""
        key = self.keys[name]
        by_rank = lambda: sorted(key.queue, key=lambda one: not key.owns(one.owner))  # noqa: E731
        while request := next((one for one in by_rank() if self._fits_waiting(one)), None):
            granted[request.owner] = self._take(request)

    def _waits_for(self, owner):
        """The owners that this one waits for."""
        found = set()
        for name, key in self.keys.items():
            for at, request in enumerate(key.queue):
                if request.owner == owner:
                    mode = request.modes[name]
                    found |= key.holders_in_the_way(owner, mode)
                    if not key.owns(owner):
                        found |= {one.owner for one in key.queue[:at] if conflict(mode, one.modes[name])}
        return found

    def _waits_for_itself(self, owner):
        found, reached = self._waits_for(owner), set()
        while found:
            one = found.pop()
            reached.add(one)
            found |= self._waits_for(one) - reached
        return owner in reached


def words(modes):
    """The modes as words of a command."""
    return ["READ" if mode == READ else "WRITE" for mode in modes]
