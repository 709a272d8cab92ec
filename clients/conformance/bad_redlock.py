"""The bad runner's RedLock."""

import os
import queue
import random
import socket
import threading
import time
from concurrent import futures

import redis
from bad_base import FAULT, LOST, Failure, connection_to, write


class Member:
    """One server: a connection, and a thread that sends one command after the other. So a release follows its request."""

    def __init__(self, port):
        self._port, self._jobs = port, queue.Queue()
        threading.Thread(target=self._run, daemon=True).start()

    def ask(self, *words, until=0.0):
        """The future reply; while there is no connection the command is sent again, until then."""
        reply = futures.Future()
        self._jobs.put((words, reply, until))
        return reply

    def _run(self):
        client = connection_to(self._port)
        while True:
            words, reply, until = self._jobs.get()
            while not reply.done():
                try:
                    reply.set_result(client.execute_command(*words))
                except LOST as error:
                    time.sleep(0.02)
                    if time.monotonic() >= until:
                        reply.set_exception(error)
                except redis.ResponseError as error:
                    reply.set_exception(error)


class RedHold:
    is_releasing = is_released = is_lost = False
    until = float("inf")

    def __init__(self, runner, request):
        self.runner, self.lock, self.name, self.wait_ms = runner, request["lock"], request.get("as"), request.get("wait_ms")
        self.key, self.lease = self.lock["keys"][0], (self.lock.get("lease_ms") or 10000) / 1000
        self.named, self.stops = f'redlock "{self.key}"', False
        self.members = {runner.member(name) for name in self.lock["on"]}
        self.majority = len(self.lock["on"]) // 2 + 1
        self.ended, self.end = threading.Event(), None

    def _ask_all(self, *words, until=0.0):
        return {member: member.ask(*words, until=until) for member in self.members}

    def _gather(self, asked, limit, enough):
        """Waits for the replies, until there are enough; returns those that have arrived, and the errors."""
        end = time.monotonic() + limit
        while True:
            done = {member: reply for member, reply in asked.items() if reply.done()}
            replies = {member: reply.result() for member, reply in done.items() if not reply.exception()}
            errors = {member: reply.exception() for member, reply in done.items() if reply.exception()}
            if enough(replies) or len(done) == len(asked) or time.monotonic() >= end:
                return replies, errors
            time.sleep(0.002)

    def _limit(self):
        limit = min(1, max(0.02, self.lease / 20))
        return limit if self.end is None else min(limit, max(0.05, self.end - time.monotonic()))

    def _identify(self):
        if len(self.lock["on"]) < 3:
            raise Failure("bad_option", "at least 3 servers are needed")
        replies, _ = self._gather(self._ask_all("INFO", "everything"), self._limit(), lambda _: False)
        runs = {info["run_id"] for info in replies.values()}
        if FAULT != "any_client" and len(runs) + len(self.members) - len(replies) < len(self.lock["on"]):
            raise Failure("bad_option", "two names lead to the same server")
        if FAULT != "any_client" and any(info["role"] == "slave" or info.get("cluster_enabled") for info in replies.values()):
            raise Failure("bad_option", "a replica, or a node of a cluster")

    def acquire(self):
        began = replied = time.monotonic()
        self.end = None if self.wait_ms is None else began + self.wait_ms / 1000
        self._identify()
        self.runner.waits.append(self)
        while True:
            self.owner = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(8).hex()}"
            sent = time.monotonic()
            asked = self._ask_all("LOCK.ACQUIRE", self.key, self.owner, "PX", round(self.lease * 1000), "FENCED", "ONCE")
            needed = 0 if FAULT == "certain" else self.majority
            replies, errors = self._gather(asked, self._limit(), lambda found: len(_granted(found)) >= needed)
            granted = _granted(replies)
            self.until = sent + 0.99 * self.lease - 0.002
            if len(granted) >= needed and time.monotonic() < self.until:
                break
            self._release_all(sent + self.lease)
            refusals = [error for error in errors.values() if isinstance(error, redis.ResponseError)]
            if len(refusals) >= self.majority:
                raise Failure("refused", str(refusals[0]))
            if self.ended.is_set():
                raise Failure("cancelled")
            replied = time.monotonic() if len(replies) >= self.majority else replied
            if time.monotonic() - replied >= self.runner.connect_timeout or self.wait_ms == 0 and len(replies) < self.majority:
                raise Failure("connection", "no majority has replied")
            pause = random.uniform(0.02, 0.2)
            if self.end is not None and time.monotonic() + pause >= self.end:
                raise Failure("not_acquired", f"{self.named} was not acquired")
            self.ended.wait(pause)
        self.end, self.counted, self.token = None, set(granted), max(granted.values(), default=time.time_ns())
        threading.Thread(target=self._keep, daemon=True).start()
        return {"owner": self.owner, "token": self.token}

    def _release_all(self, until, granted=()):
        members = granted if FAULT == "careless" else self.members
        return {member: member.ask("LOCK.RELEASE", self.key, self.owner, until=until) for member in members}

    def _keep(self):
        renewed = True
        while not self.ended.wait(self.lease / (3 if renewed else 10)):
            renewed = self._renew_all()
            if (len(self.counted) < self.majority or time.monotonic() >= self.until) and FAULT != "immortal":
                self._lose()

    def _renew_all(self):
        """Whether a majority that has held the lock all the time has renewed it."""
        sent, px = time.monotonic(), round(self.lease * 1000)
        replies, errors = self._gather(self._ask_all("LOCK.RENEW", self.key, self.owner, "PX", px), self._limit(), lambda _: False)
        for member, error in errors.items():
            if isinstance(error, redis.ResponseError):
                self.counted.discard(member)
                member.ask("LOCK.ACQUIRE", self.key, self.owner, "PX", px, "FENCED", "ONCE")
        if len(self.counted & set(replies)) < self.majority:
            return False
        self.until, self.counted = sent + 0.99 * self.lease - 0.002, self.counted | set(replies)
        return True

    def _lose(self):
        if not self.is_lost:
            self.is_lost = True
            self.ended.set()
            if self.lock.get("watch"):
                write({"event": "lost", "as": self.name})

    def renew(self, lease_ms):
        if lease_ms is not None and lease_ms <= 0:
            raise Failure("bad_option", "lease must be greater than 0")
        if self.is_released or self.is_lost:
            raise Failure("not_held", f"{self.named} is not held")
        self.lease = lease_ms / 1000 if lease_ms else self.lease
        if not self._renew_all():
            raise Failure("connection", "no majority has renewed it")

    def release(self):
        if self.is_released:
            raise Failure("not_held", f"{self.named} is not held: it was released before")
        was_lost = self.is_lost or time.monotonic() >= self.until
        self.is_released = self.is_releasing = True
        self.ended.set()
        self._gather(self._release_all(time.monotonic() + self.lease, self.counted), self._limit(), lambda _: False)
        if was_lost:
            raise Failure("not_held", f"{self.named} is not held")

    def cancel(self):
        self.ended.set()

    def interrupt(self):
        pass


def _granted(replies):
    return {member: token for member, token in replies.items() if token is not None}
