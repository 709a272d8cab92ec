"""What is answered while a quarantine is on, what waits, and who is let in when it is over."""

import pytest

from harness import code_of, scaled_ms, wait_for
from harness.schedule import ANY, BLOCKS, DIES, STILL_BLOCKED, answered, error, granted, has, run_schedule, schedules
from model.fair_scene import assert_written, order
from model.mutations import leave_no_positions
from model.quarantine_scene import ASKS, ASKS_AGAIN, FIRST, HOUR, IN, SEARCHED, OVER, begin, end, left_ms


@pytest.fixture
def server(server):
    leave_no_positions(server)
    return server


each_ask = pytest.mark.parametrize("says, hears", ASKS.values(), ids=ASKS)
each_ask_again = pytest.mark.parametrize("name", ASKS_AGAIN)

# ---- tries and waits ----


@each_ask
def test_try_is_answered_null_and_changes_nothing(server, resp, says, hears):
    run_schedule(server, [IN, ("a", says, None), ("b", "EXISTS k l", 0), OVER, ("a", says, hears)], resp)


@each_ask
def test_wait_waits_and_is_granted_when_it_is_over(server, resp, says, hears):
    waits = [("a", f"{says} BLOCK 0", BLOCKS), ("a", STILL_BLOCKED), ("b", "EXISTS k l", 0)]
    run_schedule(server, [IN, *waits, OVER, ("a", granted(hears)), SEARCHED], resp)


@each_ask_again
def test_reentry_is_answered_null(server, some_resp, name):
    first, _ = ASKS[FIRST.get(name, name)]
    says, hears = ASKS_AGAIN[name]
    run_schedule(server, [("a", first, ANY), IN, ("a", says, None), OVER, ("a", says, hears)], some_resp)


@each_ask_again
def test_reentry_that_waits_comes_before_all_others(server, some_resp, name):
    """Though it asked last: rule 2; but who asks for permits stands behind others, unless it has them."""
    first, _ = ASKS[FIRST.get(name, name)]
    says, hears = ASKS_AGAIN[name]
    steps = [("a", f"{first} PX {HOUR}", ANY), IN, ("a", f"{says} BLOCK 0", BLOCKS), ("a", STILL_BLOCKED), OVER]
    if "permit" in name and "once" not in name:
        run_schedule(server, [*steps, ("a", granted(hears)), SEARCHED], some_resp)
        return
    other = "LOCK.SEMAPHORE k w 4 PERMITS 4 BLOCK 0" if "permits" in name else "LOCK.RWWRITE k w BLOCK 0"
    if name not in ("read", "write", "once, permits"):
        other = "LOCK.FAIR k w BLOCK 0"
    steps.insert(2, ("w", other, BLOCKS))
    run_schedule(server, [*steps, ("a", granted(hears)), ("w", STILL_BLOCKED), SEARCHED], some_resp)


@pytest.mark.parametrize("says", [says for says, _ in ASKS.values() if "SESSION" not in says])
def test_in_multi_and_lua_a_wait_is_a_try(server, says):
    begin(server)
    pipeline = server.control.pipeline(transaction=True)
    pipeline.execute_command(*says.split(), "BLOCK", 0)
    assert pipeline.execute() == [None]
    assert server.control.eval("return redis.call(unpack(ARGV))", 1, "k", *says.split(), "BLOCK", 0) is None


@each_ask
def test_wait_times_out_in_it(server, actor, says, hears):
    begin(server)
    assert actor().call(*says.split(), "BLOCK", scaled_ms(60)) is None
    assert left_ms(server) > 0
    assert server.info("lock")["lock_waiters"] == 0


# ---- what goes on ----

HELD = ("a", f"LOCK.ACQUIRE k a PX {HOUR}", 1)
GOES_ON = {
    "renew": [HELD, IN, ("a", f"LOCK.RENEW k a PX {2 * HOUR}", 1), ("a", "PTTL k", lambda ttl: ttl > HOUR)],
    "renew as a session": [HELD, IN, ("a", "LOCK.RENEW k a SESSION", 1)],
    "renew what nobody holds": [IN, ("a", "LOCK.RENEW k a", error("NOTHELD"))],
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


@schedules(**GOES_ON)
def test_goes_on(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


# ---- hand-offs ----

WAITS = ("b", "LOCK.ACQUIRE k b BLOCK 0", BLOCKS)
NOT_YET = [("b", STILL_BLOCKED), OVER, ("b", granted(1))]


def lease_ends(run):
    """Noticed by the server, and by the module's own timer."""
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
    "cancel of who was ahead": [
        HELD, ("c", "LOCK.FAIR k c BLOCK 0", BLOCKS), WAITS, IN, ("a", "LOCK.RELEASE k a", 0),
        ("d", "LOCK.CANCEL k c", 1), ("c", answered(None)), *NOT_YET,
    ],
    "by hand, to the owner": [IN, WAITS, ("c", "HSET k b 1", 1), ("b", STILL_BLOCKED), OVER, ("b", granted(2))],
    "readers": [
        ("a", "LOCK.RWWRITE k a", 1), ("b", "LOCK.RWREAD k b BLOCK 0", BLOCKS),
        ("c", "LOCK.RWREAD k c BLOCK 0", BLOCKS), IN, ("a", "LOCK.RELEASE k a", 0), ("b", STILL_BLOCKED),
        ("c", STILL_BLOCKED), OVER, ("b", granted(1)), ("c", granted(1)),
    ],
    "permits": [
        ("a", "LOCK.SEMAPHORE k a 2 PERMITS 2", 2), ("b", "LOCK.SEMAPHORE k b 2 BLOCK 0", BLOCKS),
        ("c", "LOCK.SEMAPHORE k c 2 BLOCK 0", BLOCKS), ("d", "LOCK.SEMAPHORE k d 2 BLOCK 0", BLOCKS), IN,
        ("a", "LOCK.RELEASE k a PERMITS 2", 0), ("b", STILL_BLOCKED), ("c", STILL_BLOCKED), OVER,
        ("b", granted(1)), ("c", granted(1)), ("d", STILL_BLOCKED),
    ],
    "several keys": [
        HELD, ("m", "LOCK.MACQUIRE 2 k l m BLOCK 0", BLOCKS), IN, ("a", "LOCK.RELEASE k a", 0), ("m", STILL_BLOCKED),
        OVER, ("m", granted(2)),
    ],
    "fair, in order": [
        IN, *((name, f"LOCK.FAIR k {name} BLOCK 0", BLOCKS) for name in "abc"), OVER, ("a", granted(1)),
        ("b", STILL_BLOCKED), ("a", "LOCK.RELEASE k a", 0), ("b", granted(1)), ("c", STILL_BLOCKED),
    ],
}  # fmt: skip


@schedules(**HAND_OFFS)
def test_nothing_is_handed_off_before_it_is_over(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


# ---- owners that hold, and wait ----



def stand_in_order(run):
    """As they have asked; and so do their tickets."""
    assert order(run.server) == ["w", "a"]
    assert_written(run.server)


READERS = [("a", "LOCK.RWREAD k a", 1), ("b", "LOCK.RWREAD k b", 1)]
HOLDERS = {
    "downgrade": [
        ("a", "LOCK.RWWRITE k a", 1), IN, ("a", "LOCK.RWREAD k a", None), ("a", "LOCK.RWREAD k a BLOCK 0", BLOCKS),
        OVER, ("a", granted(1)), ("a", "LOCK.RELEASE k a WRITE", 0), ("a", "LOCK.RELEASE k a", 0),
    ],
    "upgrade of a sole reader": [
        ("a", "LOCK.RWREAD k a", 1), IN, ("w", "LOCK.RWWRITE k w BLOCK 0", BLOCKS),
        ("a", "LOCK.RWWRITE k a BLOCK 0", BLOCKS), OVER, ("a", granted(1)), ("w", STILL_BLOCKED),
    ],
    "upgrade of one of two": [
        *READERS, IN, ("w", "LOCK.RWWRITE k w BLOCK 0", BLOCKS), ("a", "LOCK.RWWRITE k a BLOCK 0", BLOCKS),
        ("b", "LOCK.RELEASE k b", 0), ("a", STILL_BLOCKED), OVER, ("a", granted(1)), ("w", STILL_BLOCKED),
    ],
    "two upgrades": [
        *READERS, IN, ("a", "LOCK.RWWRITE k a BLOCK 0", BLOCKS), ("b", "LOCK.RWWRITE k b BLOCK 0", error("DEADLOCK")),
    ],
    "upgrade beside another's re-entry": [
        *READERS, IN, ("b", "LOCK.RWREAD k b BLOCK 0", BLOCKS), ("a", "LOCK.RWWRITE k a BLOCK 0", BLOCKS), OVER,
        ("b", granted(2)), ("a", STILL_BLOCKED), ("b", "LOCK.RELEASE k b", 1), ("b", "LOCK.RELEASE k b", 0),
        ("a", granted(1)),
    ],
    "waits for itself": [
        ("a", "LOCK.ACQUIRE k a", 1), IN, ("a", "LOCK.RWREAD k a", None),
        ("a", "LOCK.RWREAD k a BLOCK 0", error("DEADLOCK")),
    ],
    "re-entry that has lost the lock is one of many": [
        ("a", "LOCK.ACQUIRE k a", 1), IN, ("w", "LOCK.ACQUIRE k w BLOCK 0", BLOCKS),
        ("a", "LOCK.ACQUIRE k a BLOCK 0", BLOCKS), ("c", "LOCK.FORCE k", 1), OVER, ("w", granted(1)),
        ("a", STILL_BLOCKED),
    ],
    "several keys of which it holds one": [
        ("a", "LOCK.ACQUIRE k a", 1), IN, ("w", "LOCK.ACQUIRE k w BLOCK 0", BLOCKS),
        ("a", "LOCK.MACQUIRE 2 k l a BLOCK 0", BLOCKS), OVER, ("a", granted(2)), ("w", STILL_BLOCKED),
    ],
    "fair re-entry stays where it stands, whatever is done to the key": [
        ("a", "LOCK.ACQUIRE k a", 1), IN, ("w", "LOCK.FAIR k w BLOCK 0", BLOCKS),
        ("a", "LOCK.FAIR k a BLOCK 0", BLOCKS), ("c", f"PEXPIRE k {HOUR}", 1), ("w", STILL_BLOCKED), (stand_in_order,),
        OVER, ("a", granted(2)), ("w", STILL_BLOCKED),
    ],
    "two waits by once": [
        ("a", "LOCK.ACQUIRE k o ONCE", 1), IN, ("b", "LOCK.ACQUIRE k o ONCE BLOCK 0", BLOCKS),
        ("c", "LOCK.ACQUIRE k o ONCE BLOCK 0", BLOCKS), OVER, ("b", granted(1)), ("c", granted(1)),
        ("a", "LOCK.RELEASE k o", 0),
    ],
}  # fmt: skip


@schedules(**HOLDERS)
def test_holder_that_waits(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


# ---- cycles ----

CROSSWISE = [
    ("a", "LOCK.ACQUIRE x a", 1), ("b", "LOCK.ACQUIRE y b", 1), IN,
    ("a", "LOCK.ACQUIRE y a BLOCK 0", BLOCKS), ("b", "LOCK.ACQUIRE x b BLOCK 0", BLOCKS), ("b", STILL_BLOCKED),
]  # fmt: skip


def is_unsearched(run):
    assert run.server.info("lock")["lock_waiters_unsearched"] == 2


CYCLES = {
    "is refused when it is over": [
        *CROSSWISE, (is_unsearched,), OVER, ("b", answered(error("DEADLOCK"))), ("a", STILL_BLOCKED),
    ],
    "is none when a holder has gone by then": [
        *CROSSWISE, ("c", "LOCK.FORCE x", 1), OVER, ("b", granted(1)), ("a", STILL_BLOCKED), SEARCHED,
    ],
    "is not made by a re-entry behind others": [
        ("a", "LOCK.ACQUIRE x a", 1), IN, ("b", "LOCK.ACQUIRE x b BLOCK 0", BLOCKS),
        ("a", "LOCK.ACQUIRE x a BLOCK 0", BLOCKS), OVER, ("a", granted(2)), ("b", STILL_BLOCKED), SEARCHED,
    ],
}  # fmt: skip


@schedules(**CYCLES)
def test_cycle(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


def test_no_cycle_is_seen_before_holders_in_the_middle_are_let_in(server, actor, no_lease_ends):
    """The passes that follow the end take many turns, and each turn makes a search: with re-entries that still stand
    behind others."""
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


def test_reentry_among_very_many_holders(server, actor, no_lease_ends):
    """With a fair position before it, which is looked at for its reserve first."""
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


def test_thousands_are_let_in_when_it_is_over(server, actor, no_lease_ends):
    begin(server)
    readers = [actor() for _ in range(1500)]
    for number, reader in enumerate(readers):
        reader.send("LOCK.RWREAD", "k", f"o{number}", "BLOCK", 0)
    wait_for(lambda: server.info("lock")["lock_waiters"] == len(readers), 30, "all to wait")
    end(server)
    assert [reader.reply(timeout=30) for reader in readers] == [1] * len(readers)


def test_error_of_a_wrong_argument_comes_in_it_too(server, actor):
    begin(server)
    assert code_of(actor().attempt("LOCK.ACQUIRE", "k", "o", "PX", 0)) == "ERR"
