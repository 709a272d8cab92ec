"""The module checks whether the server would accept a write before it grants outside a command.

From Redis 7.2 and Valkey 8 on these checks are invisible. On 7.0 they are a command that changes nothing.
"""

import pytest

from harness import scaled_ms, wait_for
from model.server_scene import module_sends_no_commands

LONG = 600_000
LEASE = scaled_ms(100)
CHECK = "PEXPIREAT"


SENT_HERE = {"DEL", "PEXPIRE", "SET", "FLUSHALL", "INFO", "MONITOR", "ECHO", "CONFIG|RESETSTAT", "CLIENT|ID"}


class Watcher:
    """Receives by MONITOR what the server runs, in order."""

    def __init__(self, server):
        self.server, self.actor = server, server.actor("watcher")
        assert self.actor.call("MONITOR") == "OK"

    def received(self):
        """The commands that no client has sent, as lists of words."""
        self.server.control.echo("end of the test")
        lines = iter(self.actor.reply, None)
        found = []
        for line in lines:
            source, _, command = line.partition("] ")
            if "end of the test" in command:
                return found
            # A call of a module has no address.
            if "127.0.0.1:" not in source:
                found.append([word.strip('"') for word in command.split(" ")])


CAUSES = {
    "lease end": lambda run: run("PEXPIRE", "k", LEASE),
    "DEL": lambda run: run("DEL", "k"),
    "flush": lambda run: run("FLUSHALL"),
    "other type, then DEL": lambda run: run("SET", "k", "v") and run("DEL", "k"),
    "key of another type": lambda run: run("SET", "k", "v", "PX", LEASE),
}


def counters(server):
    """How often each command has been called, and how often it failed or was refused."""
    stats = server.info("commandstats")
    return {
        name.removeprefix("cmdstat_").upper(): (one["calls"], one["failed_calls"], one["rejected_calls"])
        for name, one in stats.items()
    }


def errors(server):
    return server.info("errorstats")


@pytest.mark.parametrize("cause", CAUSES.values(), ids=CAUSES)
def test_grants_outside_commands_leave_no_trace(server, actor, cause):
    a, b, c = actor("a"), actor("b"), actor("c")
    assert a.call("LOCK.ACQUIRE", "k", "oa", "PX", LONG) == 1
    b.send("LOCK.ACQUIRE", "k", "ob", "PX", LONG, "BLOCK", 0)
    b.wait_blocked()
    c.send("LOCK.FAIR", "k", "oc", "PX", LONG, "BLOCK", 0)
    c.wait_blocked()
    server.control.execute_command("CONFIG", "RESETSTAT")
    watcher, before = Watcher(server), errors(server)
    cause(a.call)
    assert b.reply(timeout=10) == 1
    assert a.call("DEL", "k") == 1
    assert c.reply() == 1
    checks = watcher.received()
    expected = [] if module_sends_no_commands(server) else [[CHECK, "k", "1", "GT"]]
    assert [words for words in checks if words not in expected] == []
    assert bool(checks) == bool(expected)
    assert errors(server) == before
    assert all(one[1:] == (0, 0) for one in counters(server).values()), counters(server)
    # Only the commands of this test.
    # Some servers count a wait when it ends.
    assert set(counters(server)) - SENT_HERE - {"LOCK.ACQUIRE", "LOCK.FAIR"} == {words[0] for words in expected}


def test_check_changes_no_key(server, actor):
    """Keys of every type, with and without an expiry."""
    values = {"SET": ("v",), "RPUSH": ("v",), "SADD": ("v",), "ZADD": (1, "v"), "HSET": ("f", "v"), "XADD": ("1-1", "f", "v")}
    run = server.control.execute_command
    waiters = []
    for number, (command, words) in enumerate(values.items()):
        for name, expires in (f"k{number}", False), (f"x{number}", True):
            assert run("LOCK.ACQUIRE", name, "o", "PX", LONG) == 1
            waiter = actor()
            waiter.send("LOCK.ACQUIRE", name, "w", "BLOCK", 0)
            waiters.append((name, waiter.wait_blocked()))
            pipeline = server.control.pipeline(transaction=True)
            for one in (("DEL", name), (command, name, *words), ("PEXPIRE", name, LONG if expires else 2 * LONG)):
                pipeline.execute_command(*one)
            if not expires:
                pipeline.persist(name)
            pipeline.execute()
    before = server.dump()
    # The transactions have made each lock due; one more lock that is granted shows that the drain has run.
    run("LOCK.ACQUIRE", "last", "o", "PX", LONG)
    last = actor()
    last.send("LOCK.ACQUIRE", "last", "w", "PX", LONG, "BLOCK", 0)
    last.wait_blocked()
    run("DEL", "last")
    assert last.reply() == 1
    run("DEL", "last")
    wait_for(lambda: server.info("lock")["lock_waiters"] == len(waiters), what="all to be waiting")
    assert server.dump() == before
    for name, waiter in waiters:
        assert not waiter.has_reply()
        run("DEL", name)
        assert waiter.reply() == 1
