"""A failover by Sentinels under load: what is there before it, and what has to be there after it."""

import time

from redis.exceptions import ResponseError

from harness import code_of, wait_for
from harness.schedule import as_map

from .beliefs import too_many, tokens_that_did_not_grow
from .sentinel_clients import AGAIN, Bound, Client, Queued, Terms

# Who asks and releases all the time; the numbers of clients.
LOAD = {"plain": 2, "fair": 2, "read": 2, "write": 1, "session": 2, "fenced": 2, "permit": 3}
# Taken once before the failover. One that is granted to somebody else after it was lost.
STANDING = (
    "LOCK.ACQUIRE kept o", "LOCK.FAIR kept-fair o", "LOCK.RWREAD kept-read o1", "LOCK.RWREAD kept-read o2",
    "LOCK.RWWRITE kept-write o", "LOCK.ACQUIRE kept-fenced o FENCED", "LOCK.SEMAPHORE kept-permits o 3 PERMITS 2",
    "LOCK.MACQUIRE 2 kept-one kept-two o", "LOCK.FAIR queue head",
)  # fmt: skip


def holders_of(server, key):
    info = as_map(server.control.execute_command("LOCK.INFO", key) or [])
    return [(hold["owner"], hold["mode"], hold["holds"]) for hold in map(as_map, info.get("holders", []))]


def waiters_of(server, key):
    """Who waits, in order, and by which connection: None has a reserved position."""
    info = as_map(server.control.execute_command("LOCK.INFO", key) or [])
    return [(waiter["owner"], waiter["client"]) for waiter in map(as_map, info.get("waiters", []))]


def said(server, *words):
    """Its answer, or an error that is one; asked again while it is null, or writes are refused."""

    def answer():
        try:
            heard = server.control.execute_command(*words)
        except ResponseError as error:
            heard = None if code_of(error) in AGAIN else error
        return None if heard is None else [heard]

    return wait_for(answer, 30, f"an answer to {words}")[0]


class Scene:
    def __init__(self, group, lease_ms, replicas=()):
        self.group, self.old, self.new = group, group.master(), None
        self.terms = Terms(group.client, lease_ms, replicas)
        self.load = [Client(self.terms, kind, f"{kind}{number}") for kind in LOAD for number in range(LOAD[kind])]
        self.queue = [Queued(self.terms, name) for name in ("first", "second", "third")]
        self.newcomer = Queued(self.terms, "newcomer")
        self.bound = Bound(self.terms, "bound")
        self._more = []
        self.standing = {}  # key: (who holds it, until when)
        self._token = 0

    # Before it

    def begin(self):
        for client in [*self.load, self.bound]:
            client.start()
        self.wait_served(self.load)
        wait_for(lambda: len(self.bound.told) > 1, 20, "the session to be renewed")
        self._take_standing()
        for number, client in enumerate(self.queue, 1):
            client.start()
            wait_for(lambda number=number: len(waiters_of(self.old, "queue")) == number, 20, "it to wait")
        said(self.old, "SET", "mark", "after all that")  # WAIT is about what its own connection has written
        wait_for(lambda: self.old.control.execute_command("WAIT", 2, 100) == 2, 20, "the replicas to have it all")

    def _take_standing(self):
        asked = time.monotonic()
        for text in STANDING:
            answer = said(self.old, *text.split(), "PX", self.terms.lease_ms, *self.terms.replicas)
            if "FENCED" in text:
                self._token = answer
        for key in {word for text in STANDING for word in text.split() if word.startswith(("kept", "queue"))}:
            self.standing[key] = holders_of(self.old, key), asked + self.terms.lease_ms / 1000
            assert self.standing[key][0], f"nobody holds {key}"

    def add(self, *clients):
        self._more += clients
        for client in clients:
            client.start()

    # The failover

    def wait_failover(self, fail):
        """fail(the master); returns after how long a new one has been there, in seconds."""
        for client in self.queue:
            client.may_ask.clear()
        self.failed_at = time.monotonic()
        fail(self.old)
        self.new = self.group.wait_failover(self.old)
        self.promoted_at = time.monotonic()
        return self.promoted_at - self.failed_at

    # After it

    def check_standing(self):
        """What was acknowledged is there, unless its time is over; returns how many were looked at in time."""
        seen = 0
        for key, (before, until) in self.standing.items():
            after = holders_of(self.new, key)
            if time.monotonic() < until:
                assert after == before, f"{key} was held by {before}, and is by {after}"
                seen += 1
        return seen

    def check_queue(self):
        """Those who waited have kept their positions, in whatever order they come back."""
        owners = [client.owner for client in self.queue]
        found = [owner for owner, _ in waiters_of(self.new, "queue")]
        assert found == owners, f"the queue is {found}"
        self.newcomer.start()
        present = [self.newcomer]
        self._wait_queue([*owners, self.newcomer.owner], present)
        for client in reversed(self.queue):
            client.may_ask.set()
            present.append(client)
            self._wait_queue([*owners, self.newcomer.owner], present)
        # Or its lease is over.
        said(self.new, "LOCK.RELEASE", "queue", "head")
        everybody = [*self.queue, self.newcomer]
        self.wait_served(everybody, 1)
        order = sorted(everybody, key=lambda client: client.told)
        assert order == everybody, f"granted in the order {order}"

    def _wait_queue(self, owners, present):
        present = {client.owner for client in present}

        def as_expected():
            waiters = waiters_of(self.new, "queue")
            assert [owner for owner, _ in waiters] == owners, waiters
            assert {owner for owner, client in waiters if client is not None} >= present, waiters
            return True

        wait_for(as_expected, 30, "the positions in the queue")

    def check_token(self):
        """An owner that re-enters is given a larger one than the old master gave it."""
        words = ("LOCK.ACQUIRE", "kept-fenced", "o", "PX", self.terms.lease_ms, "FENCED", *self.terms.replicas)
        token = said(self.new, *words)
        assert token > self._token

    def is_bound(self):
        """The session has been bound again, to a connection of the new master's."""
        holders = as_map(self.new.control.execute_command("LOCK.INFO", "bound") or []).get("holders", [])
        return any(as_map(hold)["session"] is not None for hold in holders)

    def wait_served(self, clients, times=2, since=0.0, timeout=60):
        """Each of them has been granted the lock so often, since then."""

        def all_served():
            self._check_alive()
            waiting = [client.name for client in clients if sum(told > since for told in client.told) < times]
            assert not waiting, f"{waiting} have not had it {times} times"
            return True

        wait_for(all_served, timeout, "everybody to be served")

    def without_service(self):
        """The longest time, in seconds, in which no client of a kind was granted anything, and of all together."""
        told = {}
        for client in self.load:
            told.setdefault(client.name.rstrip("0123456789"), []).extend(client.told)
        told["all"] = [moment for moments in told.values() for moment in moments]
        return {kind: round(self._longest_gap(sorted(moments)), 1) for kind, moments in told.items()}

    def _longest_gap(self, told):
        """That ends after the failure."""
        return max(after - before for before, after in zip(told, told[1:]) if after > self.failed_at)

    # Its end

    def _clients(self):
        return [*self.load, *self.queue, self.newcomer, self.bound, *self._more]

    def _check_alive(self):
        for client in self._clients():
            if client.failure is not None:
                raise AssertionError(f"{client.name} failed") from client.failure

    def end(self):
        self.terms.over.set()
        for client in self._clients():
            if client.is_alive():
                client.join()

    def check_history(self):
        """Nobody has counted on a lock that somebody else counted on, and tokens have grown."""
        self._check_alive()
        assert too_many(self.terms.beliefs) == []
        assert tokens_that_did_not_grow(self.terms.beliefs) == []
