"""The arguments of the commands."""

import pytest

from lock_so.spec import Spec


@pytest.mark.parametrize(
    "spec, words",
    [
        (Spec("lock", ("k",)), "LOCK.ACQUIRE k o PX 30000 BLOCK 9 ONCE"),
        (Spec("lock", ("k",), fenced=True, lease_ms=5), "LOCK.ACQUIRE k o PX 5 BLOCK 9 FENCED ONCE"),
        (Spec("fair", ("k",), session=True), "LOCK.FAIR k o SESSION BLOCK 9 ONCE"),
        (Spec("read", ("k",)), "LOCK.RWREAD k o PX 30000 BLOCK 9 ONCE"),
        (Spec("write", ("k",), replicas=(2, 100)), "LOCK.RWWRITE k o PX 30000 BLOCK 9 ONCE REPLICAS 2 100"),
        (Spec("multi", ("k", "l")), "LOCK.MACQUIRE 2 k l o PX 30000 BLOCK 9 ONCE"),
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
            Spec("semaphore", ("k",), limit=5, permits=2),
            "LOCK.RELEASE k o PERMITS 2",
            "LOCK.CANCEL k o RELEASE PERMITS 2",
        ),
    ],
)
def test_release_and_cancel(spec, release, cancel):
    assert " ".join(map(str, spec.release("o"))) == release
    assert " ".join(map(str, spec.cancel("o"))) == cancel


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "odd", "keys": ("k",)},
        {"kind": "lock", "keys": ()},
        {"kind": "lock", "keys": ("k", "l")},
        {"kind": "read", "keys": ("k",), "fenced": True},
        {"kind": "semaphore", "keys": ("k",)},
    ],
)
def test_invalid_settings(fields):
    with pytest.raises(ValueError):
        Spec(**fields)
