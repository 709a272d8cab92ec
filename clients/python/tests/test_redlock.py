"""RedLock, in both flavours, on three servers."""

import asyncio
import gc
import os
import signal
import threading
import time
from types import SimpleNamespace

import pytest
import redis
import redis.asyncio
from harness import scaled, wait_for

import lock_so
from lock_so import Closed, Locks, NotAcquired, NotHeld, Refused, aio
from lock_so._redlock import MajorityState
from lock_so._spec import Spec
from seen import calls, holds, info, wait_free


class Three:
    def __init__(self, servers, do, **settings):
        self._do = do
        self.servers = [servers.make() for _ in range(3)]
        self.locks = [do.locks(server, **settings) for server in self.servers]
        self.redlock = (aio if do.is_asyncio else lock_so).RedLock(self.locks)

    def take(self, *numbers):
        """Another client acquires it on these servers."""
        for number in numbers:
            self.servers[number].control.execute_command("LOCK.ACQUIRE", "k", "rival", "PX", 600000)

    def owners(self):
        return [list(holds(server, "k")) for server in self.servers]

    def wait_owners(self, *owners):
        wait_for(lambda: self.owners() == [[owner] for owner in owners], 20, f"{owners} to hold it")

    def close(self):
        for locks in self.locks:
            self._do(locks.close())


@pytest.fixture
def three(servers, do):
    found = Three(servers, do)
    yield found
    found.close()


def tried(do, lock):
    """A try. On a busy machine a majority may not reply within its 0.1 s."""
    while True:
        try:
            return do(lock.acquire(wait=0))
        except redis.exceptions.TimeoutError:
            time.sleep(0.1)


def test_a_majority(three, do):
    lock = three.redlock.lock("k")
    hold = tried(do, lock)
    three.wait_owners(*[hold.owner] * 3)
    assert hold.token > 0 and not hold.is_lost and do(lock.locked())
    with pytest.raises(NotAcquired, match='^RedLock "k" was not acquired'):
        tried(do, lock)
    with pytest.raises(NotAcquired, match=f'^RedLock "k" was not acquired within 1 s: held by {hold.owner} .this process.$'):
        do(lock.acquire(wait=1))
    do(hold.release())
    assert three.owners() == [[]] * 3
    three.take(0)
    second = tried(do, lock)
    assert second.token > hold.token and second.owner != hold.owner
    do(second.release())
    assert three.owners() == [["rival"], [], []]
    with pytest.raises(NotHeld, match="released before"):
        do(second.release())


def test_no_majority(three, do):
    three.take(1, 2)
    lock, began = three.redlock.lock("k"), time.monotonic()
    with pytest.raises(NotAcquired, match="within 0.5 s"):
        do(lock.acquire(wait=0.5))
    assert 0.5 <= time.monotonic() - began < 0.62
    wait_free(three.servers[0], "k")
    found = []
    thread = threading.Thread(target=lambda: found.append(do(lock.acquire(wait=30))))
    thread.start()
    wait_for(lambda: calls(three.servers[0], "lock.release") > 1, 20, "some rounds")
    three.servers[1].control.execute_command("LOCK.RELEASE", "k", "rival")
    thread.join(60)
    assert found[0].token
    do(found[0].release())
    assert three.owners() == [[], [], ["rival"]]


def test_one_server_may_fail(servers, do):
    three = Three(servers, do)
    three.servers[0].kill()
    hold = do(three.redlock.lock("k", lease=scaled(2)).acquire(wait=5))
    until = time.monotonic() + scaled(3)
    while time.monotonic() < until:
        assert not hold.is_lost
        time.sleep(0.05)
    do(hold.release())
    assert three.servers[1].control.keys("k") == []
    three.close()


def test_a_majority_without_the_lock_names_the_holders(servers, do):
    """Also if the first result of each round is that a server cannot be reached."""
    three = Three(servers, do)
    three.servers[0].kill()
    three.take(1, 2)
    lock, unreached = three.redlock.lock("k"), 0
    for _ in range(20):
        try:
            do(lock.acquire(wait=0))
        except NotAcquired:
            pass
        except redis.RedisError:  # on a busy machine a majority may not reply within 0.1 s
            unreached += 1
    assert unreached < 5
    with pytest.raises(NotAcquired, match="held by rival$") as found:
        do(lock.acquire(wait=1))
    assert found.value.holders == ["rival"] and found.value.__cause__ is None
    three.close()


def test_two_servers_that_fail(servers, do):
    three = Three(servers, do, connect_timeout=0.5)
    for number in (0, 1):
        three.servers[number].kill()
    lock, began = three.redlock.lock("k"), time.monotonic()
    with pytest.raises(redis.ConnectionError):
        do(lock.acquire(wait=20))
    assert 0.5 <= time.monotonic() - began < 5
    with pytest.raises(NotAcquired) as found:
        do(lock.acquire(wait=0.2))
    assert isinstance(found.value.__cause__, redis.ConnectionError)
    with pytest.raises(redis.ConnectionError):
        do(lock.acquire(wait=0))
    wait_free(three.servers[2], "k")
    three.close()


def test_a_minority_that_is_away(three, do):
    lock = three.redlock.lock("k")
    hold = do(lock.acquire())
    three.wait_owners(*[hold.owner] * 3)
    three.servers[0].kill()
    assert do(lock.locked()) and [one.owner for one in do(lock.info()).holders] == [hold.owner] * 2
    assert do(lock.force())
    assert list(holds(three.servers[1], "k")) == list(holds(three.servers[2], "k")) == []
    with pytest.raises(NotHeld):
        do(hold.release())
    three.servers[1].kill()
    with pytest.raises((redis.ConnectionError, redis.TimeoutError)):
        do(lock.force())


def test_silent_servers_are_requested_at_the_same_time(three, do):
    lock = three.redlock.lock("k")
    do(do(lock.acquire(wait=20)).release())
    for server in three.servers[:2]:
        os.kill(server.pid, signal.SIGSTOP)
    try:
        for work in (lock.locked, lock.info, lock.force):
            began = time.monotonic()
            with pytest.raises(redis.TimeoutError):
                do(work())
            assert time.monotonic() - began < 3
    finally:
        for server in three.servers[:2]:
            os.kill(server.pid, signal.SIGCONT)


def test_a_silent_server(three, do):
    do(do(three.redlock.lock("other").acquire()).release())
    os.kill(three.servers[0].pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        hold = do(three.redlock.lock("k").acquire(wait=5))
        assert time.monotonic() - began < 2
        do(hold.release())
    finally:
        os.kill(three.servers[0].pid, signal.SIGCONT)
    wait_for(lambda: three.owners() == [[]] * 3, 20, "nothing to be left")


def test_a_silent_server_costs_a_limited_number_of_connections(three, do):
    do(do(three.redlock.lock("other").acquire()).release())
    server = three.locks[0]._shared.pool.server(None)
    os.kill(three.servers[0].pid, signal.SIGSTOP)
    try:
        end, most = time.monotonic() + 3, 0
        while time.monotonic() < end:
            do(do(three.redlock.lock("k", lease=1).acquire(wait=20)).release())
            most = max(most, len(server.opening))
    finally:
        os.kill(three.servers[0].pid, signal.SIGCONT)
    assert 8 < most <= 40, most
    wait_for(lambda: three.owners() == [[]] * 3 and not server.opening, 20, "nothing to be left")


@pytest.mark.parametrize("is_held", [False, True])
def test_a_server_that_was_stopped_for_longer_than_a_lease(three, do, is_held):
    """It reads the request when it continues."""
    do(do(three.redlock.lock("other").acquire()).release())
    # A majority is enough for that, and a new connection to a stopped server would not be opened.
    first = three.locks[0]._shared.pool.server(None)
    wait_for(lambda: first.idle and not first.short and not first.opening, 20, "the connection to be idle")
    lease, requests = scaled(2), calls(three.servers[0], "lock.acquire")
    os.kill(three.servers[0].pid, signal.SIGSTOP)
    try:
        hold = do(three.redlock.lock("k", lease=lease).acquire(wait=5))
        time.sleep(lease * (1.3 if is_held else 0.1))
        do(hold.release())
        time.sleep(lease * (0 if is_held else 1.3))
    finally:
        os.kill(three.servers[0].pid, signal.SIGCONT)
    wait_for(lambda: calls(three.servers[0], "lock.acquire") > requests, 20, "the request to be executed")
    wait_for(lambda: three.owners() == [[]] * 3, 0.5, "nothing to be left")


@pytest.mark.parametrize("is_held", [False, True])
def test_an_outage_of_a_server_is_logged_once(three, do, is_held, caplog):
    name = f"localhost:{three.servers[0].port}"
    lock = three.redlock.lock("k", lease=scaled(3))

    def worked(seconds):
        until = time.monotonic() + seconds
        hold = do(lock.acquire(wait=20)) if is_held else None
        while time.monotonic() < until:
            time.sleep(0.05) if is_held else do(do(lock.acquire(wait=20)).release())
        if hold:
            do(hold.release())

    def logged():
        return [message for message in caplog.messages if name in message]

    worked(scaled(0.5))
    while len(logged()) % 2:
        worked(0.1)  # the machine was busy, which is an outage, too
    before = len(logged())
    os.kill(three.servers[0].pid, signal.SIGSTOP)
    try:
        worked(scaled(2.5))
        assert len(logged()) == before + 1 and f'RedLock "k": no reply from {name} (' in logged()[before]
    finally:
        os.kill(three.servers[0].pid, signal.SIGCONT)
    worked(scaled(1))
    assert logged()[before + 1 :][:1] == [f'RedLock "k": {name} replies again']


def test_a_server_that_has_lost_it_grants_it_again(three, do):
    hold = do(three.redlock.lock("k", lease=scaled(1)).acquire())
    for number in (0, 1, 2, 0, 1):
        three.wait_owners(*[hold.owner] * 3)
        three.servers[number].control.execute_command("LOCK.FORCE", "k")
        renewed = calls(three.servers[(number + 1) % 3], "lock.renew")
        wait_for(lambda: calls(three.servers[(number + 1) % 3], "lock.renew") >= renewed + 3, 20, "renewals")  # noqa: B023
        assert not hold.is_lost
    do(hold.release())
    assert three.owners() == [[]] * 3


def test_a_loss(three, do):
    lost = threading.Event()
    hold = do(three.redlock.lock("k", lease=scaled(1), on_lost=lambda _: lost.set()).acquire())
    three.wait_owners(*[hold.owner] * 3)
    for number in (0, 2):
        three.servers[number].control.execute_command("LOCK.FORCE", "k")
    three.take(0, 2)
    assert lost.wait(20) and hold.is_lost
    with pytest.raises(NotHeld):
        do(hold.release())
    wait_free(three.servers[1], "k")


def test_a_loss_by_the_clock(three, do):
    lost = threading.Event()
    hold = do(three.redlock.lock("k", lease=scaled(1), on_lost=lambda _: lost.set()).acquire())
    for server in three.servers[:2]:
        os.kill(server.pid, signal.SIGSTOP)
    try:
        assert lost.wait(scaled(1.6)) and hold.is_lost
    finally:
        for server in three.servers[:2]:
            os.kill(server.pid, signal.SIGCONT)
    with pytest.raises(NotHeld):
        do(hold.release())
    wait_for(lambda: three.owners() == [[]] * 3, 20, "nothing to be left")


def test_renew(three, do):
    hold = do(three.redlock.lock("k", lease=600).acquire())
    three.wait_owners(*[hold.owner] * 3)
    do(hold.renew(5))
    assert sorted(info(server, "k")["holders"][0]["pttl"] <= 5000 for server in three.servers)[1:] == [True, True]
    with pytest.raises(ValueError, match="lease"):
        do(hold.renew(0))
    with pytest.raises(ValueError, match="guard"):
        do(hold.guard("PING"))
    do(hold.release())


def test_a_majority_that_refuses(three, do):
    for server in three.servers[:2]:
        server.control.set("k", "text")
    with pytest.raises(Refused) as found:
        do(three.redlock.lock("k").acquire(wait=20))
    assert found.value.code == "WRONGTYPE"
    wait_free(three.servers[2], "k")


def test_close(three, do):
    hold = do(three.redlock.lock("k", lease=scaled(1)).acquire())
    three.wait_owners(*[hold.owner] * 3)
    do(three.locks[1].close())
    assert three.owners() == [[hold.owner], [], [hold.owner]] and not hold.is_lost
    do(three.locks[2].close())
    wait_for(lambda: hold.is_lost, 20, "the loss")
    three.close()
    wait_for(lambda: three.owners() == [[]] * 3, 20, "nothing to be left")
    with pytest.raises(Closed):
        do(three.redlock.lock("k").acquire())


def test_a_forgotten_hold(three, do):
    hold = do(three.redlock.lock("k").acquire())
    three.wait_owners(*[hold.owner] * 3)
    with pytest.warns(ResourceWarning, match="never released"):
        del hold
        gc.collect()
    wait_for(lambda: three.owners() == [[]] * 3, 20, "nothing to be left")


def test_servers_that_are_not_independent(servers, do):
    master = servers.make()
    replica = servers.make(replicaof=f"127.0.0.1 {master.port}")
    factory = (aio if do.is_asyncio else lock_so).RedLock
    locks = [do.locks(server) for server in (master, replica, servers.make(), master)]
    with pytest.raises(ValueError, match=f"localhost:{replica.port} is a (slave|replica)"):
        do(factory(locks[:3]).lock("k").acquire())
    with pytest.raises(ValueError, match=f"localhost:{master.port} and localhost:{master.port} are the same server"):
        do(factory([locks[0], locks[2], locks[3]]).lock("k").acquire())
    assert info(master, "k") is None
    for wrong in (locks[:2], [locks[0]] * 3):
        with pytest.raises(ValueError):
            factory(wrong)
    with pytest.raises(TypeError):
        factory([locks[0], locks[1], 7])
    with pytest.raises(ValueError):
        (aio if do.is_asyncio else lock_so).combine(factory(locks[:3]).lock("k"))
    for each in locks:
        do(each.close())


def test_a_loss_cancels_the_body(servers):
    made = [servers.make() for _ in range(3)]

    async def play():
        locks = [aio.Locks(redis.asyncio.Redis(port=server.port)) for server in made]
        with pytest.raises(NotHeld):
            async with aio.RedLock(locks).lock("k", lease=scaled(1), cancel_on_loss=True):
                for server in made:
                    server.control.execute_command("LOCK.FORCE", "k")
                    server.control.execute_command("LOCK.ACQUIRE", "k", "rival", "PX", 600000)
                await asyncio.sleep(60)
        for each in locks:
            await each.close()

    asyncio.run(play())


@pytest.mark.parametrize("kind", ["cancelled", "closed"])
def test_a_wait_that_ends(servers, kind):
    made = [servers.make() for _ in range(3)]
    for server in made[:2]:
        server.control.execute_command("LOCK.ACQUIRE", "k", "rival", "PX", 600000)
    locks, cancellation, errors = [Locks(redis.Redis(port=server.port)) for server in made], lock_so.Cancellation(), []

    def wait():
        try:
            lock_so.RedLock(locks).lock("k").acquire(cancel=cancellation)
        except lock_so.LockError as error:
            errors.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    wait_for(lambda: calls(made[2], "lock.release"), 20, "a round")
    cancellation.cancel() if kind == "cancelled" else locks[0].close()
    thread.join(60)
    assert isinstance(errors[0], lock_so.Cancelled if kind == "cancelled" else Closed)
    wait_free(made[2], "k")
    for each in locks:
        each.close()


def test_an_even_number_of_servers(servers, do):
    made = [servers.make() for _ in range(4)]
    locks = [do.locks(server, connect_timeout=scaled(0.3)) for server in made]
    lock = (aio if do.is_asyncio else lock_so).RedLock(locks).lock("k")
    for server in made[:2]:
        server.control.execute_command("LOCK.ACQUIRE", "k", "rival", "PX", 600000)
    for acquire in (lambda: tried(do, lock), lambda: do(lock.acquire(wait=scaled(1)))):
        with pytest.raises(NotAcquired) as found:
            acquire()
        assert found.value.__cause__ is None
    for each in locks:
        do(each.close())


def test_a_silent_server_before_the_first_acquisition(three, do):
    os.kill(three.servers[0].pid, signal.SIGSTOP)
    try:
        do(do(three.redlock.lock("k", lease=60).acquire(wait=0.6)).release())
    finally:
        os.kill(three.servers[0].pid, signal.SIGCONT)
    wait_for(lambda: three.owners() == [[]] * 3, 20, "nothing to be left")


def test_a_late_grant_gets_the_lease_of_a_renewal(three, do):
    do(do(three.redlock.lock("other").acquire()).release())
    os.kill(three.servers[0].pid, signal.SIGSTOP)
    try:
        hold = do(three.redlock.lock("k", lease=30).acquire(wait=5))
        do(hold.renew(600))
    finally:
        os.kill(three.servers[0].pid, signal.SIGCONT)
    three.wait_owners(*[hold.owner] * 3)
    wait_for(lambda: info(three.servers[0], "k")["holders"][0]["pttl"] > 60000, 20, "the longer lease")
    do(hold.release())
    wait_for(lambda: three.owners() == [[]] * 3, 20, "nothing to be left")


def test_renewals_at_the_same_time(three, do):
    hold, errors = do(three.redlock.lock("k", lease=600).acquire()), []
    three.wait_owners(*[hold.owner] * 3)

    def renew():
        try:
            for _ in range(30):
                do(hold.renew())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=renew) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    do(hold.release())


def test_a_hold_keeps_the_locks_of_all_servers(servers, do):
    made, factory = [servers.make() for _ in range(3)], (aio if do.is_asyncio else lock_so).RedLock
    hold = do(factory([do.locks(server) for server in made]).lock("k", lease=scaled(1)).acquire())
    gc.collect()
    renewed = calls(made[1], "lock.renew")
    wait_for(lambda: calls(made[1], "lock.renew") >= renewed + 3, 20, "renewals")
    assert not hold.is_lost and [list(holds(server, "k")) for server in made] == [[hold.owner]] * 3
    do(hold.release())
    for locks in hold._all_locks:
        do(locks.close())


def test_a_forgotten_hold_that_was_lost(three, do):
    lost = threading.Event()
    hold = do(three.redlock.lock("k", lease=600, on_lost=lambda _: lost.set()).acquire())
    three.wait_owners(*[hold.owner] * 3)
    for number in (0, 2):
        three.servers[number].control.execute_command("LOCK.FORCE", "k")
    three.take(0, 2)
    with pytest.raises(NotHeld):
        do(hold.renew())
    assert lost.wait(20) and list(holds(three.servers[1], "k")) == [hold.owner]
    del hold
    gc.collect()
    wait_free(three.servers[1], "k")
    wait_for(lambda: not any(locks._shared.holds for locks in three.locks), 20, "nothing to be kept")


def test_a_server_whose_locks_were_closed_is_not_requested_again():
    shared = SimpleNamespace(pool=None, holds={}, is_closed=False)
    servers = SimpleNamespace(shared=[shared] * 3, majority=2, identified=lambda *_: iter(()))
    part = MajorityState(Spec("redlock", ("k",), 10, fenced=True), servers).parts[0]
    part.is_granted = True
    steps = part.renewed_once(float("inf"), 10)
    assert next(steps).words[0] == "LOCK.RENEW"
    part.is_ending = True  # its Locks were closed, and have released it
    with pytest.raises(StopIteration):
        steps.throw(redis.ResponseError("NOTHELD it was released"))
