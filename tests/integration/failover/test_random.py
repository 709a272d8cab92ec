"""Random sequences of commands, with quarantines that begin and end in between: no hold is granted in a quarantine, and
no waiter is forgotten because of one.

The checking build asserts after each pass that no waiter could be granted. The seed is in the test's name.
"""

import random

import pytest
from redis.exceptions import ResponseError

from harness import drawn, wait_for
from harness.schedule import as_map
from model.mutations import leave_no_positions
from model.quarantine_scene import begin, end

STEPS = 120
OWNERS = ("oa", "ob", "oc", "od")
# Each kind has a key of its own; the key "both" is used by several exclusive commands.
REQUESTS = (
    "LOCK.ACQUIRE plain {o}", "LOCK.FAIR plain {o}", "LOCK.ACQUIRE plain {o} ONCE", "LOCK.ACQUIRE both {o} FENCED",
    "LOCK.MACQUIRE 2 plain both {o}", "LOCK.MACQUIRE 2 both plain {o} ONCE", "LOCK.FAIR both {o} SESSION",
    "LOCK.RWREAD rw {o}", "LOCK.RWREAD rw {o} ONCE", "LOCK.RWWRITE rw {o}", "LOCK.RWREAD rw {o} SESSION",
    "LOCK.MACQUIRE 2 rw tree {o} MODES READ WRITE", "LOCK.MACQUIRE 2 tree rw {o} MODES READ READ ONCE",
    "LOCK.SEMAPHORE permits {o} 3", "LOCK.SEMAPHORE permits {o} 3 PERMITS 2",
    "LOCK.SEMAPHORE permits {o} 3 PERMITS 3 ONCE",
)  # fmt: skip
KEYS = ("plain", "both", "rw", "tree", "permits")
CHANGES = (
    "LOCK.RELEASE {k} {o}", "LOCK.RELEASE {k} {o}", "LOCK.RELEASE {k} {o}", "LOCK.RELEASE rw {o} READ",
    "LOCK.RELEASE rw {o} WRITE", "LOCK.RELEASE permits {o} PERMITS 2", "LOCK.MRELEASE 2 plain both {o}",
    "LOCK.MRELEASE 2 rw tree {o} MODES READ WRITE", "LOCK.MRENEW 2 rw tree {o}",
    "LOCK.CANCEL {k} {o}", "LOCK.CANCEL {k} {o} RELEASE", "LOCK.FORCE {k}", "LOCK.RENEW {k} {o}", "DEL {k}", "PEXPIRE {k} 1", "FLUSHALL",
    "DEBUG RELOAD",
)  # fmt: skip


class Play:
    def __init__(self, server, seed):
        self.server, self.dice = server, random.Random(seed)
        self.idle, self.waiting, self.in_quarantine = [], [], False
        self.before = {}

    def holds(self):
        """{(key, owner, mode): holds}"""
        found = {}
        for key in KEYS:
            holders = as_map(self.server.control.execute_command("LOCK.INFO", key)).get("holders", [])
            found |= {(key, hold["owner"], hold["mode"]): hold["holds"] for hold in map(as_map, holders)}
        return found

    def words(self, table):
        return self.dice.choice(table).format(o=self.dice.choice(OWNERS), k=self.dice.choice(KEYS)).split()

    def request(self):
        actor = self.idle.pop() if self.idle else self.server.actor()
        waits = self.dice.random() < 0.7
        actor.send(*self.words(REQUESTS), *(("BLOCK", 0) if waits else ()))
        if not waits:
            reply = actor.outcome()
            assert reply is None or not self.in_quarantine or isinstance(reply, ResponseError)
            self.idle.append(actor)
            return
        wait_for(lambda: actor.has_reply() or actor.is_blocked(), what="a reply, or the wait to begin")
        self.waiting.append(actor)

    def change(self):
        try:
            self.server.control.execute_command(*self.words(CHANGES))
        except ResponseError:
            pass  # there is nothing to change

    def die(self):
        actors = self.waiting or self.idle
        if actors:
            actors.pop(self.dice.randrange(len(actors))).kill_socket()

    def switch(self):
        if self.in_quarantine:
            end(self.server)
        else:
            begin(self.server)
            self.receive()  # the grants until then
        self.in_quarantine = not self.in_quarantine

    def receive(self):
        for actor in [actor for actor in self.waiting if actor.has_reply()]:
            reply = actor.outcome()
            assert reply is None or not self.in_quarantine or isinstance(reply, ResponseError), reply
            self.waiting.remove(actor)
            self.idle.append(actor)

    def step(self):
        was_on, before = self.in_quarantine, self.before
        self.dice.choices([self.request, self.change, self.die, self.switch], [8, 6, 1, 1.5])[0]()
        self.before = self.holds()
        if was_on and self.in_quarantine:
            more = {hold: count for hold, count in self.before.items() if count > before.get(hold, 0)}
            assert not more, f"granted in a quarantine: {more}"
            self.receive()
        elif not self.in_quarantine:
            self.receive()

    def finish(self):
        """All waiters are granted, or refused, when the holds are forced again and again."""
        if self.in_quarantine:
            self.switch()

        def all_served():
            for key in KEYS:
                self.server.control.execute_command("LOCK.FORCE", key)
            return self.server.info("lock")["lock_waiters"] == 0

        wait_for(all_served, 20, "all waits to end")
        wait_for(lambda: self.receive() or not self.waiting, what="all replies")


@pytest.mark.parametrize("seed", range(drawn(40)))
def test_no_hold_is_granted_in_a_quarantine(server, seed):
    leave_no_positions(server)
    play = Play(server, seed)
    for _ in range(STEPS):
        play.step()
    play.finish()
