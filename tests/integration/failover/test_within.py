"""The replies during a quarantine, the requests that wait, and the grants when it has ended."""

import pytest

from harness import code_of, scaled_ms, wait_for
from harness.schedule import ANY, BLOCKS, DIES, STILL_BLOCKED, answered, error, granted, has, run_schedule, schedules
from model.fair_scene import assert_written, order
from model.mutations import leave_no_positions
from model.quarantine_scene import REQUESTS, REQUESTS_AGAIN, FIRST, HOUR, IN, SEARCHED, ENDED, begin, end, left_ms


@pytest.fixture
def server(server):
    leave_no_positions(server)
    return server


each_request = pytest.mark.parametrize("command, reply", REQUESTS.values(), ids=REQUESTS)
each_request_again = pytest.mark.parametrize("name", REQUESTS_AGAIN)

# ---- tries and waits ----


@each_request
def test_try_is_replied_null_and_changes_nothing(server, resp, command, reply):
    run_schedule(server, [IN, ("a", command, None), ("b", "EXISTS k l", 0), ENDED, ("a", command, reply)], resp)


@each_request
def test_waiter_is_granted_when_the_quarantine_has_ended(server, resp, command, reply):
    waits = [("a", f"{command} BLOCK 0", BLOCKS), ("a", STILL_BLOCKED), ("b", "EXISTS k l", 0)]
    run_schedule(server, [IN, *waits, ENDED, ("a", granted(reply)), SEARCHED], resp)


@each_request_again
def test_reentry_is_replied_null(server, some_resp, name):
    first, _ = REQUESTS[FIRST.get(name, name)]
    command, reply = REQUESTS_AGAIN[name]
    run_schedule(server, [("a", first, ANY), IN, ("a", command, None), ENDED, ("a", command, reply)], some_resp)


@each_request_again
def test_reentry_that_waits_is_granted_before_all_others(server, some_resp, name):
    """Although it was requested last: rule 2. But a request for permits queues behind others, unless its owner has
    them."""
    first, _ = REQUESTS[FIRST.get(name, name)]
    command, reply = REQUESTS_AGAIN[name]
    steps = [("a", f"{first} PX {HOUR}", ANY), IN, ("a", f"{command} BLOCK 0", BLOCKS), ("a", STILL_BLOCKED), ENDED]
    if "permit" in name and "once" not in name:
        run_schedule(server, [*steps, ("a", granted(reply)), SEARCHED], some_resp)
        return
    other = "LOCK.SEMAPHORE k w 4 PERMITS 4 BLOCK 0" if "permits" in name else "LOCK.RWWRITE k w BLOCK 0"
    if name not in ("read", "write", "once, permits"):
        other = "LOCK.FAIR k w BLOCK 0"
    steps.insert(2, ("w", other, BLOCKS))
    run_schedule(server, [*steps, ("a", granted(reply)), ("w", STILL_BLOCKED), SEARCHED], some_resp)


@pytest.mark.parametrize("command", [command for command, _ in REQUESTS.values() if "SESSION" not in command])
def test_wait_in_multi_or_lua_is_a_try(server, command):
    begin(server)
    pipeline = server.control.pipeline(transaction=True)
    pipeline.execute_command(*command.split(), "BLOCK", 0)
    assert pipeline.execute() == [None]
    assert server.control.eval("return redis.call(unpack(ARGV))", 1, "k", *command.split(), "BLOCK", 0) is None


@each_request
def test_wait_times_out_in_a_quarantine(server, actor, command, reply):
    begin(server)
    assert actor().call(*command.split(), "BLOCK", scaled_ms(60)) is None
    assert left_ms(server) > 0
    assert server.info("lock")["lock_waiters"] == 0


# ---- commands that work in a quarantine ----

HELD = ("a", f"LOCK.ACQUIRE k a PX {HOUR}", 1)
WORKS = {
    "renew": [HELD, IN, ("a", f"LOCK.RENEW k a PX {2 * HOUR}", 1), ("a", "PTTL k", lambda ttl: ttl > HOUR)],
    "renew as a session": [HELD, IN, ("a", "LOCK.RENEW k a SESSION", 1)],
    "renew a free lock": [IN, ("a", "LOCK.RENEW k a", error("NOTHELD"))],
    "release": [HELD, IN, ("a", "LOCK.RELEASE k a", 0), ("a", "EXISTS k", 0)],
    "release one of two": [HELD, ("a", "LOCK.ACQUIRE k a", 2), IN, ("a", "LOCK.RELEASE k a", 1)],
    "release permits": [("a", "LOCK.SEMAPHORE k a 3 PERMITS 2", 2), IN, ("a", "LOCK.RELEASE k a", 1)],
    "multi-key release": [
        ("a", "LOCK.MACQUIRE 2 k l a", 2), IN, ("a", "LOCK.MRELEASE 2 k l a", 2), ("a", "EXISTS k l", 0),
    ],
    "force": [HELD, IN, ("b", "LOCK.FORCE k", 1), ("b", "EXISTS k", 0)],
    "guard": [HELD, IN, ("b", "LOCK.GUARD k a SET x 1", "OK"), ("b", "LOCK.GUARD k b SET x 2", error("NOTHELD"))],
    "info": [HELD, IN, ("b", "LOCK.INFO k", has(mode="exclusive", waiting=0)), ("b", "LOCK.INFO l", None)],
    "info of a free lock": [
        IN, ("a", "LOCK.FAIR k a BLOCK 0", BLOCKS), ("b", "LOCK.INFO k", has(mode="free", waiting=1)),
    ],
    "cancel": [IN, ("a", "LOCK.FAIR k a BLOCK 0", BLOCKS), ("b", "LOCK.CANCEL k a", 1), ("a", answered(None))],
    "give up": [
        HELD, IN, ("a", "LOCK.CANCEL k a RELEASE", 2), ("a", "EXISTS k", 0),
        ("a", "LOCK.FAIR k a BLOCK 0", BLOCKS), ("b", "LOCK.CANCEL k a RELEASE", 1), ("a", answered(None)),
    ],
    "wrong type": [("a", "SET k v", "OK"), IN, ("a", "LOCK.ACQUIRE k a", error("WRONGTYPE"))],
    "watch": [HELD, IN, ("w", "LOCK.WATCH k a BLOCK 0", BLOCKS), ("a", "LOCK.RELEASE k a", 0), ("w", answered("LOST"))],
    "watch, wanted": [
        HELD, IN, ("w", "LOCK.WATCH k a WANTED BLOCK 0", BLOCKS),
        ("b", "LOCK.ACQUIRE k b BLOCK 0", BLOCKS), ("w", answered("WANTED")),
    ],
    "latch": [
        IN, ("a", "LATCH.SET k 1", "OK"), ("b", "LATCH.WAIT k BLOCK 0", BLOCKS),
        ("a", "LATCH.DOWN k", 0), ("b", answered(1)),
    ],
    "delayed queue": [IN, ("b", "BLPOP x 0", BLOCKS), ("a", "DELAY.PUSH x i 1 v", "i"), ("b", answered(["x", "v"]))],
}  # fmt: skip


@schedules(**WORKS)
def test_command_works_in_a_quarantine(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


# ---- hand-offs ----

WAITS = ("b", "LOCK.ACQUIRE k b BLOCK 0", BLOCKS)
NOT_YET = [("b", STILL_BLOCKED), ENDED, ("b", granted(1))]


def lease_ends(run):
    """The server notices it, and the module's own timer."""
    run.server.control.pexpire("k", 1)
    wait_for(lambda: not run.server.control.exists("k"), what="the lease to end")
    run.server.settle()


HAND_OFFS = {
    "release": [HELD, WAITS, IN, ("a", "LOCK.RELEASE k a", 0), *NOT_YET],
    "give up": [HELD, WAITS, IN, ("c", "LOCK.CANCEL k a RELEASE", 2), *NOT_YET],
    "multi-key release": [("a", "LOCK.MACQUIRE 2 k l a", 2), WAITS, IN, ("a", "LOCK.MRELEASE 2 k l a", 2), *NOT_YET],
    "force": [HELD, WAITS, IN, ("c", "LOCK.FORCE k", 1), *NOT_YET],
    "delete": [HELD, WAITS, IN, ("c", "DEL k", 1), *NOT_YET],
    "flush": [HELD, WAITS, IN, ("c", "FLUSHALL", "OK"), *NOT_YET],
    "lease": [HELD, WAITS, IN, (lease_ends,), *NOT_YET],
    "session": [
        ("q", "CONFIG SET lock.session-grace 0", "OK"), ("a", "LOCK.ACQUIRE k a SESSION", 1), WAITS, IN, ("a", DIES),
        (lambda run: wait_for(lambda: not run.server.control.exists("k"), what="the session to end"),), *NOT_YET,
    ],
    "cancel of the waiter ahead": [
        HELD, ("c", "LOCK.FAIR k c BLOCK 0", BLOCKS), WAITS, IN, ("a", "LOCK.RELEASE k a", 0),
        ("d", "LOCK.CANCEL k c", 1), ("c", answered(None)), *NOT_YET,
    ],
    "written by another client, to the owner": [IN, WAITS, ("c", "HSET k b 1", 1), ("b", STILL_BLOCKED), ENDED, ("b", granted(2))],
    "readers": [
        ("a", "LOCK.RWWRITE k a", 1), ("b", "LOCK.RWREAD k b BLOCK 0", BLOCKS),
        ("c", "LOCK.RWREAD k c BLOCK 0", BLOCKS), IN, ("a", "LOCK.RELEASE k a", 0), ("b", STILL_BLOCKED),
        ("c", STILL_BLOCKED), ENDED, ("b", granted(1)), ("c", granted(1)),
    ],
    "permits": [
        ("a", "LOCK.SEMAPHORE k a 2 PERMITS 2", 2), ("b", "LOCK.SEMAPHORE k b 2 BLOCK 0", BLOCKS),
        ("c", "LOCK.SEMAPHORE k c 2 BLOCK 0", BLOCKS), ("d", "LOCK.SEMAPHORE k d 2 BLOCK 0", BLOCKS), IN,
        ("a", "LOCK.RELEASE k a PERMITS 2", 0), ("b", STILL_BLOCKED), ("c", STILL_BLOCKED), ENDED,
        ("b", granted(1)), ("c", granted(1)), ("d", STILL_BLOCKED),
    ],
    "several keys": [
        HELD, ("m", "LOCK.MACQUIRE 2 k l m BLOCK 0", BLOCKS), IN, ("a", "LOCK.RELEASE k a", 0), ("m", STILL_BLOCKED),
        ENDED, ("m", granted(2)),
    ],
    "fair, in order": [
        IN, *((name, f"LOCK.FAIR k {name} BLOCK 0", BLOCKS) for name in "abc"), ENDED, ("a", granted(1)),
        ("b", STILL_BLOCKED), ("a", "LOCK.RELEASE k a", 0), ("b", granted(1)), ("c", STILL_BLOCKED),
    ],
}  # fmt: skip


@schedules(**HAND_OFFS)
def test_nothing_is_handed_off_before_the_quarantine_has_ended(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


# ---- owners that hold, and wait ----



def are_in_order(run):
    """They are in the order of their requests, and so are their tickets."""
    assert order(run.server) == ["w", "a"]
    assert_written(run.server)


READERS = [("a", "LOCK.RWREAD k a", 1), ("b", "LOCK.RWREAD k b", 1)]
HOLDERS = {
    "downgrade": [
        ("a", "LOCK.RWWRITE k a", 1), IN, ("a", "LOCK.RWREAD k a", None), ("a", "LOCK.RWREAD k a BLOCK 0", BLOCKS),
        ENDED, ("a", granted(1)), ("a", "LOCK.RELEASE k a WRITE", 0), ("a", "LOCK.RELEASE k a", 0),
    ],
    "upgrade of a sole reader": [
        ("a", "LOCK.RWREAD k a", 1), IN, ("w", "LOCK.RWWRITE k w BLOCK 0", BLOCKS),
        ("a", "LOCK.RWWRITE k a BLOCK 0", BLOCKS), ENDED, ("a", granted(1)), ("w", STILL_BLOCKED),
    ],
    "upgrade of one of two": [
        *READERS, IN, ("w", "LOCK.RWWRITE k w BLOCK 0", BLOCKS), ("a", "LOCK.RWWRITE k a BLOCK 0", BLOCKS),
        ("b", "LOCK.RELEASE k b", 0), ("a", STILL_BLOCKED), ENDED, ("a", granted(1)), ("w", STILL_BLOCKED),
    ],
    "two upgrades": [
        *READERS, IN, ("a", "LOCK.RWWRITE k a BLOCK 0", BLOCKS), ("b", "LOCK.RWWRITE k b BLOCK 0", error("DEADLOCK")),
    ],
    "upgrade and another's re-entry": [
        *READERS, IN, ("b", "LOCK.RWREAD k b BLOCK 0", BLOCKS), ("a", "LOCK.RWWRITE k a BLOCK 0", BLOCKS), ENDED,
        ("b", granted(2)), ("a", STILL_BLOCKED), ("b", "LOCK.RELEASE k b", 1), ("b", "LOCK.RELEASE k b", 0),
        ("a", granted(1)),
    ],
    "waits for itself": [
        ("a", "LOCK.ACQUIRE k a", 1), IN, ("a", "LOCK.RWREAD k a", None),
        ("a", "LOCK.RWREAD k a BLOCK 0", error("DEADLOCK")),
    ],
    "re-entry that has lost the lock waits like others": [
        ("a", "LOCK.ACQUIRE k a", 1), IN, ("w", "LOCK.ACQUIRE k w BLOCK 0", BLOCKS),
        ("a", "LOCK.ACQUIRE k a BLOCK 0", BLOCKS), ("c", "LOCK.FORCE k", 1), ENDED, ("w", granted(1)),
        ("a", STILL_BLOCKED),
    ],
    "several keys of which it holds one": [
        ("a", "LOCK.ACQUIRE k a", 1), IN, ("w", "LOCK.ACQUIRE k w BLOCK 0", BLOCKS),
        ("a", "LOCK.MACQUIRE 2 k l a BLOCK 0", BLOCKS), ENDED, ("a", granted(2)), ("w", STILL_BLOCKED),
    ],
    "fair re-entry keeps its position when the key changes": [
        ("a", "LOCK.ACQUIRE k a", 1), IN, ("w", "LOCK.FAIR k w BLOCK 0", BLOCKS),
        ("a", "LOCK.FAIR k a BLOCK 0", BLOCKS), ("c", f"PEXPIRE k {HOUR}", 1), ("w", STILL_BLOCKED), (are_in_order,),
        ENDED, ("a", granted(2)), ("w", STILL_BLOCKED),
    ],
    "two waits by once": [
        ("a", "LOCK.ACQUIRE k o ONCE", 1), IN, ("b", "LOCK.ACQUIRE k o ONCE BLOCK 0", BLOCKS),
        ("c", "LOCK.ACQUIRE k o ONCE BLOCK 0", BLOCKS), ENDED, ("b", granted(1)), ("c", granted(1)),
        ("a", "LOCK.RELEASE k o", 0),
    ],
}  # fmt: skip


@schedules(**HOLDERS)
def test_waits_of_holders_follow_the_rules_after_a_quarantine(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


# ---- cycles ----

CROSSWISE = [
    ("a", "LOCK.ACQUIRE x a", 1), ("b", "LOCK.ACQUIRE y b", 1), IN,
    ("a", "LOCK.ACQUIRE y a BLOCK 0", BLOCKS), ("b", "LOCK.ACQUIRE x b BLOCK 0", BLOCKS), ("b", STILL_BLOCKED),
]  # fmt: skip


def is_unsearched(run):
    assert run.server.info("lock")["lock_waiters_unsearched"] == 2


CYCLES = {
    "is refused when the quarantine has ended": [
        *CROSSWISE, (is_unsearched,), ENDED, ("b", answered(error("DEADLOCK"))), ("a", STILL_BLOCKED),
    ],
    "is none if a holder has ended by then": [
        *CROSSWISE, ("c", "LOCK.FORCE x", 1), ENDED, ("b", granted(1)), ("a", STILL_BLOCKED), SEARCHED,
    ],
    "is not closed by a re-entry behind others": [
        ("a", "LOCK.ACQUIRE x a", 1), IN, ("b", "LOCK.ACQUIRE x b BLOCK 0", BLOCKS),
        ("a", "LOCK.ACQUIRE x a BLOCK 0", BLOCKS), ENDED, ("a", granted(2)), ("b", STILL_BLOCKED), SEARCHED,
    ],
}  # fmt: skip


@schedules(**CYCLES)
def test_cycle_is_refused_only_after_the_quarantine(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


def test_no_cycle_is_found_before_waiting_holders_are_granted(server, actor, no_lease_ends):
    """The grant passes after the end take many time slices, and a search runs in each: while re-entries are still
    behind others in the queue."""
    locks = [f"k{number}" for number in range(600)]
    few = locks[:20]
    for lock in locks:
        server.control.execute_command("LOCK.ACQUIRE", lock, "a")
    begin(server)
    others, again = [], []
    for lock in locks:
        for owner, waits in (("b", others), ("a", again if lock in few else None)):
            if waits is not None:
                waits.append(actor())
                waits[-1].send("LOCK.ACQUIRE", lock, owner, "BLOCK", 0)
                if lock in few:  # in this order
                    waits[-1].wait_blocked()
    wait_for(lambda: server.info("lock")["lock_waiters"] == len(locks) + len(few), 30, "all to wait")
    end(server)
    assert [client.outcome() for client in again] == [2] * len(few)
    server.all_searched()
    assert not any(client.has_reply() for client in others)


# ---- many ----


def test_reentry_among_many_holders_is_granted(server, actor, no_lease_ends):
    """With a fair position ahead of it, whose reserve is checked first."""
    for number in range(70):
        server.control.execute_command("LOCK.RWREAD", "k", f"o{number}")
    begin(server)
    writer, again = actor(), actor()
    for waiter, words in ((writer, ("LOCK.FAIR", "k", "w")), (again, ("LOCK.RWREAD", "k", "o7"))):
        waiter.send(*words, "BLOCK", 0)
        waiter.wait_blocked()
    end(server)
    assert again.reply() == 2
    assert not writer.has_reply()


def test_thousands_are_granted_when_the_quarantine_has_ended(server, actor, no_lease_ends):
    begin(server)
    readers = [actor() for _ in range(1500)]
    for number, reader in enumerate(readers):
        reader.send("LOCK.RWREAD", "k", f"o{number}", "BLOCK", 0)
    wait_for(lambda: server.info("lock")["lock_waiters"] == len(readers), 30, "all to wait")
    end(server)
    assert [reader.reply(timeout=30) for reader in readers] == [1] * len(readers)


def test_wrong_argument_is_an_error_in_a_quarantine_too(server, actor):
    begin(server)
    assert code_of(actor().attempt("LOCK.ACQUIRE", "k", "o", "PX", 0)) == "ERR"
