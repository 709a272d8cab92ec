"""Semaphores by docs/design/semaphores.md, and plain locks of the same name: the oracle of the random tests.

One semaphore is a table of permits and a list of waiters. It has no keys and no time: the test calls
`gone_owner` when a lease expires.
"""

from .once import is_once

SEMAPHORE, PLAIN = "SEMAPHORE", "ACQUIRE"
MODES = {SEMAPHORE: "semaphore", PLAIN: "exclusive"}

# The result of a request that has to wait: it has no reply yet.
NOTHING_YET = "NOTHING YET"


class Oracle:
    """Each method returns the reply: a number, None, the code of an error, or NOTHING_YET."""

    def __init__(self):
        self.kind = None
        """The kind of the holds; None while there are none."""
        self.counts = {}
        """{owner: permits, or holds}"""
        self.line = []
        """(client, owner, kind, permits, limit) of the waiters, the first one first."""
        self.replies = {}
        """{client: reply} of the waits that have ended, until take_replies()."""

    def take_replies(self):
        replies, self.replies = self.replies, {}
        return replies

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
        """Whether it requests with ONCE, and holds all that it requests."""
        return is_once(kind) and self.lacks(owner, kind, permits if kind == SEMAPHORE else 1) <= 0

    def holds_another_kind(self, owner, kind):
        return owner in self.counts and kind != self.kind

    # Commands

    def request(self, client, owner, kind, permits, limit, blocks):
        if permits > limit:
            return "ERR"
        if self.has(owner, kind, permits):
            return self.counts[owner]
        re_enters = kind != SEMAPHORE and kind == self.kind and owner in self.counts
        # A plain request depends only on the holds; one for permits queues behind all waiters, also its own owner's.
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
        """`words`: `PERMITS k`, or none."""
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

    # Other events

    def gone(self):
        """The key is gone."""
        self.counts.clear()
        self.settle()

    def gone_owner(self, owner):
        """All holds of the owner have ended: its lease or its session, or another client has removed its field."""
        self.counts.pop(owner, None)
        self.settle()

    def written_by_another_client(self, owner, permits):
        self.counts[owner] = permits
        self.serve_owner(owner)
        self.settle()

    def left(self, client):
        """This client does not wait any more, and receives nothing (or null)."""
        self.line = [position for position in self.line if position[0] != client]
        self.serve()

    # Granting

    def take(self, owner, kind, permits):
        permits = permits if kind == SEMAPHORE else 1
        lacks = max(0, self.lacks(owner, kind, permits))
        self.kind = kind
        self.counts[owner] = self.counts.get(owner, 0) + lacks
        return self.counts[owner]

    def leave(self, position, reply):
        self.line.remove(position)
        self.replies[position[0]] = reply

    def settle(self):
        self.kind = self.kind if self.counts else None
        self.serve()

    def serve(self):
        """The grant pass: from the head of the queue, as long as the next request fits."""
        while self.line and self.fits(*self.line[0][1:]):
            position = self.line[0]
            self.leave(position, self.take(*position[1:4]))
            self.serve_owner(position[1])

    def serve_owner(self, owner):
        """Rule 2, which is for locks: an owner that has acquired a hold does not queue behind others any more."""
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
