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
