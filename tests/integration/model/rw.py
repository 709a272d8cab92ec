"""Read-write locks by SPEC.md sections 1 to 3, a second time and apart from lock.py: the oracle of test_rw_*.

One lock is a table of counts and a list of those who wait. No keys and no time: a lease that ends is told
to it, as `ends`.
"""

from .once import is_once

READ, WRITE, PLAIN = "RWREAD", "RWWRITE", "ACQUIRE"
MODES = {READ: "read", WRITE: "write", PLAIN: "exclusive"}
WORDS = {READ: "READ", WRITE: "WRITE"}

# What a request hears that has to wait: nothing yet.
NOTHING_YET = "NOTHING YET"


class Oracle:
    """Each method returns the answer: a number, None, the code of an error, or NOTHING_YET."""

    def __init__(self):
        self.counts = {}
        """{(owner, kind): holds}"""
        self.line = []
        """(client, owner, kind) of those who wait, the first one first."""
        self.told = {}
        """{client: answer} of the waits that ended, until somebody takes it."""

    def take_told(self):
        told, self.told = self.told, {}
        return told

    # Who holds

    def kinds_of(self, owner):
        return {kind for other, kind in self.counts if other == owner}

    def obstacle(self, owner, kind):
        """What keeps the owner from a hold of this kind: None, "self" or "others". Rule 1."""
        own = self.kinds_of(owner)
        if own and (kind == PLAIN) != (own == {PLAIN}):
            return "self"
        others = {held for other, held in self.counts if other != owner}
        return None if not others or (kind == READ and others == {READ}) else "others"

    def mode(self):
        """What LOCK.INFO calls it."""
        kinds = {kind for _, kind in self.counts}
        return next((MODES[kind] for kind in (PLAIN, WRITE, READ) if kind in kinds), "free")

    # Commands

    def ask(self, client, owner, kind, blocks):
        obstacle, owns = self.obstacle(owner, kind), bool(self.kinds_of(owner))
        if obstacle is None and (owns or kind == PLAIN or not self.is_behind(owner, kind)):
            count = self.take(owner, kind)
            self.serve_owner(owner)
            return count
        if not blocks:
            return None
        if obstacle == "self" or (owns and self.first_is_upgrade_of_another(owner)):
            return "DEADLOCK"
        position = (client, owner, kind)
        self.line.insert(0 if owns else len(self.line), position)
        return NOTHING_YET

    def is_behind(self, owner, kind):
        """Rule 3: all that wait stand ahead of a newcomer; readers do not mind readers."""
        return any(other != owner and (kind, asked) != (READ, READ) for _, other, asked in self.line)

    def first_is_upgrade_of_another(self, owner):
        """A reader that waits to write. Who reads and waits for a plain hold waits for itself: no upgrade."""
        _, other, kind = self.line[0] if self.line else (None, owner, None)
        return other != owner and kind == WRITE and bool(self.kinds_of(other))

    def release(self, owner, word=None):
        held = self.kinds_of(owner)
        if word is None:
            if held == {READ, WRITE}:
                return "ERR"
        else:
            held = held & {kind for kind in WORDS if WORDS[kind] == word}
        if not held:
            return "NOTHELD"
        (kind,) = held
        self.counts[owner, kind] -= 1
        left = self.counts[owner, kind]
        if left == 0:
            self.ends(owner, kind)
        return left

    def renew(self, owner):
        return sum(count for (other, _), count in self.counts.items() if other == owner) or "NOTHELD"

    def force(self):
        was_held = bool(self.counts)
        self.gone()
        return int(was_held)

    def cancel(self, owner):
        found = [position for position in self.line if position[1] == owner]
        for position in found:
            self.leave(position, None)
        self.serve()
        return int(bool(found))

    def give_up(self, owner, *words):
        """LOCK.CANCEL … RELEASE."""
        if self.cancel(owner):
            return 1
        left = self.release(owner, *words)
        return {"NOTHELD": 0, "ERR": "ERR"}.get(left, 2)

    # What else happens

    def ends(self, owner, kind):
        """The last hold of this kind, or its lease, is over."""
        del self.counts[owner, kind]
        self.serve()

    def gone(self):
        """The key is gone."""
        self.counts.clear()
        self.serve()

    def left(self, client):
        """This client waits no more, and hears nothing (or null)."""
        self.line = [position for position in self.line if position[0] != client]
        self.serve()

    # Granting

    def take(self, owner, kind):
        if is_once(kind) and (owner, kind) in self.counts:
            return self.counts[owner, kind]
        self.counts[owner, kind] = self.counts.get((owner, kind), 0) + 1
        return self.counts[owner, kind]

    def leave(self, position, answer):
        self.line.remove(position)
        self.told[position[0]] = answer

    def serve(self):
        """The grant pass. Rule 4."""
        while self.line and self.obstacle(*self.line[0][1:]) is None:
            owner = self.line[0][1]
            self.leave(self.line[0], self.take(*self.line[0][1:]))
            self.serve_owner(owner)

    def serve_owner(self, owner):
        """Who has come by a hold is queued behind others no more: in the order in which its waits stand. Rule 2."""
        for position in [position for position in self.line if position[1] == owner]:
            obstacle = self.obstacle(*position[1:])
            if obstacle is None:
                self.leave(position, self.take(*position[1:]))
            elif obstacle == "others" and any(ahead[1] != owner for ahead in self.line[: self.line.index(position)]):
                self.line.remove(position)
                self.line.insert(0, position)
