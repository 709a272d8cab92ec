"""Any sequence of read, write and plain holds, with several clients, owners and keys: the server does what the oracle
in model/rw.py predicts.

A failure prints the shortest sequence that Hypothesis found; LOCK_SEED=… runs with the seed of another run.
"""


import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from hypothesis.stateful import run_state_machine_as_test
from redis.exceptions import ResponseError

from harness import drawn, wait_for
from harness.seeds import seed_of_run
from model.once import Once
from model.rw import MODES, PLAIN, READ, WRITE
from model.rw_side_by_side import LEASE, SideBySide

CLIENTS = ("c1", "c2", "c3", "c4", "c5", "c6")
OWNERS = ("oa", "ob", "oc", "od")
KEYS = ("k", "l")
# The length, in ms, of a lease that the test waits out.
MOMENT = 2

EXAMPLES = 250
EXAMPLES_WITH_LEASES = 120

REMOVALS = ("LOCK.FORCE {}", "DEL {}", "RENAME {} elsewhere", "PEXPIREAT {} 1")

keys, owners = st.sampled_from(KEYS), st.sampled_from(OWNERS)
kinds = st.sampled_from((READ, READ, WRITE, WRITE, PLAIN, *map(Once, (READ, READ, WRITE, WRITE, PLAIN))))
some = st.integers(0, 59)


class Machine(RuleBasedStateMachine):
    def __init__(self, server):
        super().__init__()
        self.both = SideBySide(server, KEYS)

    def idle(self):
        return [client for client in CLIENTS if client not in self.both.waits_for]

    def waiting(self):
        return [client for client in CLIENTS if client in self.both.waits_for]

    def held(self):
        """(key, owner, kind) of all holds."""
        return [(key, *hold) for key, oracle in self.both.oracles.items() for hold in oracle.counts]

    # Requesting

    def requests(self, n, key, owner, kind, blocks):
        idle = self.idle()
        self.both.request(idle[n % len(idle)], key, owner, kind, blocks)
        self.both.compare()

    @initialize(arrivals=st.lists(st.tuples(keys, owners, kinds), min_size=2, max_size=len(CLIENTS)))
    def some_arrive(self, arrivals):
        for key, owner, kind in arrivals:
            self.requests(0, key, owner, kind, True)

    @precondition(lambda self: self.idle())
    @rule(n=some, key=keys, owner=owners, kind=kinds)
    def requests_and_waits(self, n, key, owner, kind):
        self.requests(n, key, owner, kind, True)

    @precondition(lambda self: self.idle())
    @rule(n=some, key=keys, owner=owners, kind=kinds, blocks=st.booleans())
    def requests_any(self, n, key, owner, kind, blocks):
        self.requests(n, key, owner, kind, blocks)

    @precondition(lambda self: self.idle() and self.held())
    @rule(n=some, m=some, kind=kinds, blocks=st.booleans())
    def holder_requests_again(self, n, m, kind, blocks):
        key, owner, _ = self.held()[m % len(self.held())]
        self.requests(n, key, owner, kind, blocks)

    # Releasing

    @precondition(lambda self: self.held())
    @rule(n=some, names_mode=st.booleans())
    def holder_releases(self, n, names_mode):
        key, owner, kind = self.held()[n % len(self.held())]
        word = [MODES[kind].upper()] if names_mode and kind != PLAIN else []
        self.both.call("RELEASE", key, owner, *word)
        self.both.compare()

    @rule(key=keys, owner=owners, word=st.sampled_from(((), ("READ",), ("WRITE",))))
    def outsider_releases(self, key, owner, word):
        self.both.call("RELEASE", key, owner, *word)
        self.both.compare()

    @rule(key=keys, owner=owners, command=st.sampled_from(("RENEW", "CANCEL")))
    def outsider_sends(self, command, key, owner):
        self.both.call(command, key, owner)
        self.both.compare()

    @rule(key=keys, owner=owners, words=st.sampled_from(((), ("READ",), ("WRITE",))))
    def outsider_cancels_and_releases(self, key, owner, words):
        self.both.gives_up(key, owner, *words)
        self.both.compare()

    @rule(key=keys, command=st.sampled_from(REMOVALS))
    def lock_is_removed(self, key, command):
        if command.startswith("LOCK.FORCE"):
            self.both.call("FORCE", key)
        else:
            words = command.format(key).split()
            self.both.note("", *words)
            self.both.outsider.attempt(*words)
            self.both.oracles[key].gone()
        self.both.compare(at_once=command.startswith("LOCK.FORCE"))

    @precondition(lambda self: self.waiting())
    @rule(n=some, how=st.sampled_from(("reset", "close", "kill")))
    def waiter_dies(self, n, how):
        client = self.waiting()[n % len(self.waiting())]
        actor = self.both.actors[client]
        self.both.note(client, f"({how})")
        if how == "kill":
            self.both.outsider.call("CLIENT", "KILL", "ID", actor.client_id)
        (actor.kill_socket if how == "reset" else actor.close)()
        del self.both.actors[client]
        self.both.oracles[self.both.waits_for.pop(client)].left(client)
        self.both.compare(at_once=False)

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
            # What is left of a lock that DEL or RENAME removed has an expiry.
            assert server.control.exists(key) == 0
            assert server.control.ttl(f"lock:lease:{{{key}}}") != -1
        server.control.flushall()


class MachineWithLeases(Machine):
    """The same, and leases expire: of an owner, of one mode of an owner, of several owners at once."""

    def ends(self, key, gone):
        """Waits until these leases, all of length MOMENT, have expired."""
        names = {(owner, MODES[kind]) for owner, kind in gone}

        def have_expired():
            seen = self.both.seen(key)
            return seen is None or seen[1].keys().isdisjoint(names)

        self.both.note("", f"({names} of {key} end)")
        if not self.both.oracles[key].line:
            wait_for(have_expired, what="the leases to expire")
        for owner, kind in gone:
            # Not one by one: at the next check all of them had expired.
            self.both.oracles[key].counts.pop((owner, kind))
        self.both.oracles[key].serve()
        self.both.compare(at_once=False)

    @precondition(lambda self: self.held())
    @rule(n=some)
    def all_leases_of_an_owner_end(self, n):
        key, owner, _ = self.held()[n % len(self.held())]
        gone = [(other, kind) for other, kind in self.both.oracles[key].counts if other == owner]
        self.both.outsider.call("LOCK.RENEW", key, owner, "PX", MOMENT)
        self.ends(key, gone)

    def free_modes(self):
        """(key, owner, kind) of what an owner could acquire now and does not hold yet."""
        return [
            (key, owner, kind)
            for key, oracle in self.both.oracles.items()
            for owner in OWNERS
            for kind in (READ, WRITE)
            if (owner, kind) not in oracle.counts and oracle.obstacle(owner, kind) is None
            # Otherwise it would be granted more than this hold.
            and not any(other == owner for _, other, _ in oracle.line)
            and (oracle.kinds_of(owner) or not oracle.is_behind(owner, kind))
        ]

    @precondition(lambda self: self.idle() and self.free_modes())
    @rule(n=some)
    def lease_of_one_mode_ends(self, n):
        key, owner, kind = self.free_modes()[n % len(self.free_modes())]
        self.both.request(self.idle()[0], key, owner, kind, lease=MOMENT)
        self.ends(key, [(owner, kind)])

    @precondition(lambda self: self.held())
    @rule(n=some)
    def holder_renews(self, n):
        key, owner, _ = self.held()[n % len(self.held())]
        reply = self.both.outsider.call("LOCK.RENEW", key, owner, "PX", LEASE + n * 1000)
        assert reply == self.both.oracles[key].renew(owner)
        self.both.compare()


def run(server, machine, examples):
    number = seed_of_run()
    try:
        # Cycles over several keys are tested in another file.
        server.control.config_set("lock.deadlock-detection", "no")
    except ResponseError:
        pass

    @seed(number)
    def make():
        return machine(server)

    effort = settings(
        max_examples=max(5, drawn(examples)),
        stateful_step_count=50,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(make, settings=effort)


@pytest.mark.timeout(900)
def test_server_does_as_the_oracle_predicts(server):
    run(server, Machine, EXAMPLES)


@pytest.mark.timeout(900)
def test_server_does_as_the_oracle_predicts_when_leases_expire(server):
    # Only the module notices leases that expire.
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    run(server, MachineWithLeases, EXAMPLES_WITH_LEASES)
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 1)
