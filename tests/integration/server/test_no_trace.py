"""The module asks the server whether it would take a write before it grants outside a command.

From Redis 7.2 and Valkey 8 on nobody sees these questions. On 7.0 they are a command that changes nothing.
"""

import pytest

from harness import scaled_ms, wait_for
from model.server_scene import says_nothing_of_its_own

LONG = 600_000
LEASE = scaled_ms(100)
QUESTION = "PEXPIREAT"


SAID_HERE = {"DEL", "PEXPIRE", "SET", "FLUSHALL", "INFO", "MONITOR", "ECHO", "CONFIG|RESETSTAT", "CLIENT|ID"}


class Watcher:
    """Hears by MONITOR what the server runs, in order."""

    def __init__(self, server):
        self.server, self.actor = server, server.actor("watcher")
        assert self.actor.call("MONITOR") == "OK"

    def heard(self):
        """The commands that no client has sent, as lists of words."""
        self.server.control.echo("end of what is heard")
        lines = iter(self.actor.reply, None)
        found = []
        for line in lines:
            source, _, said = line.partition("] ")
            if "end of what is heard" in said:
                return found
            # A call of a module comes from no address.
            if "127.0.0.1:" not in source:
                found.append([word.strip('"') for word in said.split(" ")])


CAUSES = {
    "lease end": lambda say: say("PEXPIRE", "k", LEASE),
    "DEL": lambda say: say("DEL", "k"),
    "flush": lambda say: say("FLUSHALL"),
    "other type, then DEL": lambda say: say("SET", "k", "v") and say("DEL", "k"),
    "key of another type": lambda say: say("SET", "k", "v", "PX", LEASE),
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
def test_grants_leave_no_trace(server, actor, cause):
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
    asked = watcher.heard()
    expected = [] if says_nothing_of_its_own(server) else [[QUESTION, "k", "1", "GT"]]
    assert [words for words in asked if words not in expected] == []
    assert bool(asked) == bool(expected)
    assert errors(server) == before
    assert all(one[1:] == (0, 0) for one in counters(server).values()), counters(server)
    # Nothing of the module's own, but the commands of this test.
    # Some servers count a wait when it ends.
    assert set(counters(server)) - SAID_HERE - {"LOCK.ACQUIRE", "LOCK.FAIR"} == {words[0] for words in expected}


def test_question_changes_no_key(server, actor):
    """Of whatever type, with an expiry and without."""
    values = {"SET": ("v",), "RPUSH": ("v",), "SADD": ("v",), "ZADD": (1, "v"), "HSET": ("f", "v"), "XADD": ("1-1", "f", "v")}
    say = server.control.execute_command
    waiters = []
    for number, (command, words) in enumerate(values.items()):
        for name, expires in (f"k{number}", False), (f"x{number}", True):
            assert say("LOCK.ACQUIRE", name, "o", "PX", LONG) == 1
            waiter = actor()
            waiter.send("LOCK.ACQUIRE", name, "w", "BLOCK", 0)
            waiters.append((name, waiter.wait_blocked()))
            pipeline = server.control.pipeline(transaction=True)
            for said in (("DEL", name), (command, name, *words), ("PEXPIRE", name, LONG if expires else 2 * LONG)):
                pipeline.execute_command(*said)
            if not expires:
                pipeline.persist(name)
            pipeline.execute()
    before = server.dump()
    # The transactions have made each due; one more that is granted shows that the drain has been by.
    say("LOCK.ACQUIRE", "last", "o", "PX", LONG)
    last = actor()
    last.send("LOCK.ACQUIRE", "last", "w", "PX", LONG, "BLOCK", 0)
    last.wait_blocked()
    say("DEL", "last")
    assert last.reply() == 1
    say("DEL", "last")
    wait_for(lambda: server.info("lock")["lock_waiters"] == len(waiters), what="all to wait on")
    assert server.dump() == before
    for name, waiter in waiters:
        assert not waiter.has_reply()
        say("DEL", name)
        assert waiter.reply() == 1
