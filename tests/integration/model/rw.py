"""Read-write locks by docs/design.md, written independently of lock.py: the oracle of test_readwrite_*.

One lock is a table of counts and a list of waiters. It has no keys and no time: the test calls `ends` when a
lease expires.
"""

from .once import is_once

READ, WRITE, PLAIN = "RWREAD", "RWWRITE", "ACQUIRE"
MODES = {READ: "read", WRITE: "write", PLAIN: "exclusive"}
WORDS = {READ: "READ", WRITE: "WRITE"}

# The result of a request that has to wait: it has no reply yet.
NOTHING_YET = "NOTHING YET"


class Oracle:
    """Each method returns the reply: a number, None, the code of an error, or NOTHING_YET."""

    def __init__(self):
        self.counts = {}
        """{(owner, kind): holds}"""
        self.line = []
        """(client, owner, kind) of the waiters, the first one first."""
        self.replies = {}
        """{client: reply} of the waits that have ended, until take_replies()."""

    def take_replies(self):
        replies, self.replies = self.replies, {}
        return replies

    # Holds

    def kinds_of(self, owner):
        return {kind for other, kind in self.counts if other == owner}

    def obstacle(self, owner, kind):
        """What prevents a hold of this kind for the owner: None, "self" or "others". Rule 1."""
        own = self.kinds_of(owner)
        if own and (kind == PLAIN) != (own == {PLAIN}):
            return "self"
        others = {held for other, held in self.counts if other != owner}
        return None if not others or (kind == READ and others == {READ}) else "others"

    def mode(self):
        """The mode in LOCK.INFO."""
        kinds = {kind for _, kind in self.counts}
        return next((MODES[kind] for kind in (PLAIN, WRITE, READ) if kind in kinds), "free")

    # Commands

    def request(self, client, owner, kind, blocks):
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
        """Rule 3: all waiters are ahead of a new request, except readers of another reader."""
        return any(other != owner and (kind, waiting) != (READ, READ) for _, other, waiting in self.line)

    def first_is_upgrade_of_another(self, owner):
        """Whether the first waiter is a reader that waits to write. A reader that waits for a plain hold waits for
        itself: that is no upgrade."""
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

    # Other events

    def ends(self, owner, kind):
        """The last hold of this kind has been released, or its lease has expired."""
        del self.counts[owner, kind]
        self.serve()

    def gone(self):
        """The key is gone."""
        self.counts.clear()
        self.serve()

    def left(self, client):
        """This client does not wait any more, and receives nothing (or null)."""
        self.line = [position for position in self.line if position[0] != client]
        self.serve()

    # Granting

    def take(self, owner, kind):
        if is_once(kind) and (owner, kind) in self.counts:
            return self.counts[owner, kind]
        self.counts[owner, kind] = self.counts.get((owner, kind), 0) + 1
        return self.counts[owner, kind]

    def leave(self, position, reply):
        self.line.remove(position)
        self.replies[position[0]] = reply

    def serve(self):
        """The grant pass. Rule 4."""
        while self.line and self.obstacle(*self.line[0][1:]) is None:
            owner = self.line[0][1]
            self.leave(self.line[0], self.take(*self.line[0][1:]))
            self.serve_owner(owner)

    def serve_owner(self, owner):
        """An owner that has acquired a hold does not queue behind others any more: its waits are granted in their
        order, or move to the head. Rule 2."""
        for position in [position for position in self.line if position[1] == owner]:
            obstacle = self.obstacle(*position[1:])
            if obstacle is None:
                self.leave(position, self.take(*position[1:]))
            elif obstacle == "others" and any(ahead[1] != owner for ahead in self.line[: self.line.index(position)]):
                self.line.remove(position)
                self.line.insert(0, position)
