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
"""

import json
import sys
import threading
import time
import uuid

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

FAULT = sys.argv[1]
LOST = (redis.ConnectionError, redis.TimeoutError)


class Failure(Exception):
    def __init__(self, code):
        super().__init__(code)
        self.code = code


class Hold:
    """A wait, and the hold if it is granted."""

    def __init__(self, runner, request):
        self.runner, self.name, self.key = runner, request.get("as"), request["lock"]["keys"][0]
        self.owner = "me" if FAULT == "one_owner" else str(uuid.uuid4())
        self.lock, self.wait_ms = request["lock"], request.get("wait_ms")
        self.is_cancelled = self.is_released = self.is_lost = False

    def acquire(self):
        until = None if self.wait_ms is None else time.monotonic() + self.wait_ms / 1000
        client = self.runner.client if FAULT == "shared" else self.runner.connection()
        while True:
            try:
                answer = client.execute_command(*self._words(until))
            except LOST:
                answer = None
            except redis.ResponseError:
                raise Failure("refused") from None
            if self.is_cancelled:
                raise Failure("cancelled")
            if answer is not None:
                break
            if until is not None and time.monotonic() >= until:
                raise Failure("not_acquired")
            time.sleep(0.02)
        self._begin()
        return {"owner": self.owner, "token": answer if self.lock.get("fenced") else None}

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

    def cancel(self):
        self.is_cancelled = True
        if FAULT == "no_cancel":
            self.runner.refuse(self.name)
        else:
            while self.runner.connection().execute_command("LOCK.CANCEL", self.key, self.owner, "RELEASE") == 0:
                time.sleep(0.01)

    def release(self):
        self.is_released = True
        repeated = False
        while True:
            try:
                self.runner.connection().execute_command("LOCK.RELEASE", self.key, self.owner)
                return
            except LOST:
                if FAULT == "no_retry":
                    raise Failure("connection") from None
                repeated = True
            except redis.ResponseError:
                if repeated:
                    return
                raise Failure("not_held") from None


class Runner:
    def __init__(self):
        self.holds, self.waits, self.leaves, self.ids = {}, {}, {}, {}

    def connection(self):
        return redis.Redis(port=self.port, socket_timeout=None, max_connections=1, retry=Retry(NoBackoff(), 0))

    def connect(self, request):
        self.port = request["to"]["port"]
        pool = redis.BlockingConnectionPool(port=self.port, max_connections=1, socket_timeout=None)
        self.client = redis.Redis(connection_pool=pool)

    def acquire(self, request):
        hold = self.holds[request["as"]] = Hold(self, request)
        self.ids[request["as"]] = request["id"]
        return hold.acquire()

    def refuse(self, name):
        write({"id": self.ids[name], "error": "cancelled", "text": ""})

    def cancel(self, request):
        self.holds[request["as"]].cancel()

    def release(self, request):
        self.holds[request["as"]].release()

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
            write({"id": request["id"], "error": failure.code, "text": ""})
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
