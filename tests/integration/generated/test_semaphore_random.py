"""Any sequence of requests for permits, and of plain requests for the same names, with several clients and owners: the
server does what the oracle in model/semaphore.py predicts, and a replica has what the master has.

A failure prints the shortest sequence that Hypothesis found; LOCK_SEED=… runs with the seed of another run.
"""


import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from hypothesis.stateful import run_state_machine_as_test

from harness import drawn, wait_for, wait_for_sync
from harness.seeds import seed_of_run
from model.once import Once
from model.rw_side_by_side import LEASE
from model.semaphore import PLAIN, SEMAPHORE
from model.semaphore_side_by_side import SemaphoresSideBySide

CLIENTS = ("c1", "c2", "c3", "c4", "c5", "c6")
OWNERS = ("oa", "ob", "oc", "od", "oe")
KEYS = ("k", "l")
# The length, in ms, of a lease that the test waits out.
MOMENT = 2

EXAMPLES = 200
EXAMPLES_WITH_REPLICA = 40

REMOVALS = ("LOCK.FORCE {}", "DEL {}", "RENAME {} elsewhere", "PEXPIREAT {} 1", "UNLINK {}")

keys, owners = st.sampled_from(KEYS), st.sampled_from(OWNERS)
kinds = st.sampled_from((SEMAPHORE, Once(SEMAPHORE)) * 3 + (PLAIN, Once(PLAIN)))
# Limits of several sizes, close to the numbers of permits that are requested.
numbers, limits = st.integers(1, 4), st.integers(1, 7)
some = st.integers(0, 59)


class Machine(RuleBasedStateMachine):
    replica = None

    def __init__(self, server):
        super().__init__()
        self.both = SemaphoresSideBySide(server, KEYS)

    def idle(self):
        return [client for client in CLIENTS if client not in self.both.waits_for]

    def waiting(self):
        return [client for client in CLIENTS if client in self.both.waits_for]

    def held(self, kind=None):
        """(key, owner) of all holders."""
        oracles = self.both.oracles.items()
        return [(key, owner) for key, oracle in oracles if kind in (None, oracle.kind) for owner in oracle.counts]

    def compare(self, at_once=True):
        self.both.compare(at_once)
        if self.replica:
            wait_for(self.replica_agrees, self.both.patience, "the replica to have what the master has")

    def replica_agrees(self):
        """LOCK.INFO does not show a hold that has expired, but the drain removes it from the key later."""
        wait_for_sync(self.both.server, self.replica)
        assert self.replica.dump() == self.both.server.dump(), "\n".join(self.both.story)
        return True

    # Requesting

    def sends_request(self, n, *request):
        idle = self.idle()
        self.both.request(idle[n % len(idle)], *request)
        self.compare()

    @initialize(arrivals=st.lists(st.tuples(keys, owners, kinds, numbers, limits), min_size=2, max_size=len(CLIENTS)))
    def some_arrive(self, arrivals):
        for key, owner, kind, permits, limit in arrivals:
            self.sends_request(0, key, owner, kind, *((1, 1) if kind == PLAIN else (permits, limit)), True)

    @precondition(lambda self: self.idle())
    @rule(n=some, key=keys, owner=owners, kind=kinds, permits=numbers, limit=limits, blocks=st.booleans())
    def requests_any(self, n, key, owner, kind, permits, limit, blocks):
        if kind == PLAIN:
            permits, limit = 1, 1
        self.sends_request(n, key, owner, kind, permits, limit, blocks)

    # Releasing

    @precondition(lambda self: self.held())
    @rule(n=some, permits=st.one_of(st.none(), numbers))
    def holder_releases(self, n, permits):
        self.both.call("RELEASE", *self.held()[n % len(self.held())], *(("PERMITS", permits) if permits else ()))
        self.compare()

    @rule(key=keys, owner=owners, command=st.sampled_from(("RELEASE", "RENEW", "CANCEL")))
    def outsider_sends(self, command, key, owner):
        self.both.call(command, key, owner)
        self.compare()

    @rule(key=keys, owner=owners, words=st.one_of(st.just(()), st.tuples(st.just("PERMITS"), numbers)))
    def outsider_cancels_and_releases(self, key, owner, words):
        self.both.gives_up(key, owner, *words)
        self.compare()

    @rule(key=keys, command=st.sampled_from(REMOVALS))
    def lock_is_removed(self, key, command):
        if command.startswith("LOCK.FORCE"):
            self.both.call("FORCE", key)
        else:
            words = command.format(key).split()
            self.both.note("", *words)
            self.both.outsider.attempt(*words)
            self.both.oracles[key].gone()
        self.compare(at_once=command.startswith("LOCK.FORCE"))

    # Written directly

    @precondition(lambda self: self.held(SEMAPHORE))
    @rule(n=some, permits=st.integers(0, 9), command=st.sampled_from(("HSET", "HINCRBY")))
    def outsider_writes_permits(self, n, permits, command):
        key, owner = self.held(SEMAPHORE)[n % len(self.held(SEMAPHORE))]
        oracle = self.both.oracles[key]
        if permits == 0:
            words = ("HDEL", key, owner)
            oracle.gone_owner(owner)
        else:
            by = permits - oracle.counts[owner] if command == "HINCRBY" else permits
            words = (command, key, owner, by)
            oracle.written_by_another_client(owner, permits)
        self.both.note("", *words)
        self.both.outsider.call(*words)
        self.compare(at_once=False)

    @rule(command=st.sampled_from((("DEBUG", "RELOAD"), ("SWAPDB", "0", "0"))))
    def keys_are_loaded_or_swapped(self, command):
        self.both.note("", *command)
        self.both.outsider.call(*command)
        self.compare(at_once=False)

    # What ends by itself

    @precondition(lambda self: self.waiting())
    @rule(n=some, how=st.sampled_from(("reset", "close", "kill")))
    def waiter_dies(self, n, how):
        self.both.dies(self.waiting()[n % len(self.waiting())], how)
        self.compare(at_once=False)

    @precondition(lambda self: self.held())
    @rule(n=some)
    def lease_ends(self, n):
        key, owner = self.held()[n % len(self.held())]
        self.both.outsider.call("LOCK.RENEW", key, owner, "PX", MOMENT)
        self.both.note("", f"(the lease of {owner} at {key} ends)")
        if not self.both.oracles[key].line:
            wait_for(lambda: owner not in ((self.both.seen(key) or (0, ()))[1]), what="the lease to end")
        self.both.oracles[key].gone_owner(owner)
        self.compare(at_once=False)

    @precondition(lambda self: self.held())
    @rule(n=some)
    def holder_renews(self, n):
        key, owner = self.held()[n % len(self.held())]
        reply = self.both.outsider.call("LOCK.RENEW", key, owner, "PX", LEASE + n * 1000)
        assert reply == self.both.oracles[key].renew(owner)
        self.compare()

    def teardown(self):
        """All clients disconnect, then all locks are removed: only keys with an expiry are left."""
        server = self.both.server
        server.disconnect_clients()

        def no_client_waits():
            info = server.info("lock")
            assert (info["lock_waiters"], info["lock_contended_locks"], server.blocked_clients()) == (0, 0, 0)
            return True

        wait_for(no_client_waits, self.both.patience)
        for key in KEYS:
            server.control.execute_command("LOCK.FORCE", key)
            assert server.control.exists(key) == 0
            assert server.control.ttl(f"lock:lease:{{{key}}}") != -1
        server.control.flushall()


def run(server, examples, replica=None):
    number = seed_of_run()
    # Only the module notices leases that expire.
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    # Cycles over several keys are tested in another file.
    server.control.config_set("lock.deadlock-detection", "no")

    @seed(number)
    def make():
        machine = Machine(server)
        machine.replica = replica
        return machine

    effort = settings(
        max_examples=max(5, drawn(examples)),
        stateful_step_count=50,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(make, settings=effort)


@pytest.mark.timeout(900)
def test_server_does_as_the_oracle_predicts(server):
    run(server, EXAMPLES)
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 1)


@pytest.mark.timeout(900)
def test_replica_has_what_the_master_has(make_server):
    server = make_server()
    run(server, EXAMPLES_WITH_REPLICA, server.start_replica())
