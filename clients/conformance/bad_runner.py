"""A runner for the driver's own tests, with the fault that it is started with, or `none`: plain and fair locks, sessions
and semaphores.

    no_once    a command that is sent again is counted twice
    no_cancel  a wait that is cancelled is only ignored: no LOCK.CANCEL is sent
    shared     waits share the user's one connection
    masks      NotHeld replaces the body's own error
    no_watch   a loss is never reported
    tardy      a loss is reported by the next renewal
    no_renewal leases are never renewed
    one_owner  all acquisitions have the same owner
    no_retry   a release is sent only once
    forgets    some requests are never answered
    unfenced   the token is the number of holds
    unchecked  options are sent as they are
    any_client the client of another library is accepted
    vague      texts name neither the lock nor its holder
    wordless   the library's error is not passed on
    frees      a second release releases what another acquisition holds, or nothing
    no_hint    a server without the module is not named
    swallows   an error in the callback for a loss is not logged
    late       a wait ends when the server replies
    quiet      an outage is not logged
    noisy      an outage is logged at each attempt
    hog        a release needs a further connection, which is opened then
    leaks      each lock factory leaves a connection
    unclosed   close() closes nothing
    keeps      a hold that was forgotten is renewed for ever
    greedy     the first try that is refused is a hold
    slow       a wait ends a second late
    hasty      a wait ends after a third of its time
    cuts       the end of a fair wait's blocking call is taken for an outage, and all sessions are lost
    abrupt     close() closes the connections of releases that are in progress
    patient    close() waits until everything has been released
    unwatched  a session ends when its watch is refused
    trusting   a session's connection is trusted for as long as nothing closes it
    narrow     only some connections are opened at a time
    owned      a cancelled wait ends when its own connection does
    anew       a lock that is entered again is acquired again
    enters     another task of the process enters, too
    blind      neither waiters nor what a dead consumer has left are seen
    lasting    a renewal with a lease repeats the previous lease
    optimist   a shorter lease does not end by the program's clock
    repeats    a count or a guarded command is sent again when its reply was lost
    gives_up   a wait for a latch ends with its connection
    drops      an element whose removal is sent again is taken for another consumer's
    uncounted  tries are not counted
    endless    a job is tried for ever
    forgetful  a job is not made pending again before it is begun
    twofold    each push is sent twice
    certain    a RedLock is held whatever the servers reply
    careless   a RedLock is released only on the servers that are known to have granted it
    immortal   the loss of a RedLock is not noticed
"""

import json
import os
import socket
import sys
import threading
import time

import redis
from bad_base import FAULT, LOST, Failure, connection_to, interrupt, log, refusal, write
from bad_queue import Consumer, Latch, Queue
from bad_redlock import Member, RedHold
from redis.backoff import NoBackoff
from redis.retry import Retry

LATE = 0.05  # s
_COMMANDS = {"fair": "LOCK.FAIR", "semaphore": "LOCK.SEMAPHORE"}
_NAMES = {"fair": "fair lock", "semaphore": "semaphore"}


def _fields(entries, *names):
    return [{name: value.decode() if isinstance(value := one[name.encode()], bytes) else value for name in names} for one in entries]


class Hold:
    """A wait, and the hold if it is granted."""

    def __init__(self, runner, request):
        self.runner, self.name, self.key = runner, request.get("as"), (request["lock"]["keys"] or [""])[0]
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(8).hex()}"
        if FAULT in ("one_owner", "frees"):
            self.owner = "me"
        self.lock, self.wait_ms, self.stops = request["lock"], request.get("wait_ms"), request.get("stop")
        self.named = "" if FAULT == "vague" else f'{_NAMES.get(self.lock["kind"], "lock")} "{self.key}"'
        self.is_cancelled = self.is_releasing = self.is_released = self.is_lost = False
        self.until, self.ended = float("inf"), threading.Event()
        self.link, self.using = None, threading.Lock()

    def check(self):
        lease, wait, kind = self.lock.get("lease_ms"), self.wait_ms, self.lock["kind"]
        limit, permits = self.lock.get("limit") or 0, self.lock.get("permits")
        replicas = self.lock.get("replicas") or [1, 1]
        for bad, text in (
            (lease is not None and lease <= 0, f"lease must be greater than 0, not {(lease or 0) / 1000:g}"),
            (wait is not None and wait < 0, f"wait must not be negative, not {(wait or 0) / 1000:g}"),
            (replicas[0] < 1, f"replicas must be at least 1, not {replicas[0]}"),
            (replicas[1] <= 0, f"replicas: the time must be greater than 0, not {replicas[1]}"),
            (not self.lock["keys"], "keys must not be empty"),
            (kind == "semaphore" and limit < 1, f"limit must be at least 1, not {limit}"),
            (kind == "semaphore" and not 1 <= permits <= limit, f"permits must be from 1 to the limit of {limit}, not {permits}"),
            (permits and kind != "semaphore", "permits: only a semaphore has permits"),
            (kind == "read" and self.lock.get("fenced"), "fenced: a read lock has no fencing token"),
            (kind == "semaphore" and self.lock.get("reentrant"), "reentrant: a semaphore cannot be entered again"),
        ):
            if bad:
                raise Failure("bad_option", text)

    def acquire(self):
        if FAULT != "unchecked":
            self.check()
        until = None if self.wait_ms is None else time.monotonic() + self.wait_ms / (3000 if FAULT == "hasty" else 1000)
        began, logged, problem = time.monotonic(), False, None
        self.runner.waits.append(self)
        if self.runner.is_closed:
            raise Failure("closed", f"{self.named}: these Locks are closed")
        while True:
            left = None if until is None else until - time.monotonic()
            limit = None if left is None or FAULT == "late" else max(LATE, left) + LATE
            is_cut = self.lock["kind"] == "fair" and (left is None or left > self.runner.max_block)
            limit = self.runner.max_block if is_cut else limit
            connecting = self.runner.connect_timeout if limit is None else min(limit, self.runner.connect_timeout)
            connecting = min(connecting, 1) if self.lock.get("session") else connecting
            self.link = self.link or (self.runner.client if FAULT == "shared" else self.runner.connection(connecting))
            sent = time.monotonic()
            try:
                if FAULT == "narrow":
                    with self.runner.opening:
                        time.sleep(0.05)
                answer, problem = self._sent(self._words(until), limit), None
            except LOST as error:
                answer, problem, self.link = None, "no connection in time" if FAULT == "wordless" else error, None
                if is_cut and FAULT != "cuts" and time.monotonic() - sent >= limit:
                    continue
                for hold in self.runner.waits if FAULT == "cuts" else ():
                    hold.is_lost = hold.is_lost or hold.lock.get("session")
            except redis.ResponseError as error:
                raise refusal(error, self.runner.port, f"{self.named}: ") from None
            if self.is_cancelled:
                raise Failure("closed" if self.runner.is_closed else "cancelled", f"{self.named}: these Locks are closed")
            if answer is not None or FAULT == "greedy" and self.wait_ms == 0 and not self.runner.was_greedy:
                self.runner.was_greedy = self.runner.was_greedy or answer is None
                break
            if until is not None and time.monotonic() >= until:
                self._not_acquired(problem)
            if problem and not self.runner.has_connected and time.monotonic() - began >= self.runner.connect_timeout:
                raise Failure("connection", str(problem))
            logged = logged and time.monotonic() - sent < 1
            if problem and (not logged or FAULT == "noisy") and FAULT != "quiet":
                log(f"{self.named}: no connection to 127.0.0.1:{self.runner.port} ({problem}); the wait goes on")
            logged = bool(problem)
            time.sleep(0.02)
        self._begin()
        return {"owner": self.owner, "token": answer if self.lock.get("fenced") else None}

    def _sent(self, words, limit):
        pool = self.link.connection_pool
        connection = pool.get_connection()
        try:
            if connection._sock:
                connection._sock.settimeout(limit)
            connection.send_command(*words)
            self.runner.has_connected = True
            if connection._sock:
                connection._sock.settimeout(limit)
            return connection.read_response()
        except LOST:
            connection.disconnect()
            raise
        finally:
            pool.release(connection)

    def _not_acquired(self, problem):
        if FAULT == "slow":
            time.sleep(1)
        if problem:
            threading.Thread(target=self._give_up, daemon=True).start()
            if self.wait_ms == 0:
                raise Failure("connection", str(problem))
            raise Failure("not_acquired", f"{self.named} was not acquired within {self.wait_ms / 1000:g} s: {problem}")
        info = self.runner.connection(1).execute_command("LOCK.INFO", self.key) or {b"holders": []}
        owners = [one[b"owner"].decode() for one in info[b"holders"]]
        mine = self.owner.rpartition(":")[0]
        owners = [f"{owner} (this process)" if owner.startswith(mine) else owner for owner in owners]
        others = len(owners) - 2
        held = " and ".join(owners) if others < 1 else f"{', '.join(owners[:2])} and {others} others"
        within = f" within {self.wait_ms / 1000:g} s" if self.wait_ms else ""
        raise Failure("not_acquired", f"{self.named} was not acquired{within}: held by {'' if FAULT == 'vague' else held}")

    def _words(self, until):
        block = []
        if self.wait_ms != 0:
            block = ["BLOCK", 0 if until is None else max(1, round((until - time.monotonic()) * 1000))]
        once = [] if FAULT == "no_once" else ["ONCE"]
        fenced = ["FENCED"] if self.lock.get("fenced") and FAULT != "unfenced" else []
        lease = ["SESSION"] if self.lock.get("session") else ["PX", self._lease()]
        limit = [self.lock["limit"], "PERMITS", self.lock["permits"]] if self.lock["kind"] == "semaphore" else []
        command = _COMMANDS.get(self.lock["kind"], "LOCK.ACQUIRE")
        return [command, self.key, self.owner, *limit, *lease, *self._replicas(), *block, *once, *fenced]

    def _replicas(self):
        return ["REPLICAS", *self.lock["replicas"]] if self.lock.get("replicas") else []

    def _lease(self):
        return self.lock.get("lease_ms") or 30000

    def _begin(self):
        self.until = time.monotonic() + self._lease() / 1000
        try:
            self.runner.short.ping()
        except LOST:
            pass  # the server is full
        if self.lock.get("session"):
            threading.Thread(target=self._keep, daemon=True).start()
        elif self.lock.get("renew", True) and FAULT != "no_renewal":
            threading.Thread(target=self._renew, daemon=True).start()
        if (self.lock.get("watch") or self.stops) and FAULT != "no_watch":
            threading.Thread(target=self._watch, daemon=True).start()

    def _renew(self):
        renewed = time.monotonic()
        while not self.ended.wait(0.02):
            if time.monotonic() - renewed < self._lease() / 3000:  # which the program may change meanwhile
                continue
            renewed = time.monotonic()
            client = self.runner.connection(2) if FAULT in ("hog", "leaks") else self.runner.short
            self.runner.left += [client] if FAULT == "leaks" else []
            try:
                client.execute_command("LOCK.RENEW", self.key, self.owner, "PX", self._lease(), *self._replicas())
                self.until = time.monotonic() + self._lease() / 1000
            except LOST:
                pass
            except redis.ResponseError as error:
                if str(error).startswith("NOTHELD"):
                    if FAULT == "tardy":
                        self._lose()
                    return

    def _keep(self):
        """Keeps a session bound to a connection."""
        while not self.ended.wait(0.1):
            try:
                with self.using:
                    if self.is_releasing or FAULT == "trusting":
                        return
                    if self.is_lost:
                        self.link.close()
                        return
                    self.link.execute_command("LOCK.RENEW", self.key, self.owner, "SESSION")
                    self.runner.short.execute_command("LOCK.WATCH", self.key, self.owner, "BLOCK", 1)
            except LOST:
                self.link = self.runner.connection(1)
            except redis.ResponseError:
                self.is_lost = FAULT == "unwatched"

    def _watch(self):
        self.runner.connection().execute_command("LOCK.WATCH", self.key, self.owner, "BLOCK", 0)
        if not self.is_releasing and FAULT != "tardy":
            self._lose()

    def _lose(self):
        self.is_lost = True
        self.ended.set()
        if self.lock.get("watch"):
            write({"event": "lost", "as": self.name})
        if self.lock.get("watch") == "raise" and FAULT != "swallows":
            log(f"{self.named}: error in the callback for its loss\nValueError: the callback fails")

    def renew(self, lease_ms):
        if lease_ms is not None and (lease_ms <= 0 or self.lock.get("session")):
            raise Failure("bad_option", f"lease must be greater than 0, not {lease_ms / 1000:g}, and a session has none")
        if lease_ms and FAULT != "lasting":
            self.lock["lease_ms"] = lease_ms
            until = time.monotonic() + lease_ms / 1000
            self.until = max(self.until, until) if FAULT == "optimist" else min(self.until, until)
        lease = ["SESSION"] if self.lock.get("session") else ["PX", self._lease()]
        link = self.link if self.lock.get("session") else self.runner.short
        self._held("LOCK.RENEW", link, lease)
        self.until = time.monotonic() + self._lease() / 1000 if FAULT != "optimist" else self.until

    def guard(self, command):
        for attempt in range(2):
            try:
                reply = self._held("LOCK.GUARD", self.runner.short, command)
                return reply.decode() if isinstance(reply, bytes) else reply
            except Failure as failure:
                if failure.code != "connection" or FAULT != "repeats" or attempt:
                    raise

    def _held(self, command, link, words):
        try:
            with self.using:
                return link.execute_command(command, self.key, self.owner, *words)
        except LOST as error:
            raise Failure("connection", str(error)) from None
        except redis.ResponseError as error:
            if not str(error).startswith("NOTHELD"):
                raise Failure("refused", str(error)) from None
            self.is_lost = True
            self.ended.set()
            raise Failure("not_held", f"{self.named} is not held") from None

    def cancel(self):
        self.is_cancelled = True
        if FAULT == "no_cancel":
            self.runner.refuse(self.name)
        else:
            self._give_up()
            if FAULT != "owned":
                self.interrupt()

    def interrupt(self):
        """Ends what waits for a reply on its connection."""
        if FAULT != "shared":
            interrupt(self.link)

    def _give_up(self):
        permits = ["PERMITS", self.lock["permits"]] if self.lock["kind"] == "semaphore" else []
        for _ in range(200):
            try:
                if self.runner.connection(1).execute_command("LOCK.CANCEL", self.key, self.owner, "RELEASE", *permits):
                    return
            except LOST:
                pass
            time.sleep(0.01)

    def release(self):
        if self.is_released and FAULT != "frees":
            raise Failure("not_held", f"{self.named} is not held: it was released before")
        self.is_releasing = True
        self.ended.set()
        repeated = False
        link = self.link if FAULT not in ("hog", "shared") else self.runner.connection(0.1)
        permits = ["PERMITS", self.lock["permits"]] if self.lock["kind"] == "semaphore" else []
        while True:
            try:
                with self.using:
                    link.execute_command("LOCK.RELEASE", self.key, self.owner, *permits)
                self.is_released = True
                return
            except LOST:
                if FAULT in ("no_retry", "hog", "abrupt"):
                    raise Failure("connection") from None
                repeated, link = True, self.runner.connection(2)
                time.sleep(0.02)
            except redis.ResponseError:
                self.is_released = True
                if FAULT == "leaks":
                    self.runner.left.append(self.runner.connection())
                    self.runner.left[-1].ping()
                if repeated or FAULT == "frees":
                    return
                expired = ": its lease expired" if time.monotonic() >= self.until else ""
                raise Failure("not_held", f"{self.named} is not held{expired}") from None
            finally:
                if FAULT != "hog":
                    link.close()


class Runner:
    def __init__(self):
        self.holds, self.leaves, self.ids = {}, {}, {}
        self.has_connected = self.is_closed = self.was_greedy = False
        self.left, self.opening, self.entered = [], threading.Lock(), None
        self.ports, self.members = {}, {}

    def connection(self, timeout=None):
        return connection_to(self.port, timeout)

    def connect(self, request):
        if request.get("max_block_ms") == 0 and FAULT != "unchecked":
            raise Failure("bad_option", "max_block must be greater than 0, not 0")
        self.max_block = (request.get("max_block_ms") or 30000) / 1000
        if request.get("wrong") and FAULT != "any_client":
            raise Failure("wrong_client", "not a client of this library")
        self.ports[request.get("as", "main")] = request["to"]["port"]
        self.port, self.is_closed, self.has_connected, self.waits = request["to"]["port"], False, False, []
        self.connect_timeout = (request.get("connect_timeout_ms") or 5000) / 1000
        pool = redis.BlockingConnectionPool(port=self.port, max_connections=1, socket_timeout=None)
        self.client = redis.Redis(connection_pool=pool)
        pool = redis.BlockingConnectionPool(port=self.port, protocol=3, max_connections=1, socket_timeout=2, retry=Retry(NoBackoff(), 0))
        self.short = redis.Redis(connection_pool=pool)

    def member(self, name):
        """The connection to a server, which all RedLocks share."""
        port = self.ports[name]
        if port not in self.members:
            self.members[port] = Member(port)
        return self.members[port]

    def hold(self, request):
        return (RedHold if request["lock"]["kind"] == "redlock" else Hold)(self, request)

    def acquire(self, request):
        if FAULT == "enters" and request["lock"].get("reentrant") and self.entered:
            return {"owner": self.entered.owner, "token": None}
        hold = self.holds[request["as"]] = self.hold(request)
        self.ids[request["as"]] = request["id"]
        return hold.acquire()

    def refuse(self, name):
        write({"id": self.ids[name], "error": "cancelled", "text": ""})

    def cancel(self, request):
        self.holds[request["as"]].cancel()

    def release(self, request):
        self.holds[request["as"]].release()

    def reenter(self, request):
        holds = []
        try:
            for _ in range(request["times"]):
                if holds and request["lock"].get("reentrant") and FAULT != "anew":
                    holds.append(holds[0])
                else:
                    holds.append(Hold(self, request))
                    holds[-1].acquire()
        except Failure:
            for hold in holds[:-1]:
                hold.release()
            raise
        self.entered = holds[0]
        write({"event": "inside", "id": request["id"]})
        self.leaves[request["id"]].wait()
        self.entered = None
        for hold in {hold.owner: hold for hold in holds}.values():
            hold.release()
        return {"owners": [hold.owner for hold in holds]}

    def _ask(self, request, command, *words):
        """The command's replies for each of the lock's keys."""
        try:
            return {key: self.connection(2).execute_command(command, key, *words) for key in request["lock"]["keys"]}
        except LOST as error:
            raise Failure("connection", str(error)) from None
        except redis.ResponseError as error:
            raise refusal(error, self.port, f"{Hold(self, request).named}: ") from None

    def locked(self, request):
        return {"locked": any(info and info[b"holders"] for info in self._ask(request, "LOCK.INFO", "COUNT", 0).values())}

    def info(self, request):
        [(key, info)] = self._ask(request, "LOCK.INFO").items()
        info = info or {b"holders": [], b"waiters": [], b"waiting": 0}
        holders = [{"key": key, **one} for one in _fields(info[b"holders"], "owner", "mode", "holds")]
        waiters = [{"key": key, **one, "fair": bool(one["fair"])} for one in _fields(info[b"waiters"], "owner", "mode", "fair")]
        return {"holders": holders, "waiting": info[b"waiting"], "waiters": [] if FAULT == "blind" else waiters}

    def force(self, request):
        return {"forced": any(self._ask(request, "LOCK.FORCE").values())}

    def renew(self, request):
        self.holds[request["as"]].renew(request["lease_ms"])

    def guard(self, request):
        return {"reply": self.holds[request["as"]].guard(request["command"])}

    def latch_set(self, request):
        Latch(self, request).set(request["count"], request["lease_ms"])

    def latch_down(self, request):
        return {"left": Latch(self, request).down(request["by"])}

    def latch_count(self, request):
        return {"count": Latch(self, request).count()}

    def latch_wait(self, request):
        latch = self.holds[request["as"]] = Latch(self, request)
        self.waits.append(latch)
        return {"open": latch.wait(request["wait_ms"])}

    def delay_push(self, request):
        return {"item": Queue(self, request).push(request["value"], request["delay_ms"], request["item"])}

    def delay_cancel(self, request):
        return {"cancelled": Queue(self, request).cancel(request["item"])}

    def delay_list(self, request):
        return {"items": Queue(self, request).list()}

    def consume(self, request):
        consumer = self.holds[request["as"]] = Consumer(self, request, self.leaves[request["id"]])
        self.waits.append(consumer)
        consumer.run()

    def close(self, request):
        if FAULT == "unclosed" or self.is_closed:
            return
        self.is_closed = True
        working = []
        for hold in self.waits:
            if hold.is_releasing:
                working.append(threading.Thread(target=hold.interrupt if FAULT == "abrupt" else hold.ended.wait))
            else:
                hold.is_released = hold.is_releasing = True
                hold.ended.set()
                working.append(threading.Thread(target=hold.cancel, daemon=True))
            working[-1].start()
        until = time.monotonic() + (request.get("timeout_ms") or 5000) / 1000
        for thread in working:
            thread.join(None if FAULT == "patient" else max(0, until - time.monotonic()))
        for hold in self.waits:
            hold.interrupt()

    def abandon(self, request):
        if FAULT != "keeps":
            hold = self.holds.pop(request["as"])
            log(f"{hold.named} was never released; it is released now")
            hold.release()

    def crowd(self, request):
        done = []

        def work(number):
            own = f":{number}" if request.get("own", True) else ""
            lock = {**request["lock"], "keys": [key + own for key in request["lock"]["keys"]]}
            hold = Hold(self, {"lock": lock})
            hold.acquire()
            time.sleep(request["hold_ms"] / 1000)
            hold.release()
            done.append(1)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(request["tasks"])]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"done": len(done)}

    def short_lived(self, request):
        for _ in range(request["times"]):
            hold = Hold(self, {"lock": request["lock"]})
            hold.acquire()
            hold.release()
            if FAULT == "leaks":
                self.left.append(self.connection())
                self.left[-1].ping()

    def lost(self, request):
        hold = self.holds[request["as"]]
        return {"lost": hold.is_lost or time.monotonic() >= hold.until and not hold.lock.get("session")}

    def ping(self, request):
        return {"pong": self.client.ping()}

    def within(self, request):
        hold = self.hold(request)
        hold.acquire()
        write({"event": "inside", "id": request["id"]})
        (hold.ended if request.get("stop") else self.leaves[request["id"]]).wait()
        try:
            hold.release()
        except Failure:
            if FAULT == "masks" or not request.get("raise"):
                raise
        if request.get("raise"):
            raise Failure("body")

    def leave(self, request):
        self.leaves[request["of"]].set()


def play(runner, request):
    try:
        answer = getattr(runner, request["do"])(request)
        if FAULT != "forgets" or request["do"] != "release":
            write({"id": request["id"], "ok": True, **(answer or {})})
    except Failure as failure:
        if not (FAULT == "no_cancel" and failure.code == "cancelled"):
            write({"id": request["id"], "error": failure.code, "text": failure.text})
    except Exception as error:
        write({"id": request["id"], "error": "other", "text": repr(error)})


if __name__ == "__main__":
    it = Runner()
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "quit":
            write({"id": request["id"], "ok": True})
            break
        it.leaves[request["id"]] = threading.Event()
        threading.Thread(target=play, args=(it, request), daemon=True).start()
