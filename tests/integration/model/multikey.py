"""Plain locks of several keys, asked for one by one or several at once: rules 1 to 4 and 6, and cycles.

Each owner says one thing at a time: nobody waits twice.
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
class Asked:
    owner: str
    keys: str
    multikey: bool
    once: bool = False
    mode = EXCLUSIVE


class Locks:
    def __init__(self, names):
        self.keys = {name: Key() for name in names}

    def ask(self, owner, names, multikey, once=False):
        """The answer of LOCK.ACQUIRE name, or LOCK.MACQUIRE of the names, with BLOCK 0; or WAITS, or REFUSED."""
        asked = Asked(owner, names, multikey, once)
        if all(self._fits_newcomer(asked, self.keys[name]) for name in names):
            return self._take(asked)
        # Where it holds a key it is to stand at the head, and waits for nobody.
        aims = [(self.keys[name], False) for name in names if self.keys[name].holder != owner]
        if closes_a_cycle(asked, aims, self.keys.values()):
            return REFUSED
        for name in names:
            queue = self.keys[name].queue
            queue.insert(0 if self.keys[name].holder == owner else len(queue), asked)
        return WAITS

    def release(self, owner, names, multikey):
        """The answer of LOCK.RELEASE name or LOCK.MRELEASE, or NOT_HELD; and {owner: answer} of those granted by it."""
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
        """Who waits."""
        return {asked.owner for key in self.keys.values() for asked in key.queue}

    def is_told_truly(self, sentences, asker, names):
        """Whether (owner, key, how, other) are a cycle that the asker would have closed by asking for the names."""
        follows = all(one[3] == other[0] for one, other in zip(sentences, sentences[1:] + sentences[:1], strict=True))
        first, *others = sentences
        owner, name, how, other = first
        ahead = {one.owner for one in self.keys[name].queue} - {owner}
        closes = owner == asker and name in names
        closes = closes and (other == self.keys[name].holder if how == "held by" else other in ahead)
        return follows and closes and all(waits_for(o, self.keys[k]).get(who) == how for o, k, how, who in others)

    # How

    def _fits_newcomer(self, asked, key):
        if key.holder is not None:
            return key.holder == asked.owner
        return not any(other.multikey or asked.multikey for other in key.queue)

    def _take(self, asked):
        counts = [self._take_one(asked, self.keys[name]) for name in asked.keys]
        for name in asked.keys:
            if asked in self.keys[name].queue:
                self.keys[name].queue.remove(asked)
        return len(counts) if asked.multikey else counts[0]

    def _take_one(self, asked, key):
        """By ONCE what the owner has already is left as it is."""
        return key.change(asked.owner, 0 if asked.once and key.holder == asked.owner else 1)

    def _fits_waiter(self, asked, key):
        return key.holder == asked.owner or (key.holder is None and key.queue[0] == asked)

    def _pass(self, key, granted):
        while key.queue and all(self._fits_waiter(key.queue[0], self.keys[name]) for name in key.queue[0].keys):
            head = key.queue[0]
            granted[head.owner] = self._take(head)
