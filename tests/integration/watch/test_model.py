"""Any sequence of holds, waits and losses: each watch is told what is so by LOCK.INFO, and none is told otherwise.

That LOCK.INFO says who holds a lock and who waits is for other tests to show. A failure prints the shortest sequence
that Hypothesis found; LOCK_SEED=… runs with the seed of another run.
"""


import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from harness import drawn, wait_for
from harness.schedule import as_map
from harness.seeds import seed_of_run
from model.watch_scene import HOUR, watchers

KEYS, OWNERS = ("k", "l"), ("oa", "ob", "oc")
TAKES = ("LOCK.ACQUIRE {} {}", "LOCK.RWREAD {} {}", "LOCK.RWREAD {} {}", "LOCK.RWWRITE {} {}", "LOCK.FAIR {} {}")
TAKES += ("LOCK.SEMAPHORE {} {} 2", "LOCK.SEMAPHORE {} {} 3 PERMITS 2")
GOES = ("DEL {}", "LOCK.FORCE {}", "RENAME {} away", "PEXPIRE {} 1", "SET {} x", "SINTERSTORE {} set")
GOES += ("PEXPIRE {} 600000",)
EXAMPLES = 200

keys, owners, commands = st.sampled_from(KEYS), st.sampled_from(OWNERS), st.sampled_from(TAKES)
some = st.integers(0, 59)


class Machine(RuleBasedStateMachine):
    def __init__(self, server):
        super().__init__()
        self.server, self.other = server, server.actor("z")
        self.server.control.sadd("set", "x")
        self.idle = [server.actor() for _ in range(8)]
        self.watching, self.waiting = [], []

    def teardown(self):
        self.server.disconnect_clients()
        self.server.control.flushall()
        info = self.server.info
        wait_for(lambda: not info("lock")["lock_watchers"] and not info("lock")["lock_waiters"], what="all to go")

    def lock(self, key):
        """Who holds it, and who waits for it."""
        found = self.other.attempt("LOCK.INFO", key, "COUNT", 100)
        if isinstance(found, Exception) or not found:
            return set(), set()
        found = as_map(found)
        return tuple({as_map(one)["owner"] for one in found[field]} for field in ("holders", "waiters"))

    def told(self, key, owner, wanted):
        """What this watch is to be told now, or None."""
        holders, waiters = self.lock(key)
        if owner not in holders:
            return "LOST"
        return "WANTED" if wanted and waiters - {owner} else None

    def settle(self, loses=False):
        """Each watch is told what is so once the server has looked; nobody else is told anything. loses: the step may
        have taken holds away, and an owner that waited for a mode that it did not have may hold the lock again by now."""
        self.server.let_pass(3)
        self.server.all_searched()  # a question more: what the last turn has answered is written by then
        refused, granted = self.waiters_hear()
        for entry in list(self.watching):
            actor, *watch = entry
            expected = self.told(*watch)
            if expected:
                assert actor.reply() == expected
                self.watching.remove(entry)
                self.idle.append(actor)
            elif actor.has_reply():
                key, owner, wanted = watch
                if loses and (key, owner) in granted:
                    assert actor.outcome() == "LOST", f"{watch}"
                else:
                    # Who is refused as a deadlock has waited for some milliseconds, and a watch may have been told so.
                    assert (actor.outcome(), wanted, key in refused) == ("WANTED", True, True), f"{watch}"
                self.watching.remove(entry)
                self.idle.append(actor)
        assert watchers(self.server) == len(self.watching)

    def waiters_hear(self):
        """Returns the keys for which a wait was refused as a deadlock, and (key, owner) of those that were granted."""
        refused, granted = set(), set()
        for entry in list(self.waiting):
            actor, key, owner = entry
            if actor.has_reply():
                outcome = actor.outcome()
                if str(outcome).startswith("DEADLOCK"):
                    refused.add(key)
                elif isinstance(outcome, int):
                    granted.add((key, owner))
                self.waiting.remove(entry)
                self.idle.append(actor)
        return refused, granted

    @rule(command=commands, key=keys, owner=owners)
    def takes(self, command, key, owner):
        self.other.attempt(*command.format(key, owner).split(), "PX", HOUR)
        self.settle()

    @precondition(lambda self: self.idle)
    @rule(command=commands, key=keys, owner=owners)
    def waits(self, command, key, owner):
        actor = self.idle.pop()
        actor.send(*command.format(key, owner).split(), "PX", HOUR, "BLOCK", 0)
        wait_for(lambda: actor.is_blocked() or actor.has_reply(), what="the request to be read")
        self.waiting.append((actor, key, owner))
        self.settle()

    @precondition(lambda self: self.idle)
    @rule(key=keys, owner=owners, wanted=st.booleans())
    def watches(self, key, owner, wanted):
        if self.other.call("TYPE", key) not in ("hash", "none"):
            return
        actor, expected = self.idle.pop(), self.told(key, owner, wanted)
        actor.send("LOCK.WATCH", key, owner, *(["WANTED"] if wanted else []), "BLOCK", 0)
        if expected:
            assert actor.reply() == expected
            self.idle.append(actor)
        else:
            self.watching.append((actor.wait_blocked(), key, owner, wanted))

    @rule(key=keys, owner=owners, word=st.sampled_from(((), ("READ",), ("WRITE",))))
    def releases(self, key, owner, word):
        self.other.attempt("LOCK.RELEASE", key, owner, *word)
        self.settle()

    @rule(key=keys, owner=owners, ms=st.sampled_from((1, 2, HOUR)))
    def renews(self, key, owner, ms):
        self.other.attempt("LOCK.RENEW", key, owner, "PX", ms)
        self.settle(loses=True)

    @rule(key=keys, owner=owners)
    def cancels(self, key, owner):
        self.other.attempt("LOCK.CANCEL", key, owner)
        self.settle()

    @rule(key=keys, owner=owners)
    def taken_out_by_hand(self, key, owner):
        self.other.attempt("HDEL", key, owner)
        self.settle(loses=True)

    @rule(key=keys, how=st.sampled_from(GOES))
    def goes(self, key, how):
        self.other.attempt(*how.format(key).split())
        self.settle(loses=True)

    @rule(how=st.sampled_from((("FLUSHDB",), ("SWAPDB", 0, 1))))
    def all_go(self, how):
        self.other.call(*how)
        self.other.call("SADD", "set", "x")
        self.settle(loses=True)

    @precondition(lambda self: self.watching)
    @rule(n=some, how=st.sampled_from(("kill_socket", "close")))
    def watcher_dies(self, n, how):
        actor, *_ = self.watching.pop(n % len(self.watching))
        getattr(actor, how)()
        wait_for(lambda: watchers(self.server) == len(self.watching), what="the watch to go")
        self.idle.append(self.server.actor())


@pytest.mark.timeout(900)
def test_server_does_as_the_model_says(server):
    number = seed_of_run()
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    server.control.config_set("lock.fair-reserve", 0)

    @seed(number)
    def make():
        return Machine(server)

    effort = settings(
        max_examples=max(5, drawn(EXAMPLES)), stateful_step_count=40, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(make, settings=effort)
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 1)
