"""Clients that look for the master, retry when a connection breaks, and record what they believe to hold.

They follow the rules of docs/safety.md for clients (beliefs.py); without a reply they send the request again, with the
same owner and ONCE.
"""

import re
import threading
import time
from dataclasses import dataclass
from itertools import count

from redis.exceptions import ConnectionError, ResponseError, TimeoutError

from harness import code_of, scaled_ms

from .beliefs import WHOLE, Belief

LIMIT = 2
D = 0.05  # s: how long before its lease expires a client stops to rely on it
# The errors of a server that is no master, or may not write: nothing was granted.
AGAIN = {"READONLY", "NOREPLICAS", "UNBLOCKED", "MASTERDOWN"}

# The key, the commands that request and release the lock, and the part of the lock that one holder has.
KINDS = {
    "plain": ("plain", "LOCK.ACQUIRE {key} {o} PX {lease}", "LOCK.RELEASE {key} {o}", WHOLE),
    "fair": ("fair", "LOCK.FAIR {key} {o} PX {lease}", "LOCK.RELEASE {key} {o}", WHOLE),
    "read": ("rw", "LOCK.RWREAD {key} {o} PX {lease}", "LOCK.RELEASE {key} {o} READ", 1),
    "write": ("rw", "LOCK.RWWRITE {key} {o} PX {lease}", "LOCK.RELEASE {key} {o} WRITE", WHOLE),
    "session": ("session", "LOCK.ACQUIRE {key} {o} SESSION", "LOCK.RELEASE {key} {o}", WHOLE),
    "fenced": ("fenced", "LOCK.ACQUIRE {key} {o} PX {lease} FENCED", "LOCK.RELEASE {key} {o}", WHOLE),
    "permit": ("permits", f"LOCK.SEMAPHORE {{key}} {{o}} {LIMIT} PX {{lease}}", "LOCK.RELEASE {key} {o}", WHOLE // LIMIT),
}


@dataclass
class Terms:
    """What all clients of a scene have in common."""

    connect: object  # makes a redis.Redis whose connections are to the current master
    lease_ms: int  # the longest lease, also that of SESSION
    replicas: tuple = ()  # words that follow every acquisition and renewal

    def __post_init__(self):
        self.ended, self.beliefs = threading.Event(), []


class Client(threading.Thread):
    """Acquires a lock and releases it, again and again."""

    def __init__(self, terms, kind, name, key=None, connect=None):
        super().__init__(name=name, daemon=True)
        self.terms, (its_key, self._request, self._release, self._part) = terms, KINDS[kind]
        self.key = key or its_key
        self._lease_ms = terms.lease_ms if "SESSION" in self._request else self.lease_ms()
        self._redis = (connect or terms.connect)()
        self._connection = None
        self._numbers = count(1)
        self.may_send = threading.Event()
        self.may_send.set()
        self.granted_at = []  # when it received the replies that granted the lock
        self.failure = None

    def lease_ms(self):
        return min(scaled_ms(1000), self.terms.lease_ms)

    def run(self):
        try:
            while not self.terms.ended.is_set():
                self.round()
        except Exception as failure:
            self.failure = failure
        finally:
            self.disconnect()
            self._redis.close()

    def disconnect(self):
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None

    def call(self, words):
        """Sends one command on its connection, or on a new one to the current master."""
        if self._connection is None:
            connection = self._redis.connection_pool.make_connection()
            connection.connect()  # send_command would connect without a query to the Sentinels
            self._connection = connection
        self._connection.send_command(*words)
        return self._connection.read_response()

    def call_until_replied(self, words):
        """(when it was sent, its reply or an error reply); repeats it until there is a reply or the scene has ended."""
        while not self.terms.ended.is_set():
            if not self.may_send.wait(0.05):
                continue
            sent = time.monotonic()
            try:
                return sent, self.call(words)
            except ResponseError as error:
                if code_of(error) not in AGAIN:
                    return sent, error
                if code_of(error) != "NOREPLICAS":
                    self.disconnect()
            except (ConnectionError, TimeoutError):
                self.disconnect()
            self.terms.ended.wait(0.02)
        return 0, None

    def words(self, text, owner):
        return text.format(key=self.key, o=owner, lease=self._lease_ms).split()

    def acquire(self, block_ms):
        """Repeats the request until it is granted; returns the belief, or None if the scene has ended."""
        owner = f"{self.name}-{next(self._numbers)}"
        words = [*self.words(self._request, owner), "BLOCK", block_ms, "ONCE", *self.terms.replicas]
        reply = None
        while reply is None and not self.terms.ended.is_set():
            sent, reply = self.call_until_replied(words)
        if reply is None:
            return None
        if isinstance(reply, Exception):
            raise reply
        token = reply if "FENCED" in words else 0
        granted, until = time.monotonic(), sent + self._lease_ms / 1000 - D
        belief = Belief(self.key, owner, self._part, sent, granted, until, token)
        self.terms.beliefs.append(belief)
        self.granted_at.append(granted)
        return belief

    def release(self, belief):
        belief.until = min(belief.until, time.monotonic())
        _, reply = self.call_until_replied(self.words(self._release, belief.owner))
        if isinstance(reply, Exception) and code_of(reply) != "NOTHELD":
            raise reply

    def round(self):
        belief = self.acquire(scaled_ms(300))
        if belief is not None:
            self.work(belief)
            self.release(belief)

    def work(self, belief):
        self.terms.ended.wait(0.02)


class Late(Client):
    """Holds the lock until its lease expires."""

    def lease_ms(self):
        return self.terms.lease_ms

    def work(self, belief):
        self.terms.ended.wait(max(0, belief.until - time.monotonic()))


class Queued(Client):
    """Waits in the fair queue once, without a timeout; its read timeout notices that the server is gone."""

    def __init__(self, terms, name):
        super().__init__(terms, "fair", name, "queue")

    @property
    def owner(self):
        return f"{self.name}-1"

    def round(self):
        belief = self.acquire(0)
        if belief is not None:
            self.release(belief)
        self.terms.ended.wait()


class Bound(Client):
    """Holds a lock with SESSION, renews it now and then, and binds it again to a new connection."""

    def __init__(self, terms, name):
        super().__init__(terms, "session", name, "bound")
        self.lost = False

    def round(self):
        belief = self.acquire(0)
        while belief is not None and not self.terms.ended.wait(0.1):
            reply = self._renew(belief)
            if isinstance(reply, Exception):
                assert code_of(reply) == "NOTHELD", reply
                self.lost = True
                self.terms.ended.wait()

    def _renew(self, belief):
        """An error reply that is about the hold, or None."""
        try:
            # Not at the beginning of a quarantine; INFO is sent on the same connection as the renewal.
            left = re.search(r"lock_quarantine_ms:(\d+)", self.call(["INFO", "lock"]))
            if int(left[1]) > self.terms.lease_ms:
                return None
            sent = time.monotonic()
            self.call(["LOCK.RENEW", self.key, belief.owner, "SESSION", *self.terms.replicas])
            renewed, until = time.monotonic(), sent + self._lease_ms / 1000 - D
            self.granted_at.append(renewed)
            if renewed < belief.until:
                belief.until = until
            else:
                self.terms.beliefs.append(Belief(self.key, belief.owner, WHOLE, belief.requested, renewed, until))
        except ResponseError as error:
            if code_of(error) not in AGAIN:
                return error
            if code_of(error) != "NOREPLICAS":
                self.disconnect()
        except (ConnectionError, TimeoutError):
            self.disconnect()
        return None
