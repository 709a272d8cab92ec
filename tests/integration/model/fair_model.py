"""A lock with a fair queue, in simple Python: rules 1 to 5 for exclusive locks, and positions.

There is no clock here. An owner keeps its position until a command removes it: in these tests positions are
reserved for so long that no reserve ends by itself.
"""

from collections import defaultdict
from dataclasses import dataclass


@dataclass(eq=False)
class Position:
    owner: str
    fair: bool
    client: object
    """The client that receives the reply; None if only the position is left."""
    once: bool = False


@dataclass(eq=False)
class Grant:
    """A grant whose reply a client has received, or was to receive; `relies_on`: of a grant with ONCE, the one that
    added the holds."""

    client: object
    added: int
    relies_on: object = None


class FairModel:
    """`replies` collects {client: [replies]} until take_replies() is called."""

    def __init__(self):
        self.holder, self.holds = None, 0
        self.queue = []
        self.grants = []
        """The grants since the lock was last free."""
        self.replies = defaultdict(list)

    # Queries

    def take_replies(self):
        replies, self.replies = self.replies, defaultdict(list)
        return dict(replies)

    def fair_position(self, owner):
        return next((position for position in self.queue if position.owner == owner and position.fair), None)

    def is_waiting(self, client):
        return any(position.client is client for position in self.queue)

    # Requests

    def request(self, client, owner, *, fair, blocks, once=False):
        """LOCK.FAIR or LOCK.ACQUIRE. The reply is in `replies`; if the client waits there is none."""
        own = self.fair_position(owner) if fair else None
        if self.holder == owner:
            self._take(client, owner, once)
        elif self.holder is None and self._may_go_first(owner, own, fair):
            if own:
                self._leave(own)
            self._take(client, owner, once)
        elif not blocks:
            self._reply(client, None)
        elif own:
            self._reply(own.client, None)
            own.client, own.once = client, once
        else:
            self.queue.append(Position(owner, fair, client, once))

    def _may_go_first(self, owner, own, fair):
        if not fair:
            return True
        if own:
            return self.queue[0] is own
        return all(position.owner == owner for position in self.queue)

    def _take(self, client, owner, once):
        self._grant(client, owner, once)
        for position in [position for position in self.queue if position.owner == owner]:
            self.queue.remove(position)
            if position.client is not None:
                self._grant(position.client, owner, position.once)

    def _grant(self, client, owner, once):
        adds = not once or self.holder != owner
        relies_on = None if adds else next((grant for grant in self.grants if grant.added), None)
        self.grants.append(Grant(client, int(adds), relies_on))
        self.holder, self.holds = owner, self.holds + adds
        self._reply(client, self.holds)

    # The lock

    def release(self, owner):
        """The holds left, or None if it holds nothing."""
        if self.holder != owner:
            return None
        self.holds -= 1
        if self.holds == 0:
            self.freed()
        return self.holds if self.holder == owner else 0

    def freed(self):
        """The lock has become free: by LOCK.FORCE, by DEL, or in any other way."""
        self.holder, self.holds, self.grants = None, 0, []
        self._hand_off()

    def _hand_off(self):
        if self.holder is None and self.queue and self.queue[0].client is not None:
            head = self.queue.pop(0)
            self._take(head.client, head.owner, head.once)

    # Leaving

    def cancel(self, owner):
        """1 if it waited, 0 if not."""
        positions = [position for position in self.queue if position.owner == owner]
        for position in positions:
            self._leave(position)
        self._hand_off()
        return int(bool(positions))

    def give_up(self, owner):
        """LOCK.CANCEL … RELEASE."""
        if self.cancel(owner):
            return 1
        return 0 if self.release(owner) is None else 2

    def time_out(self, client):
        self._leave(next(position for position in self.queue if position.client is client))
        self._hand_off()

    def die(self, client):
        """Its connection has closed."""
        for position in [position for position in self.queue if position.client is client]:
            position.client = None
            if not position.fair:
                self.queue.remove(position)
        self._hand_off()

    def die_before_reply(self, client):
        """It died when it had just been granted the lock, which had been free: no other reply has been sent since."""
        del self.replies[client]
        (lost,) = [grant for grant in self.grants if grant.client is client]
        self.grants.remove(lost)
        if lost.added and not any(grant.relies_on is lost for grant in self.grants):
            self.release(self.holder)

    def restart(self):
        """All connections are gone."""
        self.queue = [Position(position.owner, True, None) for position in self.queue if position.fair]

    def _leave(self, position):
        self.queue.remove(position)
        self._reply(position.client, None)

    def _reply(self, client, reply):
        if client is not None:
            self.replies[client].append(reply)
