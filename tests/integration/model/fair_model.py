"""What a lock with a fair queue does, in plain Python: rules 1 to 5 for exclusive locks, and positions.

There is no clock here. Whoever has a position keeps it until somebody says otherwise: positions are kept
for so long in these tests that no reserve ends by itself.
"""

from collections import defaultdict
from dataclasses import dataclass


@dataclass(eq=False)
class Position:
    owner: str
    fair: bool
    client: object
    """Who is told; None if only the position is left."""
    once: bool = False


@dataclass(eq=False)
class Grant:
    """What a client has been told, or was to be; `relies_on`: by ONCE, the one that added what it tells of."""

    client: object
    added: int
    relies_on: object = None


class FairModel:
    """`heard` collects {client: [answers]} until take_heard() is called."""

    def __init__(self):
        self.holder, self.holds = None, 0
        self.queue = []
        self.grants = []
        """Those since the lock was last free."""
        self.heard = defaultdict(list)

    # Looking

    def take_heard(self):
        heard, self.heard = self.heard, defaultdict(list)
        return dict(heard)

    def fair_position(self, owner):
        return next((position for position in self.queue if position.owner == owner and position.fair), None)

    def is_waiting(self, client):
        return any(position.client is client for position in self.queue)

    # Asking

    def ask(self, client, owner, *, fair, blocks, once=False):
        """LOCK.FAIR or LOCK.ACQUIRE. What the client hears is in `heard`, nothing if it waits."""
        own = self.fair_position(owner) if fair else None
        if self.holder == owner:
            self._take(client, owner, once)
        elif self.holder is None and self._may_go_first(owner, own, fair):
            if own:
                self._leave(own)
            self._take(client, owner, once)
        elif not blocks:
            self._tell(client, None)
        elif own:
            self._tell(own.client, None)
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
        self._tell(client, self.holds)

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
        """By LOCK.FORCE, by DEL, by anything."""
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

    def die_untold(self, client):
        """It died when it had just been granted the lock that had been free: nothing else has been told meanwhile."""
        del self.heard[client]
        (lost,) = [grant for grant in self.grants if grant.client is client]
        self.grants.remove(lost)
        if lost.added and not any(grant.relies_on is lost for grant in self.grants):
            self.release(self.holder)

    def restart(self):
        """All connections are gone."""
        self.queue = [Position(position.owner, True, None) for position in self.queue if position.fair]

    def _leave(self, position):
        self.queue.remove(position)
        self._tell(position.client, None)

    def _tell(self, client, answer):
        if client is not None:
            self.heard[client].append(answer)
