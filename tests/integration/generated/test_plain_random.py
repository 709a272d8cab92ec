"""Any sequence of commands, with several clients, owners and keys: the server does what the model does.

A failure prints the shortest sequence that Hypothesis found, and how to repeat it. If a run failed only once, its seed
is in its output; LOCK_SEED=… runs with that seed.
"""


import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from hypothesis.stateful import run_state_machine_as_test

from harness import code_of, drawn, wait_for
from harness.schedule import as_map
from harness.seeds import seed_of_run
from model import EXCLUSIVE, WAITS, Lock, Refused, Request

CLIENTS = ("c1", "c2", "c3", "c4", "c5", "c6")
OWNERS = ("oa", "ob", "oc")
KEYS = ("k", "l")
LEASE = 3_600_000

# The number of sequences; a run that is not thorough plays a part of them.
EXAMPLES = 500
# How long, in s, the server may take to reach the state of the model. Short, because shrinking a failure waits often.
PATIENCE = 2.0

keys, owners = st.sampled_from(KEYS), st.sampled_from(OWNERS)
some = st.integers(0, len(CLIENTS) - 1)

REMOVALS = ("DEL {k}", "UNLINK {k}", "RENAME {k} elsewhere", "PEXPIREAT {k} 1", "PEXPIRE {k} -1", "FLUSHALL")
DIES = ("reset", "close", "kill")


def chosen(candidates, n):
    return candidates[n % len(candidates)]


def code_or_value(answer):
    """An error as its code, anything else as it is."""
    return code_of(answer) if isinstance(answer, Exception) else answer


class LockMachine(RuleBasedStateMachine):
    """The server and the model receive the same commands and are then compared."""

    def __init__(self, server):
        super().__init__()
        self.server = server
        all_locks = []
        self.locks = {key: Lock(all_locks) for key in KEYS}
        self.outsider = server.actor("outsider")
        self.actors, self.waits_for = {}, {}
        self.can_unblock = server.is_valkey or server.version >= (7, 4)

    # Clients

    def actor(self, client):
        if client not in self.actors:
            self.actors[client] = self.server.actor(client)
        return self.actors[client]

    def idle(self):
        return [client for client in CLIENTS if client not in self.waits_for]

    def waiting(self):
        return [client for client in CLIENTS if client in self.waits_for]

    # Both get the same commands

    def in_model(self, key, command, *args):
        try:
            return getattr(self.locks[key], command)(*args)
        except Refused as refusal:
            return refusal.code

    def compare(self, *, at_once):
        """Compares which waits ended and with which reply; then LOCK.INFO of each lock.

        After a command of the module the server must have this state `at_once`; after anything else
        it may have to wait for the drain.
        """
        for lock in self.locks.values():
            for client, answer in lock.take_ended().items():
                self.expect_reply(client, answer)
        if at_once:
            assert self.all_as_modelled()
        else:
            wait_for(self.all_as_modelled, PATIENCE, "the server to reach the state of the model")
        for client in self.waiting():
            assert not self.actors[client].has_reply(), f"{client} received {self.actors[client].outcome()!r}"

    def expect_reply(self, client, answer):
        del self.waits_for[client]
        if client in self.actors:  # it is alive
            got = code_or_value(self.actors[client].outcome())
            assert got == answer, f"{client} received {got!r}, not {answer!r}"

    def all_as_modelled(self):
        for key, lock in self.locks.items():
            assert self.seen(key) == self.modelled(lock), f"LOCK.INFO {key} differs"
        info = self.server.info("lock")
        assert info["lock_waiters"] == len(self.waits_for)
        assert info["lock_contended_locks"] == sum(1 for lock in self.locks.values() if lock.queue)
        return True

    def seen(self, key):
        got = self.outsider.attempt("LOCK.INFO", key, "COUNT", len(CLIENTS))
        if isinstance(got, Exception):
            return code_of(got)
        if got is None:
            return None
        info = as_map(got)
        holds = {(one["owner"], one["mode"]): one["holds"] for one in map(as_map, info["holders"])}
        queue = [(one["owner"], one["mode"], one["client"]) for one in map(as_map, info["waiters"])]
        assert info["waiting"] == len(queue)
        return info["mode"], holds, queue

    def modelled(self, lock):
        if not lock.is_lock:
            return "WRONGTYPE"
        if not lock.holds and not lock.queue:
            return None
        mode = next(iter(lock.holds), ("", "free"))[1]
        ids = {client: actor.client_id for client, actor in self.actors.items()}
        queue = [(request.owner, request.mode, ids[request.client]) for request in lock.queue]
        return mode, dict(lock.holds), queue

    # The commands of the module

    def acquires(self, client, key, owner, block):
        """It is granted, gets null, waits, or is refused because it would close a cycle."""
        actor, request = self.actor(client), Request(owner, client, EXCLUSIVE)
        actor.send("LOCK.ACQUIRE", key, owner, "PX", LEASE, *(() if block is None else ("BLOCK", block)))
        expected = self.in_model(key, "acquire", request, block is not None)
        if expected == WAITS:
            self.waits_for[client] = key
            actor.wait_blocked()
            self.server.all_searched()  # as in the model, before anything else happens
        else:
            assert code_or_value(actor.outcome(PATIENCE)) == expected
        self.compare(at_once=True)

    @initialize(arrivals=st.lists(st.tuples(keys, owners), min_size=2, max_size=len(CLIENTS)))
    def some_arrive(self, arrivals):
        for client, (key, owner) in zip(CLIENTS, arrivals, strict=False):
            self.acquires(client, key, owner, 0)

    # Two rules, so that almost every sequence has requests after the beginning.
    @precondition(lambda self: self.idle())
    @rule(n=some, key=keys, owner=owners, block=st.sampled_from((0, LEASE)))
    def acquire_and_wait(self, n, key, owner, block):
        self.acquires(chosen(self.idle(), n), key, owner, block)

    @precondition(lambda self: self.idle())
    @rule(n=some, key=keys, owner=owners, block=st.sampled_from((None, 0)))
    def acquire(self, n, key, owner, block):
        self.acquires(chosen(self.idle(), n), key, owner, block)

    def held(self):
        return [(key, owner) for key, lock in self.locks.items() for owner, _ in lock.holds]

    @precondition(lambda self: self.held())
    @rule(n=some)
    def holder_releases(self, n):
        self.send("RELEASE", *chosen(self.held(), n))

    @rule(key=keys, owner=owners, command=st.sampled_from(("RELEASE", "RENEW", "CANCEL", "FORCE")))
    def outsider_sends(self, command, key, owner):
        self.send(command, key, *(() if command == "FORCE" else (owner,)))

    @rule(key=keys, owner=owners)
    def outsider_cancels_and_releases(self, key, owner):
        reply = code_or_value(self.outsider.attempt("LOCK.CANCEL", key, owner, "RELEASE"))
        assert reply == self.in_model(key, "give_up", owner)
        self.compare(at_once=True)

    def send(self, command, key, *args):
        reply = code_or_value(self.outsider.attempt("LOCK." + command, key, *args))
        assert reply == self.in_model(key, command.lower(), *args)
        self.compare(at_once=True)

    # What another client does to the key

    @rule(key=keys, command=st.sampled_from(REMOVALS))
    def key_is_removed(self, key, command):
        self.outsider.attempt(*command.format(k=key).split())
        for gone in KEYS if command == "FLUSHALL" else (key,):
            self.in_model(gone, "gone")
        self.compare(at_once=False)

    @rule(key=keys, owner=st.one_of(st.none(), owners))
    def key_is_written_directly(self, key, owner):
        """It gets a value that is no lock, or a hold of this owner."""
        if owner is None:
            self.outsider.call("SET", key, "no lock")
            self.in_model(key, "overwritten")
        else:
            self.transaction(("DEL", key), ("HSET", key, owner, 1))
            self.in_model(key, "given", owner)
        self.compare(at_once=False)

    def transaction(self, *commands):
        for words in (("MULTI",), *commands):
            self.outsider.call(*words)
        return self.outsider.call("EXEC")

    # How clients end

    @precondition(lambda self: self.waiting())
    @rule(n=some, how=st.sampled_from(DIES))
    def waiter_dies(self, n, how):
        client = chosen(self.waiting(), n)
        actor = self.actors[client]
        if how == "reset":
            actor.kill_socket()
        elif how == "close":
            actor.close()
        else:
            self.outsider.call("CLIENT", "KILL", "ID", actor.client_id)
        self.forget(client)
        self.in_model(self.waits_for[client], "left", client)
        self.compare(at_once=False)

    def forget(self, client):
        del self.actors[client]

    @precondition(lambda self: self.waiting())
    @rule(n=some, owner=owners)
    def waiter_dies_in_the_transaction_of_a_release(self, n, owner):
        """If it is granted there, its hold is released and handed off."""
        client = chosen(self.waiting(), n)
        key, lock = self.waits_for[client], self.locks[self.waits_for[client]]
        request = next(request for request in lock.queue if request.client == client)
        kill = ("CLIENT", "KILL", "ID", self.actors[client].client_id)
        self.transaction(("LOCK.RELEASE", key, owner), kill)
        self.forget(client)
        self.in_model(key, "release", owner)
        if request in lock.queue:
            self.in_model(key, "left", client)
        else:
            self.in_model(key, "release", request.owner, request.mode)
        self.compare(at_once=False)

    @precondition(lambda self: self.waiting() and self.can_unblock)
    @rule(n=some, how=st.sampled_from(("TIMEOUT", "ERROR")))
    def waiter_is_unblocked(self, n, how):
        client = chosen(self.waiting(), n)
        assert self.outsider.call("CLIENT", "UNBLOCK", self.actors[client].client_id, how) == 1
        self.in_model(self.waits_for[client], "left", client, None if how == "TIMEOUT" else "UNBLOCKED")
        self.compare(at_once=False)

    def teardown(self):
        """All clients disconnect, then all locks are deleted: nothing is left."""
        self.server.disconnect_clients()
        control = self.server.control

        def no_client_waits():
            info = self.server.info("lock")
            left = info["lock_waiters"], info["lock_contended_locks"], self.server.blocked_clients()
            assert left == (0, 0, 0), f"left: waiters, contended locks, blocked clients = {left}"
            return True

        wait_for(no_client_waits, PATIENCE)
        control.flushall()
        for key in KEYS:
            assert control.execute_command("LOCK.INFO", key) is None


@pytest.mark.timeout(900)
def test_server_does_as_the_model_does(server):
    number = seed_of_run()

    @seed(number)
    def machine():
        return LockMachine(server)

    effort = settings(
        max_examples=drawn(EXAMPLES),
        stateful_step_count=50,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=effort)
