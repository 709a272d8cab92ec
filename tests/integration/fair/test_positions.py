"""A position in a fair queue: its owner's next request takes it over, and it can be given up.

Positions are kept for an hour here, so that time does not matter; test_reserve.py tests when they end.
"""

from harness import scaled_ms, wait_for
from harness.schedule import STILL_BLOCKED, answered, error, granted, schedules
from model.fair_scene import ENDS, HOUR, QUEUE, ask, granted_ms, hold, order, release
from model.fair_scene import server  # noqa: F401
from model.fair_steps import A_HOLDS, A_RELEASES, gone, play, queue_is, releases, time_passes, waits, waits_plainly

A_WHILE = scaled_ms(250)


TAKEN_OVER = dict(
    at_the_head=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        waits("b2", "ob"),
        ("b", answered(None)),
        queue_is("ob", "oc"),
        A_RELEASES,
        ("b2", granted(1)),
        releases("b2", "ob"),
        ("c", granted(1)),
    ],
    in_the_middle=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        waits("d"),
        waits("c2", "oc"),
        ("c", answered(None)),
        queue_is("ob", "oc", "od"),
        A_RELEASES,
        ("b", granted(1)),
        releases("b"),
        ("c2", granted(1)),
        ("d", STILL_BLOCKED),
    ],
    again_and_again=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        waits("b2", "ob"),
        ("b", answered(None)),
        waits("b", "ob"),
        ("b2", answered(None)),
        waits("b3", "ob"),
        ("b", answered(None)),
        queue_is("ob", "oc"),
        A_RELEASES,
        ("b3", granted(1)),
    ],
    when_detached=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        waits("d"),
        *gone("c"),
        *gone("b"),
        waits("c2", "oc"),
        waits("b2", "ob"),
        queue_is("ob", "oc", "od"),
        A_RELEASES,
        ("b2", granted(1)),
        releases("b2", "ob"),
        ("c2", granted(1)),
        releases("c2", "oc"),
        ("d", granted(1)),
    ],
    lost_and_taken_over_several_times=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        *gone("b"),
        waits("b2", "ob"),
        *gone("b2", "ob"),
        waits("b3", "ob"),
        *gone("b3", "ob"),
        waits("b4", "ob"),
        queue_is("ob", "oc"),
        A_RELEASES,
        ("b4", granted(1)),
    ],
    deadline_is_that_of_the_last_request=[
        A_HOLDS,
        waits("b", block_ms=A_WHILE),
        waits("c"),
        waits("b2", "ob"),
        ("b", answered(None)),
        time_passes(100),
        ("b2", STILL_BLOCKED),
        waits("b3", "ob", A_WHILE),
        ("b2", answered(None)),
        ("b3", answered(None)),
        queue_is("oc"),
    ],
    by_a_connection_that_waited_for_another_owner=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        ("z", "LOCK.CANCEL k ob", 1),
        ("b", answered(None)),
        waits("b", "oc"),
        ("c", answered(None)),
        A_RELEASES,
        ("b", granted(1)),
    ],
    plain_waiters_of_the_owner_are_not_its_position=[
        A_HOLDS,
        waits_plainly("p", "ob"),
        waits("c"),
        waits("b"),
        waits("b2", "ob"),
        ("b", answered(None)),
        ("p", STILL_BLOCKED),
        queue_is("ob", "oc", "ob"),
        A_RELEASES,
        ("p", granted(1)),
        ("b2", granted(2)),
        queue_is("oc"),
    ],
)


@schedules(**TAKEN_OVER)
def test_owner_has_one_position_which_its_last_request_takes_over(server, some_resp, schedule):
    play(server, schedule, some_resp)


def test_lease_is_that_of_the_last_request(server, actor):
    hold(server)
    ask(server, "ob", "BLOCK", 0)
    second = actor()
    second.send("LOCK.FAIR", "k", "ob", "PX", 2 * HOUR, "BLOCK", 0)
    second.wait_blocked()
    before = server.now_ms()
    release(server, "oa")
    assert second.reply() == 1
    assert before + 2 * HOUR <= granted_ms(server) + HOUR <= server.now_ms() + 2 * HOUR


def test_request_that_takes_over_a_position_does_not_exceed_max_waiters(server, actor):
    server.control.config_set("lock.max-waiters", 1)
    hold(server)
    first = ask(server, "ob")
    assert error("ERR", "too many waiters")(actor().attempt("LOCK.FAIR", "k", "oc", "BLOCK", 0))
    second = ask(server, "ob")
    assert first.reply() is None
    release(server, "oa")
    assert second.reply() == 1


GIVEN_UP = dict(
    cancelled_at_the_head=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        ("z", "LOCK.CANCEL k ob", 1),
        ("b", answered(None)),
        ("c", STILL_BLOCKED),
        A_RELEASES,
        ("c", granted(1)),
    ],
    cancelled_in_the_middle=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        waits("d"),
        ("z", "LOCK.CANCEL k oc", 1),
        ("c", answered(None)),
        queue_is("ob", "od"),
        A_RELEASES,
        ("b", granted(1)),
        releases("b"),
        ("d", granted(1)),
    ],
    cancelled_detached_at_the_head=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        *gone("b"),
        A_RELEASES,
        ("c", STILL_BLOCKED),
        ("z", "LOCK.CANCEL k ob", 1),
        ("c", granted(1)),
        ("z", "LOCK.CANCEL k ob", 0),
    ],
    cancelled_detached_in_the_middle=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        waits("d"),
        *gone("c"),
        ("z", "LOCK.CANCEL k oc", 1),
        queue_is("ob", "od"),
        ("z", "LOCK.CANCEL k oc", 0),
    ],
    cancelled_with_its_plain_waiters=[
        A_HOLDS,
        waits_plainly("p", "ob"),
        waits("b"),
        waits("c"),
        ("z", "LOCK.CANCEL k ob", 1),
        ("p", answered(None)),
        ("b", answered(None)),
        queue_is("oc"),
    ],
    cancelled_and_requested_again_at_the_end=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        ("z", "LOCK.CANCEL k ob", 1),
        ("b", answered(None)),
        waits("b"),
        queue_is("oc", "ob"),
    ],
    cancel_of_another_owner_does_nothing=[A_HOLDS, waits("b"), ("z", "LOCK.CANCEL k oz", 0), ("b", STILL_BLOCKED)],
    timed_out_at_the_head=[
        A_HOLDS,
        waits("b", block_ms=A_WHILE),
        waits("c"),
        ("b", answered(None)),
        ("c", STILL_BLOCKED),
        A_RELEASES,
        ("c", granted(1)),
    ],
    timed_out_in_the_middle=[
        A_HOLDS,
        waits("b"),
        waits("c", block_ms=A_WHILE),
        waits("d"),
        ("c", answered(None)),
        queue_is("ob", "od"),
        A_RELEASES,
        ("b", granted(1)),
        releases("b"),
        ("d", granted(1)),
    ],
    timed_out_at_the_end_and_requested_again=[
        A_HOLDS,
        waits("b"),
        waits("c", block_ms=A_WHILE),
        ("c", answered(None)),
        queue_is("ob"),
        waits("d"),
        waits("c"),
        queue_is("ob", "od", "oc"),
    ],
    not_timed_out_when_the_lock_was_free=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        *gone("b"),
        A_RELEASES,
        ("b2", f"LOCK.FAIR k ob BLOCK {A_WHILE}", 1),
        releases("b2", "ob"),
        ("c", granted(1)),
    ],
    forced_with_a_waiter_at_the_head=[
        A_HOLDS,
        ("a", "LOCK.FAIR k oa", 2),
        waits("b"),
        waits("c"),
        ("z", "LOCK.FORCE k", 1),
        ("b", granted(1)),
        ("c", STILL_BLOCKED),
        ("z", "LOCK.FORCE k", 1),
        ("c", granted(1)),
    ],
    forced_with_a_reserved_position_at_the_head=[
        A_HOLDS,
        waits("b"),
        waits("c"),
        *gone("b"),
        ("z", "LOCK.FORCE k", 1),
        ("c", STILL_BLOCKED),
        ("z", "LOCK.FORCE k", 0),
        queue_is("ob", "oc"),
        ("b2", "LOCK.FAIR k ob BLOCK 0", 1),
        ("c", STILL_BLOCKED),
        ("z", "LOCK.FORCE k", 1),
        ("c", granted(1)),
    ],
)


@schedules(**GIVEN_UP)
def test_position_that_is_given_up_delays_no_waiter(server, some_resp, schedule):
    play(server, schedule, some_resp)


def test_position_from_before_a_restart_is_cancelled_among_new_waiters(make_server):
    """A waiter that began while lock.fair-reserve was 0 has not read the position."""
    server = make_server(appendonly="yes", lock_fair_reserve=HOUR)
    hold(server)
    ask(server, "ob")
    server.kill()
    server.start(lock_fair_reserve=0)
    ask(server, "oc", command="LOCK.ACQUIRE")
    server.control.config_set("lock.fair-reserve", HOUR)
    assert server.control.execute_command("LOCK.CANCEL", "k", "ob") == 1
    wait_for(lambda: not server.control.exists(QUEUE, ENDS), what="the position to be removed from the keys")
    assert order(server) == ["oc"]
