"""The arguments of the commands."""

import os
import socket
import time

import pytest
import redis
import redis.asyncio

import lock_so
from lock_so import Locks, RedLock, _sync, aio
from lock_so._spec import Spec, new_owner
from lock_so._steps import State


@pytest.mark.parametrize(
    "spec, words",
    [
        (Spec("lock", ("k",)), "LOCK.ACQUIRE k o PX 30000 BLOCK 9 ONCE"),
        (Spec("lock", ("k",), fenced=True, lease=0.005), "LOCK.ACQUIRE k o PX 5 BLOCK 9 FENCED ONCE"),
        (Spec("fair", ("k",), session=True), "LOCK.FAIR k o SESSION BLOCK 9 ONCE"),
        (Spec("read", ("k",)), "LOCK.RWREAD k o PX 30000 BLOCK 9 ONCE"),
        (Spec("write", ("k",), replicas=(2, 0.1)), "LOCK.RWWRITE k o PX 30000 BLOCK 9 ONCE REPLICAS 2 100"),
        (Spec("multi", ("k", "l")), "LOCK.MACQUIRE 2 k l o PX 30000 BLOCK 9 ONCE"),
        (
            Spec("multi", ("k", "l"), modes=("READ", "WRITE")),
            "LOCK.MACQUIRE 2 k l o MODES READ WRITE PX 30000 BLOCK 9 ONCE",
        ),
        (Spec("semaphore", ("k",), limit=5, permits=2), "LOCK.SEMAPHORE k o 5 PERMITS 2 PX 30000 BLOCK 9 ONCE"),
    ],
)
def test_acquire(spec, words):
    assert " ".join(map(str, spec.acquire("o", 9))) == words
    assert "BLOCK" not in spec.acquire("o", None)


@pytest.mark.parametrize(
    "spec, release, cancel",
    [
        (Spec("lock", ("k",)), "LOCK.RELEASE k o", "LOCK.CANCEL k o RELEASE"),
        (Spec("fair", ("k",)), "LOCK.RELEASE k o", "LOCK.CANCEL k o RELEASE"),
        (Spec("read", ("k",)), "LOCK.RELEASE k o READ", "LOCK.CANCEL k o RELEASE READ"),
        (Spec("write", ("k",)), "LOCK.RELEASE k o WRITE", "LOCK.CANCEL k o RELEASE WRITE"),
        (Spec("multi", ("k", "l")), "LOCK.MRELEASE 2 k l o", "LOCK.CANCEL k o"),
        (
            Spec("multi", ("k", "l"), modes=("READ", "WRITE")),
            "LOCK.MRELEASE 2 k l o MODES READ WRITE",
            "LOCK.CANCEL k o",
        ),
        (
            Spec("semaphore", ("k",), limit=5, permits=2),
            "LOCK.RELEASE k o PERMITS 2",
            "LOCK.CANCEL k o RELEASE PERMITS 2",
        ),
    ],
)
def test_release_and_cancel(spec, release, cancel):
    assert " ".join(map(str, spec.release("o"))) == release
    assert " ".join(map(str, spec.cancel("o"))) == cancel


REFUSED = {
    "lease": ("lease must be greater than 0, not 0", {"lease": 0}),
    "negative lease": ("lease must be greater than 0, not -1.5", {"lease": -1.5}),
    "lease below 1 ms": ("lease must be at least 1 ms, not 0.0009 s", {"lease": 0.0009}),
    "wait": ("wait must not be negative, not -1", {"wait": -1}),
    "replicas": ("replicas must be at least 1, not 0", {"replicas": (0, 1)}),
    "endless lease": ("lease must have a limit, not inf", {"lease": float("inf")}),
    "time of replicas": ("replicas: the time must be greater than 0, not 0", {"replicas": (1, 0)}),
    "cancel_on_loss": ("cancel_on_loss: only a task of asyncio can be cancelled", {"cancel_on_loss": True}),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("kind", ["lock", "fair", "read", "write", "multi"])
def test_options_are_checked(kind, name):
    text, options = REFUSED[name]
    with pytest.raises(ValueError) as found:
        getattr(Locks(redis.Redis()), kind)("k", **options)
    assert str(found.value) == text


def test_the_shortest_lease():
    locks = Locks(redis.Redis())
    assert locks.lock("k", lease=0.001)._spec.acquire("o", None)[3:5] == ["PX", 1]
    hold = _sync.Hold(locks.lock("k"), State(Spec("lock", ("k",)), "o", 1, time.monotonic(), None))
    for lease, text in ((0, "greater than 0, not 0"), (0.0004, "at least 1 ms, not 0.0004 s")):
        for refused in (
            lambda: locks.latch("k").set(1, lease=lease),  # noqa: B023
            lambda: RedLock([locks, Locks(redis.Redis()), Locks(redis.Redis())]).lock("k", lease=lease),  # noqa: B023
            lambda: hold.renew(lease),  # noqa: B023
        ):
            with pytest.raises(ValueError, match=f"^lease must be {text}$"):
                refused()
    hold._state.is_ending = True


@pytest.mark.parametrize(
    "options, text",
    [
        ({"limit": 0}, "limit must be at least 1, not 0"),
        ({"limit": 3, "permits": 4}, "permits must be from 1 to the limit of 3, not 4"),
        ({"limit": 3, "permits": 0}, "permits must be from 1 to the limit of 3, not 0"),
        ({"limit": 3, "lease": 0}, "lease must be greater than 0, not 0"),
    ],
)
def test_options_of_a_semaphore_are_checked(options, text):
    with pytest.raises(ValueError, match=text):
        Locks(redis.Redis()).semaphore("k", **options)


@pytest.mark.parametrize(
    "options, text",
    [
        ({"lease": "3"}, "lease must be a number, not '3'"),
        ({"wait": "3"}, "wait must be a number, not '3'"),
        ({"replicas": (1,)}, r"replicas must be \(number, seconds\), not \(1,\)"),
        ({"replicas": (1.5, 1)}, "replicas must be an integer, not 1.5"),
    ],
)
def test_types_of_options_are_checked(options, text):
    with pytest.raises(TypeError, match=text):
        Locks(redis.Redis()).lock("k", **options)


def test_an_endless_wait_has_no_limit():
    locks = Locks(redis.Redis())
    assert locks.fair("k")._attempt(float("inf")).until == float("inf")
    with pytest.raises(ValueError, match="wait must not be negative, not nan"):
        locks.lock("k", wait=float("nan"))


def test_keys_are_checked():
    locks = Locks(redis.Redis())
    with pytest.raises(ValueError, match="keys must not be empty"):
        locks.multi()
    for wrong in (lambda: locks.multi(["a", "b"]), lambda: locks.lock(7), lambda: locks.lock(None)):
        with pytest.raises(TypeError, match="a key must be str or bytes"):
            wrong()
    assert locks.lock(b"k")._spec.named == locks.lock("k")._spec.named == 'lock "k"'


@pytest.mark.parametrize(
    "spec, words",
    [
        (Spec("write", ("k",), replicas=(2, 0.1)), "LOCK.RENEW k o PX 30000 REPLICAS 2 100"),
        (Spec("lock", ("k",), session=True), "LOCK.RENEW k o SESSION"),
        (Spec("multi", ("k", "l"), modes=("READ", "WRITE")), "LOCK.MRENEW 2 k l o PX 30000"),
    ],
)
def test_renewal(spec, words):
    assert " ".join(map(str, spec.renewal("o"))) == words


def test_keys_to_read_and_keys_to_write():
    locks = Locks(redis.Redis())
    spec = locks.multi(read=["a", "b", "c"], write=["b", "d"])._spec
    assert (spec.keys, spec.modes) == (("a", "c", "b", "d"), ("READ", "READ", "WRITE", "WRITE"))
    assert locks.multi(write=["a"])._spec.modes == ("WRITE",)
    assert locks.multi("a", "b")._spec.modes == ()
    with pytest.raises(ValueError, match="keys: either all of them are exclusive, or each is in read or write"):
        locks.multi("a", read=["b"])
    for wrong in ({"read": "abc"}, {"write": b"abc"}):
        with pytest.raises(TypeError, match="read and write must be lists of keys"):
            locks.multi(**wrong)
    with pytest.raises(ValueError, match="keys must not be empty"):
        locks.multi(read=[], write=[])


@pytest.mark.parametrize("settings", [{"max_block": 0}, {"connect_timeout": -1}])
def test_settings_are_checked(settings):
    with pytest.raises(ValueError, match=f"{next(iter(settings))} must be greater than 0, not "):
        Locks(redis.Redis(), **settings)


def test_another_librarys_client_is_refused():
    for factory, client in ((Locks, redis.asyncio.Redis()), (Locks, object()), (aio.Locks, redis.Redis())):
        with pytest.raises(TypeError, match="the client must be a redis"):
            factory(client)


def test_owners_differ():
    owners = {new_owner() for _ in range(1000)}
    assert len(owners) == 1000
    host, pid, rest = owners.pop().split(":")
    assert (host, pid) == (socket.gethostname(), str(os.getpid())) and len(rest) == 16


PUBLIC = {
    "Locks": "close delayed_queue fair latch lock multi read semaphore write",
    "Lock": "acquire force info locked",
    "CombinedLock": "acquire force info locked",
    "MajorityLock": "acquire force info locked",
    "Hold": "guard holds is_lost keys owner release renew token",
    "CombinedHold": "guard holds is_lost keys owner release renew token",
    "MajorityHold": "guard holds is_lost keys owner release renew token",
    "Latch": "count count_down key set wait",
    "DelayedQueue": "cancel consume key list push",
    "RedLock": "lock",
}


@pytest.mark.parametrize("module", [lock_so, aio])
def test_public_names(module):
    """Those of the objects: other names begin with an underscore."""
    client = (redis.asyncio if module is aio else redis).Redis()
    all_locks = [module.Locks(client) for _ in range(3)]
    locks, redlock = all_locks[0], module.RedLock(all_locks)
    objects = [locks, locks.lock("k"), module.combine(locks.lock("k")), redlock.lock("k"), locks.latch("k"), redlock]
    objects += [locks.delayed_queue("k")]
    for name in ("Hold", "CombinedHold", "MajorityHold"):
        state = State(Spec("lock", ("k",)), "o", 1, time.monotonic(), None)
        objects.append(getattr(module, name)(redlock.lock("k"), state))
        state.is_ending = True  # there is nothing to release
    assert {type(each).__name__: " ".join(name for name in dir(each) if name[0] != "_") for each in objects} == PUBLIC
    assert set(PUBLIC) <= set(module.__all__)


def test_not_acquired_is_a_timeout():
    assert issubclass(lock_so.NotAcquired, TimeoutError)
