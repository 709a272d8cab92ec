"""Clients that find their master by Sentinels, ask again when a connection breaks, and write down what they count on.

As docs/safety.md asks of a client (beliefs.py); and who has got no answer asks again by the same name, and ONCE.
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
D = 0.05  # s: how much earlier than its lease ends a client stops to count on it
# The answers of a server that is no master, or may not write: nothing was taken.
AGAIN = {"READONLY", "NOREPLICAS", "UNBLOCKED", "MASTERDOWN"}

# By which lock, how it is asked for and released, and how much of the lock one holder has.
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
    """What all the clients of a scene have in common."""

    connect: object  # makes a redis.Redis that asks the Sentinels
    lease_ms: int  # the longest; SESSION has it, too
    replicas: tuple = ()  # words that follow every acquisition and renewal

    def __post_init__(self):
        self.over, self.beliefs = threading.Event(), []


class Client(threading.Thread):
    """Takes a lock and releases it, again and again."""

    def __init__(self, terms, kind, name, key=None, connect=None):
        super().__init__(name=name, daemon=True)
        self.terms, (its_key, self._ask, self._release, self._part) = terms, KINDS[kind]
        self.key = key or its_key
        self._lease_ms = terms.lease_ms if "SESSION" in self._ask else self.lease_ms()
        self._redis = (connect or terms.connect)()
        self._connection = None
        self._numbers = count(1)
        self.may_ask = threading.Event()
        self.may_ask.set()
        self.told = []  # when it was told that it has the lock
        self.failure = None

    def lease_ms(self):
        return min(scaled_ms(1000), self.terms.lease_ms)

    def run(self):
        try:
            while not self.terms.over.is_set():
                self.turn()
        except Exception as failure:
            self.failure = failure
        finally:
            self.disconnect()
            self._redis.close()

    def disconnect(self):
        if self._connection is not None:
            self._connection.disconnect()
            self._connection = None

    def say(self, words):
        """One question, on the connection that it has, or on a new one to whoever is the master."""
        if self._connection is None:
            connection = self._redis.connection_pool.make_connection()
            connection.connect()  # send_command would connect without asking the Sentinels
            self._connection = connection
        self._connection.send_command(*words)
        return self._connection.read_response()

    def ask(self, words):
        """(when it was asked, the answer, or an error that is one); asks again until there is one, or all is over."""
        while not self.terms.over.is_set():
            if not self.may_ask.wait(0.05):
                continue
            asked = time.monotonic()
            try:
                return asked, self.say(words)
            except ResponseError as error:
                if code_of(error) not in AGAIN:
                    return asked, error
                if code_of(error) != "NOREPLICAS":
                    self.disconnect()
            except (ConnectionError, TimeoutError):
                self.disconnect()
            self.terms.over.wait(0.02)
        return 0, None

    def words(self, text, owner):
        return text.format(key=self.key, o=owner, lease=self._lease_ms).split()

    def acquire(self, block_ms):
        """Until it has the lock; returns what it believes, or None when all is over."""
        owner = f"{self.name}-{next(self._numbers)}"
        words = [*self.words(self._ask, owner), "BLOCK", block_ms, "ONCE", *self.terms.replicas]
        answer = None
        while answer is None and not self.terms.over.is_set():
            asked, answer = self.ask(words)
        if answer is None:
            return None
        if isinstance(answer, Exception):
            raise answer
        token = answer if "FENCED" in words else 0
        told, until = time.monotonic(), asked + self._lease_ms / 1000 - D
        belief = Belief(self.key, owner, self._part, asked, told, until, token)
        self.terms.beliefs.append(belief)
        self.told.append(told)
        return belief

    def release(self, belief):
        belief.until = min(belief.until, time.monotonic())
        _, answer = self.ask(self.words(self._release, belief.owner))
        if isinstance(answer, Exception) and code_of(answer) != "NOTHELD":
            raise answer

    def turn(self):
        belief = self.acquire(scaled_ms(300))
        if belief is not None:
            self.work(belief)
            self.release(belief)

    def work(self, belief):
        self.terms.over.wait(0.02)


class Late(Client):
    """Has the lock for as long as it may."""

    def lease_ms(self):
        return self.terms.lease_ms

    def work(self, belief):
        self.terms.over.wait(max(0, belief.until - time.monotonic()))


class Queued(Client):
    """Waits in the fair queue once, for ever; its read time-out finds out that the server has gone."""

    def __init__(self, terms, name):
        super().__init__(terms, "fair", name, "queue")

    @property
    def owner(self):
        return f"{self.name}-1"

    def turn(self):
        belief = self.acquire(0)
        if belief is not None:
            self.release(belief)
        self.terms.over.wait()


class Bound(Client):
    """Has a lock by SESSION, asks now and then whether that is still so, and binds it again on a new connection."""

    def __init__(self, terms, name):
        super().__init__(terms, "session", name, "bound")
        self.lost = False

    def turn(self):
        belief = self.acquire(0)
        while belief is not None and not self.terms.over.wait(0.1):
            answer = self._renew(belief)
            if isinstance(answer, Exception):
                assert code_of(answer) == "NOTHELD", answer
                self.lost = True
                self.terms.over.wait()

    def _renew(self, belief):
        """An error of the server's that says something about the hold, or None."""
        try:
            # Not at the beginning of a quarantine, and asked on the connection that it is said on.
            left = re.search(r"lock_quarantine_ms:(\d+)", self.say(["INFO", "lock"]))
            if int(left[1]) > self.terms.lease_ms:
                return None
            asked = time.monotonic()
            self.say(["LOCK.RENEW", self.key, belief.owner, "SESSION", *self.terms.replicas])
            told, until = time.monotonic(), asked + self._lease_ms / 1000 - D
            self.told.append(told)
            if told < belief.until:
                belief.until = until
            else:
                self.terms.beliefs.append(Belief(self.key, belief.owner, WHOLE, belief.asked, told, until))
        except ResponseError as error:
            if code_of(error) not in AGAIN:
                return error
            if code_of(error) != "NOREPLICAS":
                self.disconnect()
        except (ConnectionError, TimeoutError):
            self.disconnect()
        return None
