"""Semaphores by SPEC.md section 11, and what else may stand on the same name: the oracle of the random tests.

One semaphore is a table of permits and a list of those who wait. No keys and no time: a lease that ends is
told to it, as `gone_owner`.
"""

from .once import is_once

SEMAPHORE, PLAIN = "SEMAPHORE", "ACQUIRE"
MODES = {SEMAPHORE: "semaphore", PLAIN: "exclusive"}

# What a request hears that has to wait: nothing yet.
NOTHING_YET = "NOTHING YET"


class Oracle:
    """Each method returns the answer: a number, None, the code of an error, or NOTHING_YET."""

    def __init__(self):
        self.kind = None
        """Of those who hold; None while nobody does."""
        self.counts = {}
        """{owner: permits, or holds}"""
        self.line = []
        """(client, owner, kind, permits, limit) of those who wait, the first one first."""
        self.told = {}
        """{client: answer} of the waits that ended, until somebody takes it."""

    def take_told(self):
        told, self.told = self.told, {}
        return told

    def fits(self, owner, kind, permits, limit):
        if self.kind is None:
            return True
        if kind != self.kind:
            return False
        if kind == SEMAPHORE:
            return self.has(owner, kind, permits) or sum(self.counts.values()) + self.lacks(owner, kind, permits) <= limit
        return owner in self.counts

    def lacks(self, owner, kind, permits):
        return permits - (self.counts.get(owner, 0) if is_once(kind) and kind == self.kind else 0)

    def has(self, owner, kind, permits):
        """By ONCE: all that it asks for."""
        return is_once(kind) and self.lacks(owner, kind, permits if kind == SEMAPHORE else 1) <= 0

    def holds_another_kind(self, owner, kind):
        return owner in self.counts and kind != self.kind

    # Commands

    def ask(self, client, owner, kind, permits, limit, blocks):
        if permits > limit:
            return "ERR"
        if self.has(owner, kind, permits):
            return self.counts[owner]
        re_enters = kind != SEMAPHORE and kind == self.kind and owner in self.counts
        # A plain request looks at the holds only; one for permits stands behind everybody, also its own owner.
        if self.fits(owner, kind, permits, limit) and (re_enters or kind == PLAIN or not self.line):
            count = self.take(owner, kind, permits)
            self.serve_owner(owner)
            return count
        if not blocks:
            return None
        if self.holds_another_kind(owner, kind):
            return "DEADLOCK"
        self.line.append((client, owner, kind, permits, limit))
        return NOTHING_YET

    def release(self, owner, *words):
        """`PERMITS k`, or none of it."""
        permits = int(words[1]) if words else 1
        if self.counts.get(owner, 0) < permits or (words and self.kind != SEMAPHORE):
            return "NOTHELD"
        self.counts[owner] -= permits
        left = self.counts[owner]
        if left == 0:
            del self.counts[owner]
        self.settle()
        return left

    def renew(self, owner):
        return self.counts.get(owner) or "NOTHELD"

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

    def gone(self):
        """The key is gone."""
        self.counts.clear()
        self.settle()

    def gone_owner(self, owner):
        """All that the owner has is over: its lease, its session; somebody has taken it out by hand."""
        self.counts.pop(owner, None)
        self.settle()

    def set_by_hand(self, owner, permits):
        self.counts[owner] = permits
        self.serve_owner(owner)
        self.settle()

    def left(self, client):
        """This client waits no more, and hears nothing (or null)."""
        self.line = [position for position in self.line if position[0] != client]
        self.serve()

    # Granting

    def take(self, owner, kind, permits):
        permits = permits if kind == SEMAPHORE else 1
        lacks = max(0, self.lacks(owner, kind, permits))
        self.kind = kind
        self.counts[owner] = self.counts.get(owner, 0) + lacks
        return self.counts[owner]

    def leave(self, position, answer):
        self.line.remove(position)
        self.told[position[0]] = answer

    def settle(self):
        self.kind = self.kind if self.counts else None
        self.serve()

    def serve(self):
        """The grant pass: from the head, as long as the next one fits."""
        while self.line and self.fits(*self.line[0][1:]):
            position = self.line[0]
            self.leave(position, self.take(*position[1:4]))
            self.serve_owner(position[1])

    def serve_owner(self, owner):
        """Rule 2, which is for locks: who has come by a hold is queued behind others no more."""
        if self.kind == SEMAPHORE:
            for position in [position for position in self.line if position[1] == owner and self.has(*position[1:4])]:
                self.leave(position, self.counts[owner])
            return
        for position in [position for position in self.line if position[1:3] == (owner, PLAIN)]:
            if self.fits(*position[1:]):
                self.leave(position, self.take(*position[1:4]))
            else:
                self.line.remove(position)
                self.line.insert(0, position)
