"""Any sequence of holds, waits and losses: each watch receives exactly what LOCK.INFO implies.

Other tests show that LOCK.INFO has the right holders and waiters. A failure prints the shortest sequence that
Hypothesis found; LOCK_SEED=… runs with the seed of another run.
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
REQUESTS = ("LOCK.ACQUIRE {} {}", "LOCK.RWREAD {} {}", "LOCK.RWREAD {} {}", "LOCK.RWWRITE {} {}", "LOCK.FAIR {} {}")
REQUESTS += ("LOCK.SEMAPHORE {} {} 2", "LOCK.SEMAPHORE {} {} 3 PERMITS 2")
REMOVALS = ("DEL {}", "LOCK.FORCE {}", "RENAME {} away", "PEXPIRE {} 1", "SET {} x", "SINTERSTORE {} set")
REMOVALS += ("PEXPIRE {} 600000",)
EXAMPLES = 200

keys, owners, commands = st.sampled_from(KEYS), st.sampled_from(OWNERS), st.sampled_from(REQUESTS)
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
        wait_for(lambda: not info("lock")["lock_watchers"] and not info("lock")["lock_waiters"], what="all to end")

    def lock(self, key):
        """The owners that hold it, and those that wait for it."""
        found = self.other.attempt("LOCK.INFO", key, "COUNT", 100)
        if isinstance(found, Exception) or not found:
            return set(), set()
        found = as_map(found)
        return tuple({as_map(one)["owner"] for one in found[field]} for field in ("holders", "waiters"))

    def expected_of(self, key, owner, wanted):
        """What this watch must receive now, or None."""
        holders, waiters = self.lock(key)
        if owner not in holders:
            return "LOST"
        return "WANTED" if wanted and waiters - {owner} else None

    def settle(self, loses=False):
        """Each watch receives its expected reply once the server has checked it; no other watch receives anything.

        With `loses` the step may have ended holds, and an owner that waited for another mode may hold it again."""
        self.server.let_pass(3)
        self.server.all_searched()  # one more command: the replies of the last iteration are written by then
        refused, granted = self.take_replies_of_waiters()
        for entry in list(self.watching):
            actor, *watch = entry
            expected = self.expected_of(*watch)
            if expected:
                assert actor.reply() == expected
                self.watching.remove(entry)
                self.idle.append(actor)
            elif actor.has_reply():
                key, owner, wanted = watch
                if loses and (key, owner) in granted:
                    assert actor.outcome() == "LOST", f"{watch}"
                else:
                    # A request refused as a deadlock has waited for some ms: a watch may have received WANTED.
                    assert (actor.outcome(), wanted, key in refused) == ("WANTED", True, True), f"{watch}"
                self.watching.remove(entry)
                self.idle.append(actor)
        assert watchers(self.server) == len(self.watching)

    def take_replies_of_waiters(self):
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
    def requests(self, command, key, owner):
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
        actor, expected = self.idle.pop(), self.expected_of(key, owner, wanted)
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
    def removed_directly(self, key, owner):
        self.other.attempt("HDEL", key, owner)
        self.settle(loses=True)

    @rule(key=keys, how=st.sampled_from(REMOVALS))
    def lock_is_removed(self, key, how):
        self.other.attempt(*how.format(key).split())
        self.settle(loses=True)

    @rule(how=st.sampled_from((("FLUSHDB",), ("SWAPDB", 0, 1))))
    def all_removed(self, how):
        self.other.call(*how)
        self.other.call("SADD", "set", "x")
        self.settle(loses=True)

    @precondition(lambda self: self.watching)
    @rule(n=some, how=st.sampled_from(("kill_socket", "close")))
    def watcher_dies(self, n, how):
        actor, *_ = self.watching.pop(n % len(self.watching))
        getattr(actor, how)()
        wait_for(lambda: watchers(self.server) == len(self.watching), what="the watch to end")
        self.idle.append(self.server.actor())


@pytest.mark.timeout(900)
def test_server_does_as_the_model_predicts(server):
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
