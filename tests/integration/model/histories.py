"""Clients that acquire locks of all kinds in a cluster while its nodes fail, and record what they believe to hold."""

import random
import threading
import time
from dataclasses import dataclass

from redis.exceptions import ConnectionError, ResponseError, TimeoutError

from harness import code_of, scaled
from harness.connect import new_connection

from .beliefs import WHOLE, Belief

LIMIT = 3  # of the semaphores
NO = ("NOREPLICAS", "UNBLOCKED", "CLUSTERDOWN", "TRYAGAIN", "READONLY", "LOADING", "MASTERDOWN", "NOTHELD")

# The command of each kind, and the part of a lock that one holder has.
WAYS = {
    "plain": ("LOCK.ACQUIRE", WHOLE),
    "fenced": ("LOCK.ACQUIRE", WHOLE),
    "fair": ("LOCK.FAIR", WHOLE),
    "read": ("LOCK.RWREAD", 1),
    "write": ("LOCK.RWWRITE", WHOLE),
    "session": ("LOCK.ACQUIRE", WHOLE),
    "permit": ("LOCK.SEMAPHORE", WHOLE // LIMIT),
}
# Kinds that exclude each other use the same lock.
LOCKS = {"read": "rw", "write": "rw"}


class NoReply(Exception):
    """Refused, or the connection broke, or there was no reply: it is not known whether the command was executed."""


class Caller:
    """Sends to the node that it believes to serve a tag; after an error it gives up, and forgets the node."""

    def __init__(self, ports, at=None):
        self._ports, self._at, self._tags, self._connections = ports, at, {}, {}

    def call(self, tag, *words, within_ms=0):
        port, asks = self._tags.get(tag) or self._at or random.choice(self._ports), False
        for _ in range(5):
            try:
                return self._send(port, words, asks, scaled(1.5) + within_ms / 1000)
            except ResponseError as error:
                if code_of(error) not in ("MOVED", "ASK"):
                    assert code_of(error) in NO, f"{words}: {error}"
                    raise NoReply(str(error)) from None
                port, asks = int(str(error).rsplit(":", 1)[1]), code_of(error) == "ASK"
                if not asks:
                    self._tags[tag] = port
            except (ConnectionError, TimeoutError, OSError) as error:
                self._forget(tag, port)
                raise NoReply(str(error)) from None
        raise NoReply("too many redirections")

    def _send(self, port, words, asks, timeout):
        connection = self._connections.get(port)
        if connection is None:
            connection = self._connections[port] = new_connection(port, socket_timeout=timeout)
        if asks:
            connection.send_command("ASKING")
            connection.read_response()
        connection.send_command(*words)
        return connection.read_response(timeout=timeout, disconnect_on_error=False)

    def _forget(self, tag, port):
        self._tags.pop(tag, None)
        if connection := self._connections.pop(port, None):
            connection.disconnect()

    def close(self):
        for connection in self._connections.values():
            connection.disconnect()


class History:
    def __init__(self):
        self.beliefs = []
        self.kinds = set()

    def take(self, caller, wants, owner, options):
        """Returns its belief, which is recorded, or None. `wants` is (tag, kind)."""
        tag, kind = wants
        command, part = WAYS[kind]
        name = f"{{{tag}}}{LOCKS.get(kind, kind)}"
        rest = ["SESSION"] if kind == "session" else ["PX", options.lease_ms]
        rest += ["FENCED"] if kind == "fenced" else []
        words = [command, name, owner, *([LIMIT] if kind == "permit" else []), *rest, *options.words]
        requested = time.monotonic()
        try:
            reply = caller.call(tag, *words, "BLOCK", options.block_ms, within_ms=options.within_ms)
        except NoReply:
            return None
        if reply is None:
            return None
        token = reply if kind == "fenced" else 0
        belief = Belief(name, owner, part, requested, time.monotonic(), requested + options.lease_ms / 1000, token)
        self.beliefs.append(belief)
        self.kinds.add(kind)
        return belief

    def release(self, caller, belief):
        belief.until = min(belief.until, time.monotonic())
        try:
            caller.call(belief.key[1:].partition("}")[0], "LOCK.RELEASE", belief.key, belief.owner)
        except NoReply:
            pass

    def granted_since(self, tag, since):
        """How many s after `since` the first client received a grant there; None if none has."""
        grants = [one.since for one in self.beliefs if one.key.startswith(f"{{{tag}}}") and one.since > since]
        return min(grants) - since if grants else None


@dataclass(frozen=True)
class Options:
    lease_ms: int
    block_ms: int
    words: tuple = ()
    within_ms: int = 0


class Worker(threading.Thread):
    """Acquires locks of all kinds, holds them for a moment, and releases them; after a failure a lock is held until its
    lease expires."""

    def __init__(self, number, caller, history, tags, options):
        super().__init__(name=f"w{number}", daemon=True)
        self.caller, self.history, self.tags, self.options = caller, history, tags, options
        self.random, self.stopped, self.problem, self.requests = random.Random(number), threading.Event(), None, 0

    def run(self):
        try:
            while not self.stopped.wait(self.random.random() * 0.01):
                self.requests += 1
                wants = self.random.choice(self.tags), self.random.choice(list(WAYS))
                belief = self.history.take(self.caller, wants, f"{self.name}.{self.requests}", self.options)
                if belief:
                    self.stopped.wait(self.random.random() * 0.03)
                    self.history.release(self.caller, belief)
        except BaseException as problem:
            self.problem = problem
        finally:
            self.caller.close()
