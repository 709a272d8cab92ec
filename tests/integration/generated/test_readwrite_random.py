"""Any sequence of reads, writes and plain holds, by several clients, owners and keys: the server does what
the oracle of model/rw.py says.

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
# Of this length, in ms, is a lease that is waited out.
MOMENT = 2

EXAMPLES = 250
EXAMPLES_WITH_LEASES = 120

GOES = ("LOCK.FORCE {}", "DEL {}", "RENAME {} elsewhere", "PEXPIREAT {} 1")

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

    # Asking

    def asks(self, n, key, owner, kind, blocks):
        idle = self.idle()
        self.both.ask(idle[n % len(idle)], key, owner, kind, blocks)
        self.both.compare()

    @initialize(comers=st.lists(st.tuples(keys, owners, kinds), min_size=2, max_size=len(CLIENTS)))
    def some_come(self, comers):
        for key, owner, kind in comers:
            self.asks(0, key, owner, kind, True)

    @precondition(lambda self: self.idle())
    @rule(n=some, key=keys, owner=owners, kind=kinds)
    def asks_and_waits(self, n, key, owner, kind):
        self.asks(n, key, owner, kind, True)

    @precondition(lambda self: self.idle())
    @rule(n=some, key=keys, owner=owners, kind=kinds, blocks=st.booleans())
    def asks_for_it(self, n, key, owner, kind, blocks):
        self.asks(n, key, owner, kind, blocks)

    @precondition(lambda self: self.idle() and self.held())
    @rule(n=some, m=some, kind=kinds, blocks=st.booleans())
    def holder_asks_again(self, n, m, kind, blocks):
        key, owner, _ = self.held()[m % len(self.held())]
        self.asks(n, key, owner, kind, blocks)

    # Releasing

    @precondition(lambda self: self.held())
    @rule(n=some, says_which=st.booleans())
    def holder_releases(self, n, says_which):
        key, owner, kind = self.held()[n % len(self.held())]
        word = [MODES[kind].upper()] if says_which and kind != PLAIN else []
        self.both.say("RELEASE", key, owner, *word)
        self.both.compare()

    @rule(key=keys, owner=owners, word=st.sampled_from(((), ("READ",), ("WRITE",))))
    def somebody_releases(self, key, owner, word):
        self.both.say("RELEASE", key, owner, *word)
        self.both.compare()

    @rule(key=keys, owner=owners, command=st.sampled_from(("RENEW", "CANCEL")))
    def somebody_says(self, command, key, owner):
        self.both.say(command, key, owner)
        self.both.compare()

    @rule(key=keys, owner=owners, words=st.sampled_from(((), ("READ",), ("WRITE",))))
    def somebody_gives_up(self, key, owner, words):
        self.both.gives_up(key, owner, *words)
        self.both.compare()

    @rule(key=keys, command=st.sampled_from(GOES))
    def lock_goes(self, key, command):
        if command.startswith("LOCK.FORCE"):
            self.both.say("FORCE", key)
        else:
            words = command.format(key).split()
            self.both.tell("", *words)
            self.both.outsider.attempt(*words)
            self.both.oracles[key].gone()
        self.both.compare(at_once=command.startswith("LOCK.FORCE"))

    @precondition(lambda self: self.waiting())
    @rule(n=some, how=st.sampled_from(("reset", "close", "kill")))
    def waiter_dies(self, n, how):
        client = self.waiting()[n % len(self.waiting())]
        actor = self.both.actors[client]
        self.both.tell(client, f"({how})")
        if how == "kill":
            self.both.outsider.call("CLIENT", "KILL", "ID", actor.client_id)
        (actor.kill_socket if how == "reset" else actor.close)()
        del self.both.actors[client]
        self.both.oracles[self.both.waits_for.pop(client)].left(client)
        self.both.compare(at_once=False)

    def teardown(self):
        """All clients go, then all locks: nothing is left but what has an end."""
        server = self.both.server
        server.disconnect_clients()

        def nobody_waits():
            info = server.info("lock")
            assert (info["lock_waiters"], info["lock_contended_locks"], server.blocked_clients()) == (0, 0, 0)
            return True

        wait_for(nobody_waits, self.both.patience)
        for key in KEYS:
            server.control.execute_command("LOCK.FORCE", key)
            # What is left of a lock that went by DEL or RENAME has an end.
            assert server.control.exists(key) == 0
            assert server.control.ttl(f"lock:lease:{{{key}}}") != -1
        server.control.flushall()


class MachineWithLeases(Machine):
    """The same, and leases end: of an owner, of one mode of an owner, of several owners at once."""

    def ends(self, key, gone):
        """These leases, all of the length of a moment, end: waits until they have."""
        names = {(owner, MODES[kind]) for owner, kind in gone}

        def over():
            seen = self.both.seen(key)
            return seen is None or seen[1].keys().isdisjoint(names)

        self.both.tell("", f"({names} of {key} end)")
        if not self.both.oracles[key].line:
            wait_for(over, what="the leases to end")
        for owner, kind in gone:
            # Not one by one: they were over at the same time as far as the next look could see.
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
        """(key, owner, kind) of what an owner could take now and holds not yet."""
        return [
            (key, owner, kind)
            for key, oracle in self.both.oracles.items()
            for owner in OWNERS
            for kind in (READ, WRITE)
            if (owner, kind) not in oracle.counts and oracle.obstacle(owner, kind) is None
            # Or it would be granted more than this hold.
            and not any(other == owner for _, other, _ in oracle.line)
            and (oracle.kinds_of(owner) or not oracle.is_behind(owner, kind))
        ]

    @precondition(lambda self: self.idle() and self.free_modes())
    @rule(n=some)
    def lease_of_one_mode_ends(self, n):
        key, owner, kind = self.free_modes()[n % len(self.free_modes())]
        self.both.ask(self.idle()[0], key, owner, kind, lease=MOMENT)
        self.ends(key, [(owner, kind)])

    @precondition(lambda self: self.held())
    @rule(n=some)
    def holder_renews(self, n):
        key, owner, _ = self.held()[n % len(self.held())]
        heard = self.both.outsider.call("LOCK.RENEW", key, owner, "PX", LEASE + n * 1000)
        assert heard == self.both.oracles[key].renew(owner)
        self.both.compare()


def run(server, machine, examples):
    number = seed_of_run()
    try:
        # Cycles over several keys are another file's business.
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
def test_server_does_as_the_oracle_says(server):
    run(server, Machine, EXAMPLES)


@pytest.mark.timeout(900)
def test_server_does_as_the_oracle_says_when_leases_end(server):
    # Nobody but the module notices them.
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    run(server, MachineWithLeases, EXAMPLES_WITH_LEASES)
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 1)
