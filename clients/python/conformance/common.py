"""What the runners of both flavours share: the protocol, and the user's clients."""

import functools
import json
import re
import sys
import threading

import redis

import lock_so

HOST = "127.0.0.1"


class BodyError(Exception):
    """The body's own error."""


class BadOption(Exception):
    """An option was refused."""


class WrongClient(Exception):
    """The client was refused."""


# The first row that matches.
_CODES = [
    (lock_so.Cancelled, "cancelled"),
    (lock_so.Closed, "closed"),
    (lock_so.ModuleMissing, "module_missing"),
    (lock_so.NotAcquired, "not_acquired"),
    (lock_so.NotHeld, "not_held"),
    (lock_so.Deadlock, "deadlock"),
    (lock_so.NoReplicas, "no_replicas"),
    (lock_so.Refused, "refused"),
    (BodyError, "body"),
    (WrongClient, "wrong_client"),
    ((BadOption, ValueError), "bad_option"),
    ((redis.ConnectionError, redis.TimeoutError, OSError), "connection"),
]

_writing = threading.Lock()


def write(message):
    with _writing:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def answer(request, fields):
    write({"id": request["id"], "ok": True, **(fields or {})})


def refuse(request, error):
    code = next((code for cls, code in _CODES if isinstance(error, cls)), "other")
    write({"id": request["id"], "error": code, "text": f"{error!r}" if code == "other" else str(error)})


def user_client(to, pool, single, cluster, sentinel):
    """A client as a user would create it, with these classes."""
    limit = {"max_connections": pool} if pool else {}
    if to["kind"] == "single":
        return single(host=HOST, port=to["port"], **limit)
    if to["kind"] == "cluster":
        return cluster(host=HOST, port=to["ports"][0])
    return sentinel([(HOST, port) for port in to["ports"]], socket_timeout=2).master_for(to["master"], **limit)


def wait_of(request):
    ms = request.get("wait_ms")
    return None if ms is None else ms / 1000


def make_locks(factory, client, request):
    """The lock factory that a request describes."""
    names = {"max_block_ms": "max_block", "connect_timeout_ms": "connect_timeout"}
    settings = {names[name]: request[name] / 1000 for name in names if request.get(name) is not None}
    try:
        return factory(client, **settings)
    except TypeError as error:
        raise WrongClient(str(error)) from None
    except ValueError as error:
        raise BadOption(str(error)) from None


def make_lock(locks, wanted, wait=None, on_lost=None, **more):
    """The lock that a request describes."""
    try:
        return _make_lock(locks, wanted, wait, on_lost, more)
    except (ValueError, TypeError) as error:  # TypeError: the method has no such option
        if isinstance(error, TypeError) and not re.search("unexpected keyword argument '(fenced|permits|limit|reentrant)'", str(error)):
            raise
        raise BadOption(str(error)) from None


def _make_lock(locks, wanted, wait, on_lost, more):
    if wanted["kind"] == "redlock":
        (key,) = wanted["keys"]
        lease = {"lease": wanted["lease_ms"] / 1000} if wanted.get("lease_ms") is not None else {}
        return locks.redlock(tuple(locks[name] for name in wanted["on"])).lock(key, wait=wait, on_lost=on_lost, **lease, **more)
    if wanted["kind"] == "combine":
        members = [_make_lock(locks[member.get("on") or "main"], member["lock"], None, None, {}) for member in wanted["members"]]
        return locks.combine(*members, wait=wait, on_lost=on_lost, **more)
    wanted = {name: value for name, value in wanted.items() if value is not None}
    kind, keys = wanted.pop("kind"), wanted.pop("keys")
    wanted.pop("watch", None)
    if "lease_ms" in wanted:
        wanted["lease"] = wanted.pop("lease_ms") / 1000
    if "replicas" in wanted:
        wanted["replicas"] = (wanted["replicas"][0], wanted["replicas"][1] / 1000)
    if kind == "semaphore":
        keys = [*keys, wanted.pop("limit")]
    if "modes" in wanted:
        modes = list(zip(keys, wanted.pop("modes")))
        keys, wanted = [], wanted | {mode: [key for key, one in modes if one == mode] for mode in ("read", "write")}
    return getattr(locks, kind)(*keys, wait=wait, on_lost=on_lost, **wanted, **more)


def report_of(request):
    """The callback for a loss that a request wants."""
    watch = request["lock"].get("watch")

    def report(_):
        write({"event": "lost", "as": request["as"]})
        if watch == "raise":
            raise ValueError("the callback fails")

    return report if watch else None


def fields_of(entries, *names):
    """These fields of the entries of a LockInfo."""
    return [{name: getattr(entry, name) for name in names} for entry in entries]


def hold_fields(hold):
    """The answer to an acquisition."""
    owners = {"owners": [one.owner for one in hold.holds]} if len(hold.holds) > 1 else {}
    return {"owner": hold.owner, "token": hold.token, **owners}


class AllLocks(dict):
    """The lock factories of a process, by name. A request is for the locks of one of them, or of several."""

    def __init__(self, combine, redlock):
        super().__init__()
        self.combine, self.redlock = combine, functools.lru_cache(None)(redlock)

    def of(self, request):
        return self if request["lock"]["kind"] in ("combine", "redlock") else self[request.get("on") or "main"]


def info_of(info):
    return {
        "holders": fields_of(info.holders, "key", "owner", "mode", "holds"),
        "waiting": info.waiting,
        "waiters": fields_of(info.waiters, "key", "owner", "mode", "fair"),
    }


def lease_of(request):
    ms = request.get("lease_ms")
    return None if ms is None else ms / 1000


def text_of(reply):
    return reply.decode() if isinstance(reply, bytes) else reply


def consumer_of(request):
    """The options of a consumer."""
    found = {"timeout": request.get("timeout_ms"), "backoff": request.get("backoff_ms")}
    options = {name: ms / 1000 for name, ms in found.items() if ms is not None}
    return {**options, **({"max_tries": request["max_tries"]} if request.get("max_tries") is not None else {})}


def begun(request, job):
    """Reports a job, and returns its value."""
    value = text_of(job.value)
    write({"event": "job", "id": request["id"], "value": value, "tries": job.tries})
    return value


def fail(request, value):
    if value in (request.get("fail") or ()):
        raise ValueError("the handler fails")


def own_lock(request, number):
    """The lock of one task of a crowd."""
    own = f":{number}" if request.get("own") is not False else ""
    return {**request["lock"], "keys": [key + own for key in request["lock"]["keys"]]}


def requests():
    for line in sys.stdin:
        if line.strip():
            yield json.loads(line)
