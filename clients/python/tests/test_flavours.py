"""What holds and Locks do in both flavours, at a real server: `do` awaits what a method of asyncio returns."""

import asyncio
import gc
import os
import signal
import threading
import time
import warnings

import pytest
import redis
import redis.asyncio
from harness import scaled, wait_for

import lock_so
from lock_so import Closed, Locks, ModuleMissing, NotHeld, Refused, aio
from seen import calls, holds, info, wait_free, wait_waiters


def collected(do, text="never released"):
    """Collects garbage, also of the loop."""
    with pytest.warns(ResourceWarning, match=text):
        gc.collect()


def test_a_session_is_kept_though_its_watch_is_refused(server, do, caplog):
    locks = do.locks(server)
    server.control.execute_command("LOCK.ACQUIRE", "other", "rival", "PX", 600000)
    with redis.Redis(port=server.port) as client:
        waiter = threading.Thread(target=client.execute_command, args=("LOCK.ACQUIRE", "other", "waiter", "BLOCK", 0))
        waiter.start()
        wait_waiters(server, "other", "waiter")
        hold = do(locks.lock("k", session=True, lease=2).acquire())
        wait_for(lambda: calls(server, "lock.watch") > 0, 20, "the hold to be watched")
        server.control.config_set("lock.max-waiters", 1)
        until = time.monotonic() + 4
        while time.monotonic() < until:
            assert list(holds(server, "k")) == [hold.owner] and not hold.is_lost
            time.sleep(0.05)
        assert len([text for text in caplog.messages if "cannot be watched" in text]) == 1, caplog.messages
        do(hold.release())
        server.control.execute_command("LOCK.RELEASE", "other", "rival")
        waiter.join(60)
    do(locks.close())


class Leader:
    """It has the hold, and a method of it is the callback."""

    def __init__(self, do, locks, **options):
        self.hold = do(locks.lock("k", on_lost=self.stop, **options).acquire())

    def stop(self, hold):
        pass


@pytest.mark.parametrize("options", [{}, {"session": True}])
def test_a_callback_does_not_keep_its_hold(server, do, options):
    locks = do.locks(server)
    leader = Leader(do, locks, lease=600, **options)
    wait_for(lambda: calls(server, "lock.watch") > 0, 20, "the hold to be watched")
    del leader
    collected(do)
    wait_free(server, "k")
    do(locks.close())


@pytest.mark.parametrize("options", [{}, {"session": True}])
def test_a_cycle_of_a_hold_and_its_locks(server, do, options, caplog):
    locks = do.locks(server)
    hold = do(locks.lock("k", lease=600, **options).acquire())
    cycle = [locks, hold]
    cycle.append(cycle)
    del locks, hold, cycle
    collected(do)
    wait_free(server, "k")
    assert not caplog.messages


def test_a_second_close_does_nothing(server, do):
    locks = do.locks(server)
    hold = do(locks.lock("k").acquire())
    os.kill(server.pid, signal.SIGSTOP)
    try:
        for limit, longest in ((0.5, 1.0), (5.0, 0.2)):
            began = time.monotonic()
            do(locks.close(timeout=limit))
            assert time.monotonic() - began < longest and not hold.is_lost
    finally:
        os.kill(server.pid, signal.SIGCONT)


@pytest.mark.parametrize("wrong", [-1, float("inf")])
def test_the_time_to_close_is_checked(server, do, wrong):
    locks = do.locks(server)
    hold = do(locks.lock("k").acquire())
    with pytest.raises(ValueError, match="timeout must"):
        do(locks.close(timeout=wrong))
    assert list(holds(server, "k")) == [hold.owner]
    do(locks.close())
    assert info(server, "k") is None


def test_close_ends_waits_at_a_silent_server(server, do):
    locks, ended = do.locks(server), []
    server.control.execute_command("LOCK.ACQUIRE", "k", "rival", "PX", 600000)

    def wait():
        with pytest.raises(Closed):
            do(locks.lock("k").acquire())
        ended.append(time.monotonic())

    thread = threading.Thread(target=wait)
    thread.start()
    wait_for(lambda: info(server, "k")["waiters"], 20, "the wait")
    os.kill(server.pid, signal.SIGSTOP)
    began = time.monotonic()
    do(locks.close(timeout=0.5))
    thread.join(60)
    os.kill(server.pid, signal.SIGCONT)
    assert ended[0] - began < 1.0
    server.control.execute_command("LOCK.RELEASE", "k", "rival")


def test_a_plain_client_on_a_node_of_a_cluster(servers, do):
    node, other = (servers.make(cluster_enabled="yes", cluster_require_full_coverage="no") for _ in range(2))
    node.control.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 8000)
    other.control.execute_command("CLUSTER", "ADDSLOTSRANGE", 8001, 16383)
    node.control.execute_command(
        "CLUSTER", "MEET", "127.0.0.1", other.port, other.control.config_get("cluster-port")["cluster-port"]
    )
    wait_for(lambda: len(node.control.execute_command("CLUSTER", "SLOTS")) == 2, 60, "the nodes to know each other")
    locks = do.locks(node)
    with pytest.raises(Refused, match="RedisCluster") as found:
        do(locks.lock("k1").acquire(wait=5))  # its slot is 12706
    assert found.value.code == "MOVED"
    do(locks.close())


def test_max_block_limits_a_sessions_watch(server, do):
    locks = do.locks(server, max_block=0.3)
    hold = do(locks.lock("k", session=True, lease=600).acquire())
    wait_for(lambda: calls(server, "lock.watch") > 2, 20, "the hold to be watched again")
    do(hold.release())
    do(locks.close())


def test_many_releases_at_the_same_time(server, do, caplog):
    """They use some connections only, and each has its turn."""
    locks = do.locks(server)
    held = [do(locks.semaphore("k", 1000).acquire()) for _ in range(200)]
    threads = [threading.Thread(target=lambda hold=hold: do(hold.release())) for hold in held]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert info(server, "k") is None and not caplog.messages
    do(locks.close())


def in_another_loop(work):
    """Runs it in a loop of another thread. Returns its error."""
    errors = []

    def run():
        try:
            asyncio.run(work)
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    return errors


def test_two_loops_at_the_same_time(server):
    async def play():
        locks = aio.Locks(redis.asyncio.Redis(port=server.port))
        hold = await locks.lock("k").acquire()
        for work in (locks.lock("l").acquire(), hold.release(), locks.close()):
            errors = await asyncio.get_running_loop().run_in_executor(None, in_another_loop, work)
            assert [str(error) for error in errors] == ["these Locks are used in another event loop"]
        await hold.release()
        assert info(server, "k") is None
        again = await locks.lock("k").acquire()
        assert list(holds(server, "k")) == [again.owner]
        await locks.close()
        assert info(server, "k") is None

    asyncio.run(play())


def test_a_release_in_a_second_loop(server):
    locks = aio.Locks(redis.asyncio.Redis(port=server.port))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of redis-py, about connections that were not closed
        hold = asyncio.run(locks.lock("k").acquire())
        asyncio.run(hold.release())
        assert info(server, "k") is None
        asyncio.run(locks.close())
        del hold, locks
        gc.collect()


@pytest.mark.parametrize("swallows", [False, True])
def test_cancel_on_loss_leaves_no_cancellation(server, swallows):
    async def body(locks):
        async with locks.lock("k", cancel_on_loss=True) as hold:
            server.control.execute_command("LOCK.FORCE", "k")
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if not swallows:
                    raise ValueError("the clean-up failed") from None
        return hold

    async def play():
        locks = aio.Locks(redis.asyncio.Redis(port=server.port))
        with pytest.raises(NotHeld if swallows else ValueError):
            await body(locks)
        task = asyncio.current_task()
        assert not hasattr(task, "cancelling") or task.cancelling() == 0
        await locks.close()

    asyncio.run(play())


def test_no_task_of_a_released_hold_is_left(server):
    async def play():
        locks = aio.Locks(redis.asyncio.Redis(port=server.port))
        hold = await locks.lock("k", lease=3).acquire()
        while not calls(server, "lock.renew"):
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.1)  # it waits for the next renewal
        await hold.release()
        await asyncio.sleep(0.1)
        assert not locks._shared.tasks
        await locks.close()

    asyncio.run(play())


def test_a_loss_whose_thread_cannot_be_started_is_reported(server, monkeypatch):
    locks, lost = Locks(redis.Redis(port=server.port)), threading.Event()
    hold = locks.lock("k", on_lost=lambda _: lost.set()).acquire()

    def failing(_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", failing)
        server.control.execute_command("LOCK.FORCE", "k")
        assert lost.wait(20)
    assert hold.is_lost
    locks.close()


def test_renewals_that_wait_for_replicas_delay_no_others(servers):
    """They have threads of their own."""
    master = servers.make()
    replica = servers.make(replicaof=f"127.0.0.1 {master.port}")
    wait_for(lambda: master.control.info("replication").get("slave0", {}).get("state") == "online", 60, "the replica")
    locks = Locks(redis.Redis(port=master.port))
    slow = [locks.lock(f"r{n}", lease=scaled(6), replicas=(1, 5)).acquire() for n in range(20)]
    with locks.lock("k", lease=scaled(2)) as hold:
        os.kill(replica.pid, signal.SIGSTOP)
        try:
            until = time.monotonic() + scaled(6)
            while time.monotonic() < until:
                assert not hold.is_lost
                time.sleep(0.02)
        finally:
            os.kill(replica.pid, signal.SIGCONT)
    for each in slow:
        try:
            each.release()
        except NotHeld:
            pass
    locks.close()


# How the text of an error begins, and what the program does with Locks and a hold.
NAMED = {
    "acquire": ('write lock "k"', lambda locks, hold: locks.write("k").acquire(wait=5)),
    "try": ('fair lock "k"', lambda locks, hold: locks.fair("k").acquire(wait=0)),
    "multi": ('multi-key lock "k", "l"', lambda locks, hold: locks.multi("k", b"l").acquire()),
    "info": ('semaphore "k"', lambda locks, hold: locks.semaphore("k", 3).info()),
    "locked": ('read lock "k"', lambda locks, hold: locks.read("k").locked()),
    "force": ('lock "k"', lambda locks, hold: locks.lock("k").force()),
    "latch": ('latch "k"', lambda locks, hold: locks.latch("k").set(1)),
    "wait": ('latch "k"', lambda locks, hold: locks.latch("k").wait()),
    "push": ('delayed queue "k"', lambda locks, hold: locks.delayed_queue("k").push("v", 1)),
    "list": ('delayed queue "k"', lambda locks, hold: locks.delayed_queue(b"k").list()),
    "consume": ('delayed queue "k"', lambda locks, hold: locks.delayed_queue("k").consume(print)),
    "renew": ('lock "held"', lambda locks, hold: hold.renew()),
    "guard": ('lock "held"', lambda locks, hold: hold.guard("GET", "k")),
}


def failed(kind, do, name, *words):
    """The text of the error of this kind, after the lock's name."""
    named, work = NAMED[name]
    with pytest.raises(kind) as found:
        do(work(*words))
    assert type(found.value) is kind and str(found.value).startswith(f"{named}: "), found.value
    return str(found.value)[len(named) + 2 :]


@pytest.mark.parametrize("name", NAMED)
def test_closed_locks_are_named(server, do, name):
    locks = do.locks(server)
    hold = do(locks.lock("held").acquire())
    do(locks.close())
    assert failed(Closed, do, name, locks, hold) == "these Locks are closed"


@pytest.mark.parametrize("name", NAMED)
def test_a_refusal_is_named(server, do, name):
    locks = do.locks(server)
    hold = do(locks.lock("held").acquire())
    server.control.execute_command("ACL", "SETUSER", "default", "-@all", "+@connection", "+acl")
    assert failed(Refused, do, name, locks, hold).startswith("NOPERM ")
    server.control.execute_command("ACL", "SETUSER", "default", "+@all")
    do(hold.release())
    do(locks.close())


@pytest.mark.parametrize("name", [name for name in NAMED if name not in ("consume", "renew", "guard")])
def test_a_missing_module_is_named(servers, do, name):
    server = servers.make(load_module=False)
    locks = do.locks(server)
    assert failed(ModuleMissing, do, name, locks, None) == f"unknown command: is lock.so loaded on localhost:{server.port}?"
    do(locks.close())


def test_a_redlock_names_itself(servers, do):
    bare = [servers.make(load_module=False) for _ in range(3)]
    locks = [do.locks(server) for server in bare]
    lock = (aio if do.is_asyncio else lock_so).RedLock(locks).lock("k")
    for work in (lambda: lock.acquire(wait=5), lock.locked, lock.info, lock.force):
        with pytest.raises(ModuleMissing, match=r'^RedLock "k": unknown command: is lock.so loaded on localhost:\d+\?$'):
            do(work())
    for each in locks:
        do(each.close())
    for work in (lambda: lock.acquire(wait=5), lock.info):
        with pytest.raises(Closed, match='^RedLock "k": these Locks are closed$'):
            do(work())


def test_an_error_in_a_callback_is_logged_with_its_traceback(server, do, caplog):
    def lost(_):
        raise ValueError("of the callback")

    locks = do.locks(server)
    hold = do(locks.lock("k", on_lost=lost).acquire())
    wait_for(lambda: calls(server, "lock.watch") > 0, 20, "the hold to be watched")
    server.control.execute_command("LOCK.FORCE", "k")
    wait_for(lambda: "ValueError: of the callback" in caplog.text, 20, "the log")
    assert 'lock "k": error in the callback for its loss' in caplog.messages
    assert "Traceback (most recent call last)" in caplog.text and "in lost\n" in caplog.text
    with pytest.raises(NotHeld):
        do(hold.release())
    do(locks.close())


def test_an_outage_is_named_and_not_the_time(server, do):
    locks = do.locks(server)
    assert not do(locks.lock("k").locked())
    server.kill()
    with pytest.raises(redis.ConnectionError, match=f"Error .*{server.port}"):
        do(locks.lock("k").locked())
    do(locks.close())
