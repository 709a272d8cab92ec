"""What locks and holds can do besides locking, and re-entry, in both flavours."""

import asyncio
import gc
import threading

import pytest
import redis
import redis.asyncio
from harness import wait_for

import lock_so
from lock_so import Locks, NotAcquired, NotHeld, Refused, aio
from seen import calls, holds, info, wait_free


@pytest.mark.parametrize("protocol", [2, 3])
def test_info(server, protocol):
    with redis.Redis(port=server.port, protocol=protocol) as client:
        locks = Locks(client)
        lock = locks.multi("k", "l")
        assert (lock.locked(), lock.info().holders, lock.info().waiting, lock.force()) == (False, [], 0, False)
        held = locks.lock("l", session=True).acquire()
        waiter = threading.Thread(target=lambda: lock.acquire().release(), daemon=True)
        waiter.start()
        wait_for(lambda: info(server, "l")["waiters"], 20, "the wait")
        found = lock.info()
        assert lock.locked() and found.waiting == 2 and [one.key for one in found.waiters] == ["k", "l"]
        assert found.waiters[0].left <= 30 and not found.waiters[0].fair and found.waiters[0].waited < 60
        (holder,) = found.holders
        assert (holder.key, holder.owner, holder.mode, holder.holds) == ("l", held.owner, "exclusive", 1)
        assert holder.session and 0 < holder.left <= 30
        held.release()
        waiter.join(60)
        locks.close()


def test_force(server, do):
    locks = do.locks(server)
    lost = threading.Event()
    hold = do(locks.lock("k", on_lost=lambda _: lost.set()).acquire())
    wait_for(lambda: calls(server, "lock.watch") > 0, 20, "the hold to be watched")
    assert do(locks.lock("k").force()) and not do(locks.lock("k").locked())
    assert lost.wait(20)
    with pytest.raises(NotHeld):
        do(hold.release())
    do(locks.close())


def test_a_semaphore_is_locked_by_one_permit(server, do):
    locks = do.locks(server)
    hold = do(locks.semaphore("k", 3).acquire())
    assert do(locks.semaphore("k", 3).locked())
    do(hold.release())
    assert not do(locks.semaphore("k", 3).locked())
    do(locks.close())


def test_renew(server, do):
    locks = do.locks(server)
    hold = do(locks.lock("k", lease=600, renew=False).acquire())
    do(hold.renew(60))
    assert 0 < info(server, "k")["holders"][0]["pttl"] <= 60000
    do(hold.renew())
    lost = threading.Event()
    hold._on_lost = lambda _: lost.set()
    do(hold.renew(0.3))
    assert lost.wait(20) and hold.is_lost
    with pytest.raises(NotHeld, match="its lease expired"):
        do(hold.renew())
    do(locks.close())


def test_what_is_shown(server, do):
    module = "lock_so.aio" if do.is_asyncio else "lock_so"
    locks, name = do.locks(server), f"<{module}.Locks: localhost:{server.port}>"
    hold = do(locks.lock("k", fenced=True).acquire())
    assert repr(locks) == name and repr(locks.multi("a", "b")) == f'<{module}.Lock: multi-key lock "a", "b">'
    assert repr(hold) == f'<{module}.Hold: lock "k", held, owner {hold.owner}, token {hold.token}>'
    do(hold.release())
    assert repr(hold) == f'<{module}.Hold: lock "k", released, owner {hold.owner}, token {hold.token}>'
    hold = do(locks.lock("k").acquire())
    server.control.execute_command("LOCK.FORCE", "k")
    with pytest.raises(NotHeld):
        do(hold.release())
    assert repr(hold) == f'<{module}.Hold: lock "k", lost, owner {hold.owner}>'
    others = [do.locks(server), do.locks(server)]
    assert repr((aio if do.is_asyncio else lock_so).RedLock([locks, *others])) == f"RedLock([{name}, {name}, {name}])"
    for each in (locks, *others):
        do(each.close())


def test_a_shorter_lease_is_renewed_in_time(server, do):
    locks = do.locks(server)
    hold = do(locks.multi("k", "l", lease=600).acquire())
    do(hold.renew(1))
    wait_for(lambda: calls(server, "lock.mrenew") > 4, 20, "renewals after a third of the shorter lease")
    assert not hold.is_lost
    do(hold.release())
    do(locks.close())


def test_guard(server, do):
    locks = do.locks(server)
    hold = do(locks.lock("k").acquire())
    assert do(hold.guard("SET", "n", 5)) == b"OK" and do(hold.guard("INCR", "n")) == 6
    with pytest.raises(Refused, match="not an integer|no such|wrong kind"):
        do(hold.guard("LPUSH", "n", 1))
    server.control.execute_command("LOCK.FORCE", "k")
    with pytest.raises(NotHeld):
        do(hold.guard("INCR", "n"))
    assert hold.is_lost and server.control.get("n") in ("6", b"6")
    do(locks.close())


KINDS = [("lock", ["k"]), ("fair", ["k"]), ("read", ["k"]), ("write", ["k"]), ("multi", ["k", "l"])]


@pytest.mark.parametrize("kind, keys", KINDS)
def test_a_thread_enters_again(server, kind, keys):
    locks = Locks(redis.Redis(port=server.port))
    lock = getattr(locks, kind)(*keys, reentrant=True)
    outer = lock.acquire()
    number = calls(server, "lock.release") + calls(server, "lock.mrelease")
    with getattr(locks, kind)(*(key.encode() for key in keys), reentrant=True, wait=0) as inner:
        assert (inner.owner, inner.keys, inner.token) == (outer.owner, outer.keys, None)
        assert list(holds(server, "k").values()) == [1]
    assert calls(server, "lock.release") + calls(server, "lock.mrelease") == number
    with pytest.raises(NotHeld, match="it was released before"):
        inner.release()
    inner = lock.acquire()
    outer.release()
    assert list(holds(server, "k")) == [inner.owner]
    inner.release()
    assert info(server, "k") is None and not locks._shared.own() and not locks._shared.holds
    locks.close()


def test_another_thread_does_not_enter(server):
    locks, errors = Locks(redis.Redis(port=server.port)), []
    lock = locks.lock("k", reentrant=True)

    def other():
        try:
            lock.acquire(wait=0)
        except NotAcquired as error:
            errors.append(error)

    with lock:
        thread = threading.Thread(target=other)
        thread.start()
        thread.join(60)
    assert len(errors) == 1
    locks.close()


def test_a_task_enters_again_and_its_children_do_not(server):
    async def play():
        locks = aio.Locks(redis.asyncio.Redis(port=server.port))
        lock = locks.fair("k", reentrant=True, wait=0)
        async with lock as outer, lock as inner:
            assert inner.owner == outer.owner
            with pytest.raises(NotAcquired):
                await asyncio.create_task(lock.acquire())
        assert info(server, "k") is None
        await locks.close()

    asyncio.run(play())


def test_the_self_deadlock_without_re_entry(server):
    locks = Locks(redis.Redis(port=server.port))
    with locks.lock("k", reentrant=True) as hold:
        for lock in (locks.lock("k"), locks.fair("k", reentrant=True)):
            with pytest.raises(NotAcquired) as found:
                lock.acquire(wait=0.1)
            assert str(found.value).endswith(f"held by {hold.owner} (this process)")
            assert found.value.holders == [hold.owner]
    locks.close()


def test_what_is_lost_is_not_entered_again(server):
    locks, lost = Locks(redis.Redis(port=server.port)), []
    outer = locks.lock("k", reentrant=True, on_lost=lost.append).acquire()
    inner = locks.lock("k", reentrant=True, on_lost=lost.append).acquire()
    wait_for(lambda: calls(server, "lock.watch") > 1, 20, "the holds to be watched")
    server.control.execute_command("LOCK.FORCE", "k")
    wait_for(lambda: len(lost) == 2, 20, "both callbacks")
    with pytest.raises(NotHeld, match="the server reported its loss"):
        locks.lock("k", reentrant=True).acquire()
    for hold in (inner, outer):
        with pytest.raises(NotHeld):
            hold.release()
    locks.lock("k", reentrant=True).acquire().release()
    locks.close()


def test_a_token_requires_one_outside(server):
    locks = Locks(redis.Redis(port=server.port))
    with locks.lock("k", reentrant=True), pytest.raises(ValueError, match="fenced: the hold that is entered again has no token"):
        locks.lock("k", reentrant=True, fenced=True).acquire()
    with locks.lock("k", reentrant=True, fenced=True) as hold, locks.lock("k", reentrant=True) as inner:
        assert inner.token == hold.token
    with pytest.raises(TypeError):
        locks.semaphore("k", 3, reentrant=True)
    locks.close()


def test_forgotten_reentrant_holds(server, do):
    locks = do.locks(server)
    lock = locks.lock("k", reentrant=True)
    hold = do(lock.acquire())
    with pytest.warns(ResourceWarning, match="never released"):
        if isinstance(locks, Locks):
            inner = lock.acquire()
            del hold
            assert list(holds(server, "k")) == [inner.owner]
            del inner
        else:
            del hold
        gc.collect()
    wait_free(server, "k")
    do(locks.close())


def test_many_renewals_leave_nothing(server):
    locks = Locks(redis.Redis(port=server.port))
    hold = locks.lock("k", lease=600).acquire()
    for number in range(300):
        hold.renew(600 + number)
    keeper = locks._shared.keeper
    keeper.at(0.0, lambda: None)
    wait_for(lambda: len(keeper._new) + len(keeper._due) < 150, 20, "what has ended to be forgotten")
    hold.release()
    locks.close()
