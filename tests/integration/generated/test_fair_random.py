"""Owners join, leave, die and return at random; the server is compared with the model in model/fair_model.py.

Positions are reserved for so long that no reservation ends by itself, so the model needs no clock.
No argument of LOCK.FAIR carries a client's time either (fair/test_refusals.py), so no such time can be wrong.

A failure prints all steps. LOCK_SEED=… repeats a walk; the seed is in the output.
"""

import random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from harness import drawn, fewer
from harness.seeds import seed_of_run
from model.fair_driver import DEATHS, FairDriver
from model.fair_scene import LONG_RESERVE, end_all_positions, server  # noqa: F401

STEPS = 1500
OWNERS = [f"o{number}" for number in range(200)]


class Walk:
    """Random steps, weighted so that the queue grows long."""

    def __init__(self, driver, seed, owners, restarts=False):
        self.driver, self.dice, self.owners = driver, random.Random(seed), owners
        self.steps = {
            self.join: 40,
            self.leave: 8,
            self.time_out: 6,
            self.die: 16,
            self.return_to_position: 14,
            self.request_again: 5,
            self.try_without_waiting: 8,
            self.join_without_fair: 4,
            self.release: 14,
            self.release_another: 1,
            self.die_as_granted: 4,
            self.force: 1,
            self.delete: 1,
            self.crash: int(restarts),
        }

    def go(self, count):
        names, weights = list(self.steps), list(self.steps.values())
        for step in self.dice.choices(names, weights, k=count):
            step()

    def any(self, candidates):
        candidates = list(candidates)
        return self.dice.choice(candidates) if candidates else None

    def once(self):
        return self.dice.random() < 0.4

    # Steps

    def join(self):
        self.driver.requests(self.any(self.owners), once=self.once())

    def join_without_fair(self):
        self.driver.requests(self.any(self.owners), fair=False, once=self.once())

    def leave(self):
        self.driver.cancels(self.any(self.driver.positions()) or self.any(self.owners))

    def cancel_and_release(self):
        self.driver.gives_up(self.any(self.owners))

    def time_out(self):
        self.driver.requests_and_times_out(self.any(self.owners), fair=self.dice.random() < 0.8, once=self.once())

    def die(self):
        client = self.any(self.driver.clients())
        if client:
            self.driver.dies(client, self.any(DEATHS))

    def die_as_granted(self):
        """One of the clients that a release would grant the lock to."""
        owner = self.driver.first_in_line()
        client = self.any(self.driver.clients_of(owner))
        if client and self.driver.model.holder:
            self.driver.dies_as_it_is_granted(client)

    def lost(self):
        return [position.owner for position in self.driver.model.queue if position.client is None]

    def return_to_position(self):
        owner = self.any(self.lost())
        if owner:
            self.driver.requests(owner, once=self.once())

    def request_again(self):
        owner = self.any(self.driver.positions())
        if owner:
            self.driver.requests(owner, once=self.once())

    def try_without_waiting(self):
        head = self.driver.positions()[:1]
        owner = self.any([*head * 3, *self.owners[:5]])
        self.driver.requests(owner, blocks=False, fair=self.dice.random() < 0.8, once=self.once())

    def release(self):
        holder = self.driver.model.holder
        if holder:
            self.driver.releases(holder)

    def release_another(self):
        self.driver.releases(self.any(self.owners))

    def force(self):
        self.driver.forces()

    def delete(self):
        self.driver.deletes()

    def crash(self):
        self.driver.restarts()


@pytest.mark.timeout(900)
def test_200_owners_join_leave_die_and_return_as_modelled(server):
    driver = FairDriver(server)
    Walk(driver, seed_of_run(), OWNERS).go(drawn(STEPS))
    driver.drains()


@pytest.mark.timeout(900)
def test_200_owners_that_all_wait_first_die_and_return_as_modelled(server):
    """All owners wait in the queue before the random steps begin."""
    driver, dice = FairDriver(server), random.Random(seed_of_run())
    owners = OWNERS[: fewer(200)]
    for owner in dice.sample(owners, len(owners)):
        driver.requests(owner)
    assert len(driver.positions()) == len(owners) - 1
    Walk(driver, dice.random(), OWNERS).go(drawn(300))
    driver.drains()


@pytest.mark.timeout(900)
def test_owners_join_leave_and_return_as_modelled_while_server_crashes(make_server):
    server = make_server(appendonly="yes", appendfsync="always", lock_fair_reserve=LONG_RESERVE)
    driver = FairDriver(server)
    Walk(driver, seed_of_run(), OWNERS[:30], restarts=4).go(drawn(600))
    driver.drains()


# Few owners, and sequences that Hypothesis generates; it shrinks those that fail.

owners = st.sampled_from(OWNERS[:5])
some = st.integers(0, 20)


class FairMachine(RuleBasedStateMachine):
    def __init__(self, on):
        super().__init__()
        self.driver = FairDriver(on)

    @rule(owner=owners, fair=st.booleans(), once=st.booleans())
    def asks(self, owner, fair, once):
        self.driver.requests(owner, fair=fair, once=once)

    @rule(owner=owners, once=st.booleans())
    def joins(self, owner, once):
        self.driver.requests(owner, once=once)

    @rule(owner=owners, fair=st.booleans(), once=st.booleans())
    def tries(self, owner, fair, once):
        self.driver.requests(owner, fair=fair, blocks=False, once=once)

    @rule(owner=owners, fair=st.booleans(), once=st.booleans())
    def requests_and_times_out(self, owner, fair, once):
        self.driver.requests_and_times_out(owner, fair=fair, once=once)

    @precondition(lambda self: self.driver.clients())
    @rule(n=some, how=st.sampled_from(DEATHS))
    def dies(self, n, how):
        clients = self.driver.clients()
        self.driver.dies(clients[n % len(clients)], how)

    @precondition(lambda self: self.driver.model.holder and self.driver.clients())
    @rule(n=some)
    def first_in_line_dies_as_it_is_granted(self, n):
        clients = self.driver.clients_of(self.driver.first_in_line()) or self.driver.clients()
        self.driver.dies_as_it_is_granted(clients[n % len(clients)])

    @precondition(lambda self: self.driver.model.holder)
    @rule()
    def releases(self):
        self.driver.releases(self.driver.model.holder)

    @rule(owner=owners)
    def cancels(self, owner):
        self.driver.cancels(owner)

    @rule(owner=owners)
    def gives_up(self, owner):
        self.driver.gives_up(owner)

    @rule(by_force=st.booleans())
    def frees(self, by_force):
        (self.driver.forces if by_force else self.driver.deletes)()

    def teardown(self):
        on = self.driver.server
        try:
            self.driver.drains()
        finally:
            end_all_positions(on)
            on.control.flushall()


@pytest.mark.timeout(900)
def test_generated_sequences_of_few_owners_are_as_modelled(server):
    effort = settings(
        max_examples=drawn(120), stateful_step_count=40, suppress_health_check=list(HealthCheck)
    )
    run_state_machine_as_test(lambda: FairMachine(server), settings=effort)
