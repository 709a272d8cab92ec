"""How commands change a lock, and how they find nothing to change: add rows to both tables for a new command."""

from dataclasses import dataclass

import pytest
from redis.exceptions import ResponseError

from harness import code_of

TAKE = "LOCK.ACQUIRE k o PX 600000"
TAKE_BOTH = "LOCK.MACQUIRE 2 k l o PX 600000"


def leave_no_positions(server):
    """A client that is disconnected while it waits in a fair queue keeps no position that a later test would find."""
    server.control.config_set("lock.fair-reserve", 0)


@dataclass(frozen=True)
class Mutation:
    """One way in which one command changes a lock, or ends a wait for it."""

    command: str
    reply: int
    before: tuple = ()
    """The commands that are sent first, to make it possible."""
    waiter: str | None = None
    """The command that another client sends then, which blocks …"""
    waiter_reply: int | None = None
    """… and the reply that it receives because of the command."""
    changes_key: bool = True
    changes_queue: bool = False
    """Whether it changes the keys of a fair queue."""
    locks: tuple = ("k",)
    """The locks that the command names."""

    def arrange(self, server, db=0):
        """Makes the command possible; returns the actor that waits, or None."""
        leave_no_positions(server)
        client = server.client(db=db)
        for command in self.before:
            client.execute_command(*command.split())
        if self.waiter is None:
            return None
        waiter = server.actor("waiter", db=db)
        waiter.send(*self.waiter.split())
        return waiter.wait_blocked()

    def check_waiter(self, waiter):
        """Asserts that the waiter, if there is one, has received the expected reply."""
        assert waiter is None or waiter.reply() == self.waiter_reply

    def perform(self, server, db=0):
        """Arranges it, sends the command, checks all replies."""
        waiter = self.arrange(server, db)
        assert server.client(db=db).execute_command(*self.command.split()) == self.reply
        self.check_waiter(waiter)


WAIT = "LOCK.ACQUIRE k w PX 500000 BLOCK 0"
WAIT_FAIRLY = "LOCK.FAIR k w PX 500000 BLOCK 0"
WAIT_FOR_BOTH = "LOCK.MACQUIRE 2 k l w PX 500000 BLOCK 0"
READ_AND_WRITE = "LOCK.MACQUIRE 2 k l o MODES READ WRITE PX 600000"
WAIT_TO_READ = "LOCK.MACQUIRE 2 k l w MODES READ READ PX 500000 BLOCK 0"
BOTH = ("k", "l")
MUTATIONS = {
    "acquire": Mutation(TAKE, 1),
    "acquire, would wait": Mutation("LOCK.ACQUIRE k o EX 600 BLOCK 0", 1),
    "acquire again": Mutation("LOCK.ACQUIRE k o PX 700000", 2, (TAKE,)),
    "acquire again, shorter": Mutation("LOCK.ACQUIRE k o PX 1000", 2, (TAKE,)),
    "acquire again, no lease": Mutation("LOCK.ACQUIRE k o", 2, (TAKE, "PERSIST k")),
    "acquire again, once": Mutation("LOCK.ACQUIRE k o PX 700000 ONCE", 1, (TAKE,)),
    "fair": Mutation("LOCK.FAIR k o PX 600000", 1),
    "fair again": Mutation("LOCK.FAIR k o PX 700000 BLOCK 0", 2, (TAKE,)),
    "release": Mutation("LOCK.RELEASE k o", 0, (TAKE,)),
    "release one of two": Mutation("LOCK.RELEASE k o", 1, (TAKE, TAKE)),
    "release, hand off": Mutation("LOCK.RELEASE k o", 0, (TAKE,), WAIT, 1),
    "release, hand off, fair": Mutation("LOCK.RELEASE k o", 0, (TAKE,), WAIT_FAIRLY, 1),
    "renew, longer": Mutation("LOCK.RENEW k o PX 700000", 1, (TAKE,)),
    "renew, shorter": Mutation("LOCK.RENEW k o EX 300", 2, (TAKE, TAKE)),
    "force": Mutation("LOCK.FORCE k", 1, (TAKE, TAKE)),
    "force, hand off": Mutation("LOCK.FORCE k", 1, (TAKE,), WAIT, 1),
    "force a foreign hash": Mutation("LOCK.FORCE k", 1, ("HSET k mode read o 1",)),
    "cancel": Mutation("LOCK.CANCEL k w", 1, (TAKE,), WAIT, None, changes_key=False),
    "cancel, fair": Mutation("LOCK.CANCEL k w", 1, (TAKE,), WAIT_FAIRLY, None, False, changes_queue=True),
    "give up": Mutation("LOCK.CANCEL k o RELEASE", 2, (TAKE,)),
    "give up one of two": Mutation("LOCK.CANCEL k o RELEASE", 2, (TAKE, TAKE)),
    "give up, hand off": Mutation("LOCK.CANCEL k o RELEASE", 2, (TAKE,), WAIT, 1),
    "give up, hand off, fair": Mutation("LOCK.CANCEL k o RELEASE", 2, (TAKE,), WAIT_FAIRLY, 1),
    "give up a wait": Mutation("LOCK.CANCEL k w RELEASE", 1, (TAKE,), WAIT, None, changes_key=False),
    "give up a wait, fair": Mutation("LOCK.CANCEL k w RELEASE", 1, (TAKE,), WAIT_FAIRLY, None, False, True),
    "multi-key": Mutation(TAKE_BOTH, 2, locks=BOTH),
    "multi-key, would wait": Mutation("LOCK.MACQUIRE 2 k l o EX 600 BLOCK 0", 2, locks=BOTH),
    "multi-key again": Mutation("LOCK.MACQUIRE 2 k l o PX 700000", 2, (TAKE_BOTH,), locks=BOTH),
    "multi-key, one of them again": Mutation(TAKE_BOTH, 2, (TAKE,), locks=BOTH),
    "multi-key, one twice": Mutation("LOCK.MACQUIRE 3 k l k o PX 600000", 2, locks=BOTH),
    "multi-key release": Mutation("LOCK.MRELEASE 2 k l o", 2, (TAKE_BOTH,), locks=BOTH),
    "multi-key release, one of two": Mutation("LOCK.MRELEASE 2 k l o", 1, (TAKE, TAKE_BOTH), locks=BOTH),
    "multi-key release, hand off": Mutation("LOCK.MRELEASE 2 k l o", 2, (TAKE_BOTH,), WAIT_FOR_BOTH, 2, locks=BOTH),
    "multi-key release, hand off one": Mutation("LOCK.MRELEASE 2 k l o", 2, (TAKE_BOTH,), WAIT, 1, locks=BOTH),
    "release, hand off to a multi-key waiter": Mutation("LOCK.RELEASE k o", 0, (TAKE,), WAIT_FOR_BOTH, 2),
    "force, hand off to a multi-key waiter": Mutation("LOCK.FORCE k", 1, (TAKE,), WAIT_FOR_BOTH, 2),
    "modes": Mutation(READ_AND_WRITE, 2, locks=BOTH),
    "modes again": Mutation(READ_AND_WRITE, 2, (READ_AND_WRITE,), locks=BOTH),
    "modes, release": Mutation("LOCK.MRELEASE 2 k l o MODES READ WRITE", 2, (READ_AND_WRITE,), locks=BOTH),
    "modes, release, hand off": Mutation(
        "LOCK.MRELEASE 2 k l o MODES READ WRITE", 2, (READ_AND_WRITE,), WAIT_TO_READ, 2, locks=BOTH
    ),
    "renew both": Mutation("LOCK.MRENEW 2 k l o PX 700000", 2, (TAKE_BOTH,), locks=BOTH),
    "renew both, modes": Mutation("LOCK.MRENEW 2 k l o PX 700000", 2, (READ_AND_WRITE,), locks=BOTH),
    "cancel, multi-key": Mutation("LOCK.CANCEL k w", 1, (TAKE,), WAIT_FOR_BOTH, None, changes_key=False),
}
each_mutation = pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)


@dataclass(frozen=True)
class Failure:
    """A command that finds nothing to change."""

    command: str
    reply: object = None
    """The reply, or the code of an error."""
    before: tuple = (TAKE,)


FAILURES = {
    "acquire": Failure("LOCK.ACQUIRE k other"),
    "acquire, would wait": Failure("LOCK.ACQUIRE k other BLOCK 0"),
    "acquire, would wait a while": Failure("LOCK.ACQUIRE k other BLOCK 60000"),
    "acquire a foreign hash": Failure("LOCK.ACQUIRE k o", None, ("HSET k a 1 b 1",)),
    "acquire, too many holds": Failure("LOCK.ACQUIRE k o", "ERR", ("HSET k o 2147483647",)),
    "acquire no lock": Failure("LOCK.ACQUIRE k o BLOCK 0", "WRONGTYPE", ("SET k 1",)),
    "fair": Failure("LOCK.FAIR k other"),
    "fair, would wait": Failure("LOCK.FAIR k other BLOCK 0"),
    "fair on no lock": Failure("LOCK.FAIR k o BLOCK 0", "WRONGTYPE", ("SET k 1",)),
    "release": Failure("LOCK.RELEASE k other", "NOTHELD"),
    "release a free lock": Failure("LOCK.RELEASE k o", "NOTHELD", ()),
    "renew": Failure("LOCK.RENEW k other PX 1000", "NOTHELD"),
    "force a free lock": Failure("LOCK.FORCE k", 0, ()),
    "force no lock": Failure("LOCK.FORCE k", "WRONGTYPE", ("SET k 1",)),
    "cancel": Failure("LOCK.CANCEL k o", 0),
    "cancel no lock": Failure("LOCK.CANCEL k o", "WRONGTYPE", ("SET k 1",)),
    "give up": Failure("LOCK.CANCEL k other RELEASE", 0),
    "give up a free lock": Failure("LOCK.CANCEL k o RELEASE", 0, ()),
    "give up more than there is": Failure("LOCK.CANCEL k o RELEASE PERMITS 2", 0, ("LOCK.SEMAPHORE k o 3",)),
    "give up one of both kinds": Failure("LOCK.CANCEL k o RELEASE", "ERR", ("LOCK.RWWRITE k o", "LOCK.RWREAD k o")),
    "give up no lock": Failure("LOCK.CANCEL k o RELEASE", "WRONGTYPE", ("SET k 1",)),
    "multi-key": Failure("LOCK.MACQUIRE 2 k l other"),
    "multi-key, the last is held": Failure("LOCK.MACQUIRE 2 l k other"),
    "multi-key, would wait": Failure("LOCK.MACQUIRE 2 k l other BLOCK 0"),
    "multi-key, would wait a while": Failure("LOCK.MACQUIRE 2 l k other BLOCK 60000"),
    "multi-key, too many holds": Failure("LOCK.MACQUIRE 2 k l o", "ERR", (TAKE, "HSET l o 2147483647")),
    "multi-key, one is no lock": Failure("LOCK.MACQUIRE 2 k l o BLOCK 0", "WRONGTYPE", (TAKE, "SET l 1")),
    "modes": Failure("LOCK.MACQUIRE 2 k l other MODES READ WRITE"),
    "modes, would wait": Failure("LOCK.MACQUIRE 2 l k other MODES READ WRITE BLOCK 0"),
    "modes, release of another mode": Failure(
        "LOCK.MRELEASE 2 k l o MODES READ READ", "NOTHELD", (READ_AND_WRITE,)
    ),
    "renew both, one is missing": Failure("LOCK.MRENEW 2 k l o PX 700000", "NOTHELD"),
    "renew both, one is no lock": Failure("LOCK.MRENEW 2 k l o", "WRONGTYPE", (TAKE, "SET l 1")),
    "multi-key release, one is missing": Failure("LOCK.MRELEASE 2 k l o", "NOTHELD"),
    "multi-key release, one is another's": Failure("LOCK.MRELEASE 2 k l o", "NOTHELD", (TAKE, "LOCK.ACQUIRE l p")),
    "multi-key release of free locks": Failure("LOCK.MRELEASE 2 k l o", "NOTHELD", ()),
    "multi-key release, one is no lock": Failure("LOCK.MRELEASE 2 k l o", "WRONGTYPE", (TAKE, "SET l 1")),
    "multi-key release, one of both kinds": Failure(
        "LOCK.MRELEASE 2 k l o", "ERR", (TAKE, "LOCK.RWWRITE l o", "LOCK.RWREAD l o")
    ),
}
each_failure = pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES)
FAILS_AT_ONCE = [name for name in FAILURES if "wait" not in name]


def matches(expected, got):
    if isinstance(expected, str):
        return isinstance(got, ResponseError) and code_of(got) == expected
    return got == expected


def in_multi(actor, *commands):
    """The replies to the commands in one transaction; None if WATCH has aborted it."""
    assert actor.call("MULTI") == "OK"
    for command in commands:
        assert actor.call(*command.split()) == "QUEUED"
    return actor.call("EXEC")


def in_lua(actor, *commands):
    """The replies to the commands in one script; nil is None, errors raise."""
    script = "local r = {} for i, c in ipairs(ARGV) do r[i] = redis.call(unpack(cjson.decode(c))) end return r"
    words = ['["' + '","'.join(command.split()) + '"]' for command in commands]
    return actor.call("EVAL", script, 1, "k", *words)


each_way = pytest.mark.parametrize("say", [in_multi, in_lua])
