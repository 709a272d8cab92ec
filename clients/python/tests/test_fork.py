"""A process that forks: the child has connections and a thread of its own, and does not renew its parent's locks."""

import os
import subprocess
import sys

import pytest
from harness import scaled, wait_for
from harness.launch import TOP

from seen import calls, holds, wait_free

PROGRAM = """
import os
import redis
from lock_so import Locks

locks = Locks(redis.Redis(port={port}))
with locks.lock("before"):
    pass
hold = locks.lock("parent", lease={lease}).acquire()
if os.fork():
    os._exit(0)
hold = locks.lock("child", lease={lease}).acquire()
print("both", flush=True)
input()
hold.release()
print("released", flush=True)
"""


def test_what_the_child_renews(server):
    words = [sys.executable, "-B", "-c", PROGRAM.format(port=server.port, lease=scaled(3))]
    where = {**os.environ, "PYTHONPATH": str(TOP / "clients" / "python")}
    with subprocess.Popen(words, env=where, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "both\n"
        wait_free(server, "parent")
        assert list(holds(server, "child").values()) == [1]
        renewals = calls(server, "lock.renew")
        wait_for(lambda: calls(server, "lock.renew") > renewals, 20, "the child to renew its lock")
        assert process.communicate("\n", timeout=60) == ("released\n", None)
    wait_free(server, "child")


LEAVES = """
import os
import sys
import redis
from lock_so import Locks

locks = Locks(redis.Redis(port={port}))
with locks.lock("k") as hold:
    pid = os.fork()
    if pid == 0:
        {inside}
    os.waitpid(pid, 0)
    print(redis.Redis(port={port}).execute_command("LOCK.WATCH", "k", hold.owner), flush=True)
"""


FORGETS = """
import gc
import os
import time
import redis
from lock_so import Locks

locks = Locks(redis.Redis(port={port}))
hold = locks.lock("k").acquire()
pid = os.fork()
if pid == 0:
    owner = hold.owner
    del hold, locks
    gc.collect()
    time.sleep(1)
    os._exit(0)
os.waitpid(pid, 0)
print(redis.Redis(port={port}).execute_command("LOCK.WATCH", "k", hold.owner), flush=True)
hold.release()
"""

ASYNC = """
import asyncio
import os
import threading
import redis
import redis.asyncio
from lock_so.aio import Locks


async def main():
    locks = Locks(redis.asyncio.Redis(port={port}))
    async with locks.lock("k") as hold:
        async with locks.lock("l"):
            pass
        pid = os.fork()
        if pid == 0:
            thread = threading.Thread(target=lambda: asyncio.run(in_child(locks)))  # the loop is the parent's
            thread.start()
            thread.join()
            os._exit(0)
        await asyncio.to_thread(os.waitpid, pid, 0)
        print(redis.Redis(port={port}).execute_command("LOCK.WATCH", "k", hold.owner), flush=True)
    await locks.close()


async def in_child(locks):
    async with locks.lock("l", wait=9):
        pass
    await locks.close()


asyncio.run(main())
"""


@pytest.mark.parametrize("text", [FORGETS, ASYNC])
def test_a_child_has_connections_of_its_own(server, text):
    where = {**os.environ, "PYTHONPATH": str(TOP / "clients" / "python")}
    words = [sys.executable, "-B", "-c", text.format(port=server.port)]
    done = subprocess.run(words, env=where, capture_output=True, text=True, timeout=60)
    assert done.stdout == "None\n", done.stderr
    wait_free(server, "k")


@pytest.mark.parametrize("inside", ["hold.release()", "sys.exit(3)", "raise ValueError"])
def test_a_child_that_leaves_changes_nothing(server, inside):
    program = LEAVES.format(port=server.port, inside=inside)
    where = {**os.environ, "PYTHONPATH": str(TOP / "clients" / "python")}
    done = subprocess.run([sys.executable, "-B", "-c", program], env=where, capture_output=True, text=True, timeout=60)
    assert done.stdout == "None\n", done.stderr
    wait_free(server, "k")


CHANGES = """
import asyncio
import os
import threading
import time

import redis
import redis.asyncio
from lock_so.aio import Locks, RedLock, combine

clients = [redis.Redis(port=port) for port in {ports}]
locks = [Locks(redis.asyncio.Redis(port=port)) for port in {ports}]


def held():
    return sum(bool(client.execute_command("LOCK.INFO", "k")) for client in clients)


async def leave(hold):
    pass


async def fail(hold):
    raise ValueError("the body")


async def close():
    for each in locks:
        await each.close()


async def close_elsewhere(hold):
    thread = threading.Thread(target=lambda: asyncio.run(close()))  # the loop is the parent's
    thread.start()
    thread.join()


async def play():
    releases = [lambda hold: hold.release(), lambda hold: hold.renew(), lambda hold: hold.guard("SET", "k", "x")]
    for number, work in enumerate([leave, fail, close_elsewhere, *releases]):
        pid = None
        try:
            async with {lock} as hold:
                while held() < len(clients):
                    await asyncio.sleep(0.01)
                pid = os.fork()
                if pid == 0:
                    await work(hold)
                else:
                    os.waitpid(pid, 0)  # the loop, whose descriptors the child has, too, does not run meanwhile
                    print(number, held(), flush=True)
        except Exception as error:
            print(error, flush=True)
        if pid == 0:
            os._exit(0)
        while held():
            await asyncio.sleep(0.01)
    await close()


asyncio.run(play())
"""
FORKED = {
    "lock": ('locks[0].lock("k")', 'lock "k"', 1),
    "acquire": ('await locks[0].lock("k").acquire()', 'lock "k"', 1),
    "combine": ('combine(locks[0].lock("k"), locks[1].read("k"))', 'combined lock "k", "k"', 2),
    "redlock": ('RedLock(locks).lock("k")', 'RedLock "k"', 3),
}


@pytest.mark.parametrize("name", FORKED)
@pytest.mark.parametrize("is_asyncio", [False, True])
def test_what_a_child_does_changes_nothing(servers, is_asyncio, name):
    """Leaving the body without an error and with one, close(), release(), renew(), guard(). The parent releases it later."""
    lock, named, number = FORKED[name]
    text = CHANGES.format(lock=lock, ports=[servers.make().port for _ in range(number)])
    if not is_asyncio:
        text = text.replace("asyncio.run(", "(").replace("asyncio.sleep", "time.sleep")
        text = text.replace("async ", "").replace("await ", "").replace(".aio", "").replace(".asyncio", "")
    where = {**os.environ, "PYTHONPATH": str(TOP / "clients" / "python")}
    done = subprocess.run([sys.executable, "-B", "-c", text], env=where, capture_output=True, text=True, timeout=60)
    own = f"{named} is not held: it belongs to the parent process"
    texts = ["", "the body", "", own, own, own]
    lines = [line for n, text in enumerate(texts) for line in (text, f"{n} {number}") if line]
    assert done.stdout.splitlines() == lines, done.stderr
    assert not done.stderr
