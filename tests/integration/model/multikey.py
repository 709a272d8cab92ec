"""Plain locks of several keys, requested one by one or several at once: rules 1 to 4 and 6, and cycles.

Each owner sends one command at a time: it has at most one wait.
"""

from dataclasses import dataclass, field

from .cycles import closes_a_cycle, waits_for
from .rules import EXCLUSIVE

WAITS, REFUSED, NOT_HELD = "WAITS", "REFUSED", "NOT HELD"


@dataclass
class Key:
    holds: dict = field(default_factory=dict)
    """{(owner, mode): count}, of one owner at most."""
    queue: list = field(default_factory=list)

    @property
    def holder(self):
        return next((owner for owner, _ in self.holds), None)

    def change(self, owner, by):
        count = self.holds.pop((owner, EXCLUSIVE), 0) + by
        if count:
            self.holds[owner, EXCLUSIVE] = count
        return count


@dataclass(frozen=True)
class Request:
    owner: str
    keys: str
    multikey: bool
    once: bool = False
    mode = EXCLUSIVE


class Locks:
    def __init__(self, names):
        self.keys = {name: Key() for name in names}

    def request(self, owner, names, multikey, once=False):
        """The reply to LOCK.ACQUIRE name, or LOCK.MACQUIRE of the names, with BLOCK 0; or WAITS, or REFUSED."""
        request = Request(owner, names, multikey, once)
        if all(self._fits_newcomer(request, self.keys[name]) for name in names):
            return self._take(request)
        # At a key that it holds it goes to the head of the queue, and waits for no other owner.
        aims = [(self.keys[name], False) for name in names if self.keys[name].holder != owner]
        if closes_a_cycle(request, aims, self.keys.values()):
            return REFUSED
        for name in names:
            queue = self.keys[name].queue
            queue.insert(0 if self.keys[name].holder == owner else len(queue), request)
        return WAITS

    def release(self, owner, names, multikey):
        """The reply to LOCK.RELEASE name or LOCK.MRELEASE, or NOT_HELD; and {owner: reply} of the grants it makes."""
        if any(self.keys[name].holder != owner for name in names):
            return NOT_HELD, {}
        left = {name: self.keys[name].change(owner, -1) for name in names}
        freed = [name for name in names if left[name] == 0]
        granted = {}
        for name in freed:
            self._pass(self.keys[name], granted)
        return len(freed) if multikey else left[names], granted

    def hold_of(self, owner):
        """The names of the keys that it holds."""
        return "".join(name for name, key in self.keys.items() if key.holder == owner)

    def waiting(self):
        """The owners that wait."""
        return {request.owner for key in self.keys.values() for request in key.queue}

    def is_a_cycle(self, sentences, requester, names):
        """Whether (owner, key, how, other) are a cycle that the requester would have closed by requesting the names."""
        follows = all(one[3] == other[0] for one, other in zip(sentences, sentences[1:] + sentences[:1], strict=True))
        first, *others = sentences
        owner, name, how, other = first
        ahead = {one.owner for one in self.keys[name].queue} - {owner}
        closes = owner == requester and name in names
        closes = closes and (other == self.keys[name].holder if how == "held by" else other in ahead)
        return follows and closes and all(waits_for(o, self.keys[k]).get(who) == how for o, k, how, who in others)

    # Implementation

    def _fits_newcomer(self, request, key):
        if key.holder is not None:
            return key.holder == request.owner
        return not any(other.multikey or request.multikey for other in key.queue)

    def _take(self, request):
        counts = [self._take_one(request, self.keys[name]) for name in request.keys]
        for name in request.keys:
            if request in self.keys[name].queue:
                self.keys[name].queue.remove(request)
        return len(counts) if request.multikey else counts[0]

    def _take_one(self, request, key):
        """With ONCE a hold that the owner has already is not changed."""
        return key.change(request.owner, 0 if request.once and key.holder == request.owner else 1)

    def _fits_waiter(self, request, key):
        return key.holder == request.owner or (key.holder is None and key.queue[0] == request)

    def _pass(self, key, granted):
        while key.queue and all(self._fits_waiter(key.queue[0], self.keys[name]) for name in key.queue[0].keys):
            head = key.queue[0]
            granted[head.owner] = self._take(head)
