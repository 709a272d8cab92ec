"""A failover under load, by Sentinels or by FAILOVER: the state before it, and what must still be true after it."""

import time

from redis.exceptions import ResponseError

from harness import code_of, wait_for
from harness.schedule import as_map

from .beliefs import too_many, tokens_that_did_not_grow
from .sentinel_clients import AGAIN, Bound, Client, Queued, Terms

# The clients that acquire and release all the time, by number.
LOAD = {"plain": 2, "fair": 2, "read": 2, "write": 1, "session": 2, "fenced": 2, "permit": 3}
# Acquired once before the failover. If such a lock is granted to another client after it, the hold was lost.
KEPT = (
    "LOCK.ACQUIRE kept o", "LOCK.FAIR kept-fair o", "LOCK.RWREAD kept-read o1", "LOCK.RWREAD kept-read o2",
    "LOCK.RWWRITE kept-write o", "LOCK.ACQUIRE kept-fenced o FENCED", "LOCK.SEMAPHORE kept-permits o 3 PERMITS 2",
    "LOCK.MACQUIRE 2 kept-one kept-two o", "LOCK.FAIR queue head",
)  # fmt: skip


def holders_of(server, key):
    info = as_map(server.control.execute_command("LOCK.INFO", key) or [])
    return [(hold["owner"], hold["mode"], hold["holds"]) for hold in map(as_map, info.get("holders", []))]


def waiters_of(server, key):
    """The waiters in order, each with its connection; a reserved position has None."""
    info = as_map(server.control.execute_command("LOCK.INFO", key) or [])
    return [(waiter["owner"], waiter["client"]) for waiter in map(as_map, info.get("waiters", []))]


def reply_to(server, *words):
    """The reply, or an error; the command is repeated while the reply is null, or writes are refused."""

    def attempt():
        try:
            reply = server.control.execute_command(*words)
        except ResponseError as error:
            reply = None if code_of(error) in AGAIN else error
        return None if reply is None else [reply]

    return wait_for(attempt, 30, f"a reply to {words}")[0]


class Scene:
    def __init__(self, group, lease_ms, replicas=()):
        self.group, self.old, self.new = group, group.master(), None
        self.terms = Terms(group.client, lease_ms, replicas)
        self.load = [Client(self.terms, kind, f"{kind}{number}") for kind in LOAD for number in range(LOAD[kind])]
        self.queue = [Queued(self.terms, name) for name in ("first", "second", "third")]
        self.newcomer = Queued(self.terms, "newcomer")
        self.bound = Bound(self.terms, "bound")
        self._more = []
        self.kept = {}  # key: (its holders, when its lease expires)
        self._token = 0

    # Before it

    def begin(self):
        for client in [*self.load, self.bound]:
            client.start()
        self.wait_served(self.load)
        wait_for(lambda: len(self.bound.granted_at) > 1, 20, "the session to be renewed")
        self._acquire_kept()
        for number, client in enumerate(self.queue, 1):
            client.start()
            wait_for(lambda number=number: len(waiters_of(self.old, "queue")) == number, 20, "it to wait")
        reply_to(self.old, "SET", "mark", "after all that")  # WAIT waits for the writes of its own connection
        wait_for(lambda: self.old.control.execute_command("WAIT", 2, 100) == 2, 20, "the replicas to have it all")

    def _acquire_kept(self):
        requested = time.monotonic()
        for text in KEPT:
            reply = reply_to(self.old, *text.split(), "PX", self.terms.lease_ms, *self.terms.replicas)
            if "FENCED" in text:
                self._token = reply
        for key in {word for text in KEPT for word in text.split() if word.startswith(("kept", "queue"))}:
            self.kept[key] = holders_of(self.old, key), requested + self.terms.lease_ms / 1000
            assert self.kept[key][0], f"{key} is free"

    def add(self, *clients):
        self._more += clients
        for client in clients:
            client.start()

    # The failover

    def wait_failover(self, fail):
        """Calls fail(the master); returns how long it took until there was a new one, in seconds."""
        for client in self.queue:
            client.may_send.clear()
        self.failed_at = time.monotonic()
        fail(self.old)
        self.new = self.group.wait_failover(self.old)
        self.promoted_at = time.monotonic()
        return self.promoted_at - self.failed_at

    # After it

    def check_kept(self):
        """All acknowledged holds still exist, unless their leases have expired; returns how many were checked before
        that."""
        seen = 0
        for key, (before, until) in self.kept.items():
            after = holders_of(self.new, key)
            if time.monotonic() < until:
                assert after == before, f"{key} was held by {before}, and now by {after}"
                seen += 1
        return seen

    def check_queue(self):
        """The waiters have kept their positions, in whatever order they return."""
        owners = [client.owner for client in self.queue]
        found = [owner for owner, _ in waiters_of(self.new, "queue")]
        assert found == owners, f"the queue is {found}"
        self.newcomer.start()
        present = [self.newcomer]
        self._wait_queue([*owners, self.newcomer.owner], present)
        for client in reversed(self.queue):
            client.may_send.set()
            present.append(client)
            self._wait_queue([*owners, self.newcomer.owner], present)
        # An error is accepted: the lease may have expired.
        reply_to(self.new, "LOCK.RELEASE", "queue", "head")
        waiters = [*self.queue, self.newcomer]
        self.wait_served(waiters, 1)
        order = sorted(waiters, key=lambda client: client.granted_at)
        assert order == waiters, f"granted in the order {order}"

    def _wait_queue(self, owners, present):
        present = {client.owner for client in present}

        def as_expected():
            waiters = waiters_of(self.new, "queue")
            assert [owner for owner, _ in waiters] == owners, waiters
            assert {owner for owner, client in waiters if client is not None} >= present, waiters
            return True

        wait_for(as_expected, 30, "the positions in the queue")

    def check_token(self):
        """An owner that re-enters receives a larger token than from the old master."""
        words = ("LOCK.ACQUIRE", "kept-fenced", "o", "PX", self.terms.lease_ms, "FENCED", *self.terms.replicas)
        token = reply_to(self.new, *words)
        assert token > self._token

    def is_bound(self):
        """Whether the session has been bound again, to a connection of the new master."""
        holders = as_map(self.new.control.execute_command("LOCK.INFO", "bound") or []).get("holders", [])
        return any(as_map(hold)["session"] is not None for hold in holders)

    def wait_served(self, clients, times=2, since=0.0, timeout=60):
        """Waits until each of them has been granted the lock `times` times after `since`."""

        def all_served():
            self._check_alive()
            waiting = [one.name for one in clients if sum(granted > since for granted in one.granted_at) < times]
            assert not waiting, f"{waiting} have not acquired it {times} times"
            return True

        wait_for(all_served, timeout, "all clients to be granted their locks")

    def without_service(self):
        """The longest time, in seconds, in which no client of a kind was granted a lock, and no client of any kind."""
        grants = {}
        for client in self.load:
            grants.setdefault(client.name.rstrip("0123456789"), []).extend(client.granted_at)
        grants["all"] = [moment for moments in grants.values() for moment in moments]
        return {kind: round(self._longest_gap(sorted(moments)), 1) for kind, moments in grants.items()}

    def _longest_gap(self, moments):
        """The longest gap that ends after the failure."""
        return max(after - before for before, after in zip(moments, moments[1:]) if after > self.failed_at)

    # Its end

    def _clients(self):
        return [*self.load, *self.queue, self.newcomer, self.bound, *self._more]

    def _check_alive(self):
        for client in self._clients():
            if client.failure is not None:
                raise AssertionError(f"{client.name} failed") from client.failure

    def end(self):
        self.terms.ended.set()
        for client in self._clients():
            if client.is_alive():
                client.join()

    def check_history(self):
        """No two clients believed to hold one lock at the same moment, and tokens have grown."""
        self._check_alive()
        assert too_many(self.terms.beliefs) == []
        assert tokens_that_did_not_grow(self.terms.beliefs) == []
