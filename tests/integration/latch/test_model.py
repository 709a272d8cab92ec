"""Any sequence of openings, settings, waits and direct writes: waiters receive the replies that the model predicts.

A failure prints the shortest sequence that Hypothesis found; LOCK_SEED=… runs with the seed of another run.
"""


import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from harness import drawn, wait_for
from harness.seeds import seed_of_run
from model.latch_scene import latch_waiters

KEYS = ("l", "m")
EXAMPLES = 200

keys = st.sampled_from(KEYS)
counts = st.integers(0, 4)


class Machine(RuleBasedStateMachine):
    """The model: for each key the number that is left, None without a key, or "x" if the value is no number."""

    def __init__(self, server):
        super().__init__()
        self.server, self.other = server, server.actor("z")
        self.left = dict.fromkeys(KEYS)
        self.idle, self.waiting = [server.actor() for _ in range(5)], []

    def teardown(self):
        self.server.disconnect_clients()
        self.server.control.flushall()
        wait_for(lambda: latch_waiters(self.server) == 0, what="all waits to end with their clients")

    def call(self, *words):
        return self.other.call(*words)

    def is_open(self, key):
        left = self.left[key]
        return left is None or (left != "x" and left <= 0)

    def check_waiters(self, *opened):
        """Waiters are notified exactly if their latch is open, or is in `opened`: it was open for a moment."""
        notified = [(actor, key) for actor, key in self.waiting if key in opened or self.is_open(key)]
        for actor, _ in notified:
            assert actor.reply() == 1
        self.waiting = [entry for entry in self.waiting if entry not in notified]
        self.idle += [actor for actor, _ in notified]
        self.server.let_pass(2)
        assert not [key for actor, key in self.waiting if actor.has_reply()]
        assert latch_waiters(self.server) == len(self.waiting)

    # The commands of the module

    @rule(key=keys, count=counts)
    def set(self, key, count):
        if self.left[key] == "x":
            return
        assert self.call("LATCH.SET", key, count) == "OK"
        self.left[key] = count or None
        self.check_waiters()

    @rule(key=keys, by=st.integers(1, 3))
    def down(self, key, by):
        if self.left[key] == "x":
            return
        left = max((self.left[key] or 0) - by, 0)
        assert self.call("LATCH.DOWN", key, by) == left
        self.left[key] = left or None
        self.check_waiters()

    @rule(key=keys, again=st.integers(1, 3))
    def opened_and_set_in_one_step(self, key, again):
        if self.left[key] == "x":
            return
        for words in (("MULTI",), ("LATCH.DOWN", key, 99), ("LATCH.SET", key, again), ("EXEC",)):
            self.call(*words)
        self.left[key] = again
        self.check_waiters(key)

    @precondition(lambda self: self.idle)
    @rule(key=keys)
    def waits(self, key):
        actor = self.idle.pop()
        actor.send("LATCH.WAIT", key, "BLOCK", 600_000)
        if self.left[key] == "x":
            assert str(actor.outcome()).startswith("ERR value")
            self.idle.append(actor)
        elif self.is_open(key):
            assert actor.reply() == 1
            self.idle.append(actor)
        else:
            self.waiting.append((actor.wait_blocked(), key))

    @precondition(lambda self: self.waiting)
    @rule(n=st.integers(0, 9), how=st.sampled_from(("kill_socket", "close")))
    def dies(self, n, how):
        actor, _ = self.waiting.pop(n % len(self.waiting))
        getattr(actor, how)()
        wait_for(lambda: latch_waiters(self.server) == len(self.waiting), what="the waiter to leave")
        self.idle.append(self.server.actor())

    # Direct writes

    @rule(key=keys, number=st.integers(-1, 3))
    def written(self, key, number):
        self.call("SET", key, number)
        self.left[key] = number
        self.check_waiters()

    @rule(key=keys, by=st.integers(-2, 2))
    def counted(self, key, by):
        if self.left[key] == "x":
            return
        self.left[key] = self.call("INCRBY", key, by)
        self.check_waiters()

    @rule(key=keys)
    def overwritten_by_no_number(self, key):
        self.call("SET", key, "x")
        self.left[key] = "x"
        self.check_waiters()

    @rule(key=keys, how=st.sampled_from(("DEL {}", "UNLINK {}", "PEXPIRE {} 0", "PEXPIRE {} 1", "RENAME {} away")))
    def removed(self, key, how):
        if self.left[key] is not None:
            self.call(*how.format(key).split())
        self.left[key] = None
        self.check_waiters()

    @rule(key=keys, number=st.integers(-1, 2))
    def deleted_and_written_in_one_step(self, key, number):
        for words in (("MULTI",), ("DEL", key), ("SET", key, number), ("EXEC",)):
            self.call(*words)
        self.left[key] = number
        self.check_waiters()

    @precondition(lambda self: self.left["l"] is not None)
    @rule()
    def renamed_onto_the_other(self):
        self.call("RENAME", "l", "m")
        self.left = {"l": None, "m": self.left["l"]}
        self.check_waiters()

    @rule(how=st.sampled_from(("FLUSHALL", "FLUSHDB", "SWAPDB")))
    def all_removed(self, how):
        # The swap brings another, empty database.
        after = [("SELECT", 1), ("FLUSHDB",), ("SELECT", 0)] if how == "SWAPDB" else []
        for words in [("SWAPDB", 0, 1) if how == "SWAPDB" else (how,), *after]:
            self.call(*words)
        self.left = dict.fromkeys(KEYS)
        self.check_waiters()


@pytest.mark.timeout(900)
def test_server_does_as_the_model_predicts(server):
    number = seed_of_run()
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)

    @seed(number)
    def make():
        return Machine(server)

    effort = settings(
        max_examples=max(5, drawn(EXAMPLES)), stateful_step_count=40, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(make, settings=effort)
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 1)
