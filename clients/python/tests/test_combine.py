"""Several locks as one: of several slots of a cluster, and of several servers, in both flavours."""

import asyncio
import os
import signal
import threading
import time

import pytest
import redis
import redis.asyncio
from harness import wait_for
from test_cluster import cluster  # noqa: F401

import lock_so
from lock_so import Closed, Locks, NotAcquired, NotHeld, aio
from lock_so._combine import Combination, parts_of
from lock_so._spec import Spec
from seen import calls, holds, info, wait_free


@pytest.fixture
def two(servers, do):
    """Two servers in the order of their names, their Locks, and what combines."""
    found = sorted((servers.make() for _ in range(2)), key=lambda server: f"localhost:{server.port}")
    locks = [do.locks(server) for server in found]
    yield (*found, *locks, aio.combine if do.is_asyncio else lock_so.combine)
    for each in locks:
        do(each.close())


def test_the_parts_of_a_multi_key_lock():
    slots = {"a": 7, "b": 3, "c": 7}
    parts = parts_of(Spec("multi", ("a", "b", "c"), modes=("READ", "WRITE", "WRITE")), slots.get)
    assert [(part.kind, part.keys, part.modes) for part in parts] == [
        ("write", ("b",), ()),
        ("multi", ("a", "c"), ("READ", "WRITE")),
    ]
    assert [part.kind for part in parts_of(Spec("multi", ("a", "b", "b")), slots.get)] == ["lock", "lock"]


def test_all_or_none(two, do):
    first, second, one, other, combine = two
    lock = combine(other.fair("k"), one.semaphore("k", 3), wait=0)
    hold = do(lock.acquire())
    assert [list(holds(server, "k")) for server in (first, second)] == [[held.owner] for held in hold.holds]
    assert hold.token is None and hold.owner == hold.holds[0].owner and do(lock.locked())
    assert [holder.owner for holder in do(lock.info()).holders] == [held.owner for held in hold.holds]
    do(hold.renew(5))
    assert all(info(server, "k")["holders"][0]["pttl"] <= 5000 for server in (first, second))
    with pytest.raises(ValueError, match="guard"):
        do(hold.guard("PING"))
    assert do(hold.holds[1].guard("PING")) == b"PONG"
    do(hold.release())
    assert not do(lock.locked())
    second.control.execute_command("LOCK.ACQUIRE", "k", "rival", "PX", 600000)
    began = time.monotonic()
    with pytest.raises(NotAcquired, match='^fair lock "k" was not acquired within 0.3 s: held by rival$'):
        do(lock.acquire(wait=0.3))
    assert time.monotonic() - began < 0.45
    wait_free(first, "k")
    assert do(lock.force())


def test_what_is_lost_during_a_wait_is_acquired_again(two, do):
    first, second, one, other, combine = two
    second.control.execute_command("LOCK.ACQUIRE", "k", "rival", "PX", 600000)
    found = []
    thread = threading.Thread(target=lambda: found.append(do(combine(one.lock("k", lease=600), other.lock("k")).acquire())))
    lost = threading.Event()
    watched = combine(one.lock("l", on_lost=lambda _: lost.set()), other.lock("k"))
    waiting = threading.Thread(target=lambda: found.append(do(watched.acquire(wait=20))))
    thread.start()
    wait_for(lambda: info(second, "k")["waiters"], 20, "the wait")
    waiting.start()
    wait_for(lambda: len(info(second, "k")["waiters"]) == 2 and calls(first, "lock.watch"), 20, "both waits")
    owners = list(holds(first, "l"))
    first.control.execute_command("LOCK.FORCE", "l")
    assert lost.wait(20)
    wait_for(lambda: list(holds(first, "l")) not in ([], owners), 20, "another hold")
    wait_for(lambda: len(info(second, "k")["waiters"]) == 2, 20, "both waits")
    second.control.execute_command("LOCK.RELEASE", "k", "rival")
    thread.join(60)
    do(found.pop().release())
    waiting.join(60)
    assert list(holds(first, "l")) == [found[0].owner] and not found[0].is_lost
    do(found[0].release())


def test_a_loss_is_reported_once(two, do):
    first, second, one, other, combine = two
    lost, own = [], []
    hold = do(combine(one.lock("k", on_lost=own.append), other.lock("k"), on_lost=lost.append).acquire())
    wait_for(lambda: calls(first, "lock.watch") and calls(second, "lock.watch"), 20, "both to be watched")
    for server in (first, second):
        server.control.execute_command("LOCK.FORCE", "k")
    wait_for(lambda: lost and own, 20, "both callbacks")
    wait_for(lambda: all(held.is_lost for held in hold.holds), 20, "both losses")
    assert lost == [hold] and own == [hold.holds[0]] and hold.is_lost
    with pytest.raises(NotHeld):
        do(hold.renew())
    with pytest.raises(NotHeld, match='lock "k" is not held: the server reported its loss'):
        do(hold.release())


def test_the_others_are_released_though_one_was_lost(two, do):
    first, second, one, other, combine = two
    hold = do(combine(one.lock("k"), other.lock("k")).acquire())
    second.control.execute_command("LOCK.FORCE", "k")
    with pytest.raises(NotHeld):
        do(hold.release())
    assert info(first, "k") is None
    with pytest.raises(NotHeld):
        do(hold.release())


def test_closed_locks_release_their_member(two, do):
    first, second, one, other, combine = two
    hold = do(combine(one.lock("k"), other.lock("k")).acquire())
    do(other.close())
    assert info(second, "k") is None and hold.is_lost and list(holds(first, "k")) == [hold.owner]
    with pytest.raises(NotHeld):
        do(hold.release())
    assert info(first, "k") is None


def test_members_are_checked(two, do):
    first, second, one, other, combine = two
    for locks in ([], [one.lock("k"), one.fair(b"k")], [one.lock("k"), combine(other.lock("k"), on_lost=print)]):
        with pytest.raises(ValueError):
            combine(*locks)
    if do.is_asyncio:
        for lock in (one.lock("k", cancel_on_loss=True), combine(one.lock("k"), other.lock("k"), cancel_on_loss=True)):
            with pytest.raises(ValueError, match="^cancel_on_loss: .* option of combine"):
                combine(lock, other.lock("l"))
    with pytest.raises(TypeError):
        combine(one)
    nested = combine(combine(other.lock("k"), one.lock("l")), one.lock("k"))
    assert [lock._spec.key for lock in nested._members] == ["k", "l", "k"]


def test_reentrant_members(servers):
    server = servers.make()

    async def play():
        locks = aio.Locks(redis.asyncio.Redis(port=server.port))
        lock = aio.combine(locks.lock("k", reentrant=True), locks.lock("l", reentrant=True), wait=0)
        async with lock as outer, lock as inner:
            assert [hold.owner for hold in inner.holds] == [hold.owner for hold in outer.holds]
        assert info(server, "k") is None
        await locks.close()

    asyncio.run(play())
    locks = Locks(redis.Redis(port=server.port))
    lock = lock_so.combine(locks.lock("k", reentrant=True), locks.lock("l", reentrant=True), wait=0)
    with lock as outer, lock as inner:
        assert inner.owner == outer.owner
    assert info(server, "k") is None
    locks.close()


def test_a_cancelled_acquisition_leaves_nothing(two, do):
    first, second, one, other, combine = two
    second.control.execute_command("LOCK.ACQUIRE", "k", "rival", "PX", 600000)
    lock = combine(one.lock("k"), other.lock("k"))
    if do.is_asyncio:
        future = asyncio.run_coroutine_threadsafe(lock.acquire(), do.loop)
        cancel, thread = future.cancel, threading.Thread(target=lambda: future.exception(60) if not future.cancelled() else None)
    else:
        cancellation = lock_so.Cancellation()
        cancel = cancellation.cancel
        errors = []

        def wait():
            try:
                lock.acquire(cancel=cancellation)
            except lock_so.Cancelled as error:
                errors.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
    wait_for(lambda: info(second, "k")["waiters"], 20, "the wait")
    cancel()
    if not do.is_asyncio:
        thread.join(60)
        assert len(errors) == 1
    wait_free(first, "k")
    wait_for(lambda: not info(second, "k")["waiters"], 20, "no wait to be left")


def test_a_loss_cancels_the_body(servers):
    first, second = servers.make(), servers.make()

    async def play():
        one, other = (aio.Locks(redis.asyncio.Redis(port=server.port)) for server in (first, second))
        with pytest.raises(NotHeld):
            async with aio.combine(one.lock("k"), other.lock("k"), cancel_on_loss=True):
                second.control.execute_command("LOCK.FORCE", "k")
                await asyncio.sleep(60)
        assert info(first, "k") is None
        for locks in (one, other):
            await locks.close()

    asyncio.run(play())


def test_several_slots_of_a_cluster(cluster):  # noqa: F811
    nodes, keys = cluster
    locks = Locks(redis.RedisCluster(host="127.0.0.1", port=nodes[0].port))
    lock = locks.multi(*reversed(keys), wait=20)
    with lock as hold:
        assert [held.keys for held in hold.holds] == [(key,) for key in keys] and lock.locked()
        assert [list(holds(node, key)) for node, key in zip(nodes, keys)] == [[held.owner] for held in hold.holds]
        with pytest.raises(NotAcquired, match=f'lock "{keys[0]}" was not acquired: held by .* \\(this process\\)'):
            lock.acquire(wait=0)
    assert not lock.locked()
    with locks.multi(keys[0], f"{{{keys[0]}}}") as hold:  # one slot
        assert hold.holds == [hold]
    locks.close()


def test_a_silent_member_does_not_delay_the_release_of_the_others(two, do):
    first, second, one, other, combine = two
    hold = do(combine(one.lock("k"), other.lock("k")).acquire())
    releasing = threading.Thread(target=lambda: do(hold.release()))
    os.kill(second.pid, signal.SIGSTOP)
    try:
        releasing.start()
        wait_for(lambda: info(first, "k") is None, 5, "the other one to be free")
        assert releasing.is_alive()
    finally:
        os.kill(second.pid, signal.SIGCONT)
    releasing.join(60)
    assert info(second, "k") is None
    with pytest.raises(NotHeld, match="released before"):
        do(hold.release())


def test_a_member_that_is_lost_before_there_is_a_hold(two, do, monkeypatch):
    first, second, one, other, combine = two
    lost, state_of = [], Combination.state

    def state(self, answer):
        answer.members[0]._state.notify()
        return state_of(self, answer)

    monkeypatch.setattr(Combination, "state", state)
    hold = do(combine(one.lock("k"), other.lock("k"), on_lost=lost.append).acquire())
    wait_for(lambda: lost, 20, "the callback")
    with pytest.raises(NotHeld):
        do(hold.release())
    assert lost == [hold] and info(second, "k") is None


def test_a_member_of_closed_locks(two, do):
    first, second, one, other, combine = two
    second.control.execute_command("LOCK.ACQUIRE", "k", "rival", "PX", 600000)
    do(other.close())
    began = time.monotonic()
    with pytest.raises(Closed):
        do(combine(one.lock("k"), other.lock("k")).acquire(wait=20))
    assert time.monotonic() - began < 5
    wait_free(first, "k")
