"""One lock: its holds and its waiters."""

from . import rules
from .cycles import closes_a_cycle

# The result of a request that blocks: it has no reply yet.
WAITS = "WAITS"


class Refused(Exception):
    """The reply to a command is an error with this code, and nothing has changed."""

    def __init__(self, code):
        super().__init__(code)
        self.code = code


class Lock:
    """Each command returns its reply. The waits that it ended, and their replies, are kept for take_ended().

    `server` is a list of all locks of its server, to which it adds itself: cycles go through several locks.
    """

    def __init__(self, server=None):
        self._server = [] if server is None else server
        self._server.append(self)
        self.holds = {}
        """{(owner, mode): count}"""
        self.queue = []
        """The requests that wait, the head first."""
        self.is_lock = True
        """False while the key is something else."""
        self._ended = {}

    def take_ended(self):
        """{client: reply} of the waits that have ended since the last call."""
        ended, self._ended = self._ended, {}
        return ended

    # Commands

    def acquire(self, request, may_block):
        self._needs_a_lock()
        verdict = rules.decide(request, self.holds)
        behind = not rules.owns(request, self.holds) and rules.is_behind(request, self.queue)
        if verdict == rules.FITS and not behind:
            count = self._take(request)
            self._grant_waiting(request.owner)
            return count
        if not may_block or verdict == rules.NEVER:
            return None
        first = verdict == rules.WAITS_FIRST
        if closes_a_cycle(request, [(self, first)], self._server):
            raise Refused("DEADLOCK")
        self.queue.insert(0 if first else len(self.queue), request)
        return WAITS

    def release(self, owner, mode=rules.EXCLUSIVE):
        self._needs_a_lock()
        left = self._held(owner, mode) - 1
        self._set(owner, mode, left)
        if left == 0:
            self._pass()
        return left

    def renew(self, owner, mode=rules.EXCLUSIVE):
        self._needs_a_lock()
        return self._held(owner, mode)

    def force(self):
        self._needs_a_lock()
        if not self.holds:
            return 0
        self._free()
        return 1

    def cancel(self, owner):
        cancelled = [request for request in self.queue if request.owner == owner]
        for request in cancelled:
            self._end(request, None)
        if not cancelled:
            self._needs_a_lock()
        self._pass()
        return 1 if cancelled else 0

    def give_up(self, owner):
        """LOCK.CANCEL … RELEASE."""
        if self.cancel(owner):
            return 1
        try:
            self.release(owner)
        except Refused as refusal:
            assert refusal.code == "NOTHELD"
            return 0
        return 2

    # Other events

    def gone(self):
        """The key is gone: deleted, expired, renamed, flushed."""
        self.is_lock = True
        self._free()

    def overwritten(self):
        """The key is something that is no lock."""
        self.holds, self.is_lock = {}, False

    def given(self, owner, mode=rules.EXCLUSIVE):
        """Another client has written the lock's key: one hold of this owner."""
        self.holds, self.is_lock = {(owner, mode): 1}, True
        self._grant_waiting(owner)

    def left(self, client, reply=None):
        """The wait of this client has ended for another reason."""
        for request in [request for request in self.queue if request.client == client]:
            self._end(request, reply)
        self._pass()

    # Implementation

    def _needs_a_lock(self):
        if not self.is_lock:
            raise Refused("WRONGTYPE")

    def _held(self, owner, mode):
        if (owner, mode) not in self.holds:
            raise Refused("NOTHELD")
        return self.holds[owner, mode]

    def _set(self, owner, mode, count):
        self.holds[owner, mode] = count
        if count == 0:
            del self.holds[owner, mode]

    def _take(self, request):
        count = self.holds.get((request.owner, request.mode), 0) + 1
        self._set(request.owner, request.mode, count)
        return count

    def _end(self, request, reply):
        self.queue.remove(request)
        self._ended[request.client] = reply

    def _fits(self, request):
        return self.is_lock and rules.decide(request, self.holds) == rules.FITS

    def _free(self):
        self.holds = {}
        self._pass()

    def _pass(self):
        """The grant pass. Rule 4."""
        while self.queue and self._fits(self.queue[0]):
            head = self.queue[0]
            self._end(head, self._take(head))
            self._grant_waiting(head.owner)

    def _grant_waiting(self, owner):
        """The owner has acquired a hold: its other waits are re-entries now, or move to the head. Rule 2."""
        for request in [request for request in self.queue if request.owner == owner]:
            if self._fits(request):
                self._end(request, self._take(request))
            else:
                self.queue.remove(request)
                self.queue.insert(0, request)
