"""A runner for the driver's own tests: the kind `lock` only, with the fault that it is started with, or `none`.

    no_once    a command that is sent again is counted twice
    no_cancel  a wait that is cancelled is only ignored: no LOCK.CANCEL is sent
    shared     waits share the user's one connection
    masks      NotHeld replaces the body's own error
    no_watch   a loss is never reported
    no_renewal leases are never renewed
    one_owner  all acquisitions have the same owner
    no_retry   a release is sent only once
    forgets    some requests are never answered
    unfenced   the token is the number of holds
    unchecked  options are sent as they are
    any_client the client of another library is accepted
    vague      texts name neither the lock nor its holder
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
"""

import json
import os
import socket
import sys
import threading
import time

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

FAULT = sys.argv[1]
LOST = (redis.ConnectionError, redis.TimeoutError)
LATE = 0.05  # s


class Failure(Exception):
    def __init__(self, code, text=""):
        super().__init__(code)
        self.code, self.text = code, text


def log(text):
    print(text, file=sys.stderr, flush=True)


class Hold:
    """A wait, and the hold if it is granted."""

    def __init__(self, runner, request):
        self.runner, self.name, self.key = runner, request.get("as"), request["lock"]["keys"][0]
        self.owner = f"{socket.gethostname()}:{os.getpid()}:{os.urandom(8).hex()}"
        if FAULT in ("one_owner", "frees"):
            self.owner = "me"
        self.lock, self.wait_ms = request["lock"], request.get("wait_ms")
        self.named = "" if FAULT == "vague" else f'lock "{self.key}"'
        self.is_cancelled = self.is_released = self.is_lost = False
        self.link = None

    def check(self):
        lease, wait = self.lock.get("lease_ms"), self.wait_ms
        replicas = self.lock.get("replicas") or [1, 1]
        for bad, text in (
            (lease is not None and lease <= 0, f"lease must be greater than 0, not {(lease or 0) / 1000:g}"),
            (wait is not None and wait < 0, f"wait must not be negative, not {(wait or 0) / 1000:g}"),
            (replicas[0] < 1, f"replicas must be at least 1, not {replicas[0]}"),
            (replicas[1] <= 0, f"replicas: the time must be greater than 0, not {replicas[1]}"),
        ):
            if bad:
                raise Failure("bad_option", text)

    def acquire(self):
        if FAULT != "unchecked":
            self.check()
        until = None if self.wait_ms is None else time.monotonic() + self.wait_ms / (3000 if FAULT == "hasty" else 1000)
        began, logged, problem = time.monotonic(), False, None
        self.runner.waits.append(self)
        while True:
            left = None if until is None else until - time.monotonic()
            limit = None if left is None or FAULT == "late" else max(LATE, left) + LATE
            connecting = self.runner.connect_timeout if limit is None else min(limit, self.runner.connect_timeout)
            self.link = self.link or (self.runner.client if FAULT == "shared" else self.runner.connection(connecting))
            sent = time.monotonic()
            try:
                answer, problem = self._sent(self._words(until), limit), None
            except LOST as error:
                answer, problem, self.link = None, error, None
            except redis.ResponseError as error:
                self._refuse(error)
            if self.is_cancelled:
                raise Failure("closed" if self.runner.is_closed else "cancelled", "these Locks are closed")
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

    def _refuse(self, error):
        if str(error).startswith("unknown command"):
            hint = "" if FAULT == "no_hint" else f": is lock.so loaded on 127.0.0.1:{self.runner.port}?"
            raise Failure("module_missing", f"unknown command{hint}") from None
        raise Failure("refused", str(error)) from None

    def _not_acquired(self, problem):
        if FAULT == "slow":
            time.sleep(1)
        if problem:
            threading.Thread(target=self._give_up, daemon=True).start()
            if self.wait_ms == 0:
                raise Failure("connection", str(problem))
            raise Failure("not_acquired", f"{self.named} was not acquired within {self.wait_ms / 1000:g} s: {problem}")
        info = self.runner.connection(1).execute_command("LOCK.INFO", self.key) or {b"holders": []}
        held = " and ".join(one[b"owner"].decode() for one in info[b"holders"])
        within = f" within {self.wait_ms / 1000:g} s" if self.wait_ms else ""
        raise Failure("not_acquired", f"{self.named} was not acquired{within}: held by {'' if FAULT == 'vague' else held}")

    def _words(self, until):
        block = []
        if self.wait_ms != 0:
            block = ["BLOCK", 0 if until is None else max(1, round((until - time.monotonic()) * 1000))]
        once = [] if FAULT == "no_once" else ["ONCE"]
        fenced = ["FENCED"] if self.lock.get("fenced") and FAULT != "unfenced" else []
        return ["LOCK.ACQUIRE", self.key, self.owner, "PX", self._lease(), *block, *once, *fenced]

    def _lease(self):
        return self.lock.get("lease_ms") or 30000

    def _begin(self):
        if FAULT != "no_renewal":
            threading.Thread(target=self._renew, daemon=True).start()
        if self.lock.get("watch") and FAULT != "no_watch":
            threading.Thread(target=self._watch, daemon=True).start()

    def _renew(self):
        client = self.runner.connection()
        while not self.is_released and not self.is_lost:
            time.sleep(self._lease() / 3000)
            try:
                client.execute_command("LOCK.RENEW", self.key, self.owner, "PX", self._lease())
            except LOST:
                pass
            except redis.ResponseError:
                return

    def _watch(self):
        self.runner.connection().execute_command("LOCK.WATCH", self.key, self.owner, "BLOCK", 0)
        if not self.is_released:
            self.is_lost = True
            write({"event": "lost", "as": self.name})
            if self.lock["watch"] == "raise" and FAULT != "swallows":
                log(f"{self.named}: error in the callback for its loss\nValueError: the callback fails")

    def cancel(self):
        self.is_cancelled = True
        if FAULT == "no_cancel":
            self.runner.refuse(self.name)
        else:
            self._give_up()

    def _give_up(self):
        for _ in range(200):
            try:
                if self.runner.connection(1).execute_command("LOCK.CANCEL", self.key, self.owner, "RELEASE"):
                    return
            except LOST:
                pass
            time.sleep(0.01)

    def release(self):
        if self.is_released and FAULT != "frees":
            raise Failure("not_held", f"{self.named} is not held: it was released before")
        self.is_released = True
        repeated = False
        link = self.link if FAULT not in ("hog", "shared") else self.runner.connection(0.1)
        while True:
            try:
                link.execute_command("LOCK.RELEASE", self.key, self.owner)
                return
            except LOST:
                if FAULT in ("no_retry", "hog"):
                    raise Failure("connection") from None
                repeated, link = True, self.runner.connection()
                time.sleep(0.02)
            except redis.ResponseError:
                if repeated or FAULT == "frees":
                    return
                raise Failure("not_held", f"{self.named} is not held") from None
            finally:
                if FAULT != "hog":
                    link.close()


class Runner:
    def __init__(self):
        self.holds, self.waits, self.leaves, self.ids = {}, [], {}, {}
        self.has_connected = self.is_closed = self.was_greedy = False
        self.left = []

    def connection(self, timeout=None):
        times = {"socket_timeout": timeout, "socket_connect_timeout": timeout or 1}
        return redis.Redis(port=self.port, protocol=3, max_connections=1, retry=Retry(NoBackoff(), 0), **times)

    def connect(self, request):
        if request.get("wrong") and FAULT != "any_client":
            raise Failure("wrong_client", "not a client of this library")
        self.port, self.is_closed, self.has_connected = request["to"]["port"], False, False
        self.connect_timeout = (request.get("connect_timeout_ms") or 5000) / 1000
        pool = redis.BlockingConnectionPool(port=self.port, max_connections=1, socket_timeout=None)
        self.client = redis.Redis(connection_pool=pool)

    def acquire(self, request):
        if self.is_closed:
            raise Failure("closed", "these Locks are closed")
        hold = self.holds[request["as"]] = Hold(self, request)
        self.ids[request["as"]] = request["id"]
        return hold.acquire()

    def refuse(self, name):
        write({"id": self.ids[name], "error": "cancelled", "text": ""})

    def cancel(self, request):
        self.holds[request["as"]].cancel()

    def release(self, request):
        self.holds[request["as"]].release()

    def close(self, request):
        if FAULT == "unclosed" or self.is_closed:
            return
        self.is_closed = True
        for hold in self.waits:
            hold.is_released = True
            hold.cancel()

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
        return {"lost": self.holds[request["as"]].is_lost}

    def ping(self, request):
        return {"pong": self.client.ping()}

    def within(self, request):
        hold = Hold(self, request)
        hold.acquire()
        write({"event": "inside", "id": request["id"]})
        self.leaves[request["id"]].wait()
        try:
            hold.release()
        except Failure:
            if FAULT == "masks" or not request["raise"]:
                raise
        if request["raise"]:
            raise Failure("body")

    def leave(self, request):
        self.leaves[request["of"]].set()


_writing = threading.Lock()


def write(message):
    with _writing:
        print(json.dumps(message), flush=True)


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
