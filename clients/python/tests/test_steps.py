"""Which commands are sent when, without a server: each test supplies the server's replies."""

import pytest
import redis.exceptions as library

from lock_so import steps
from lock_so.errors import Deadlock, NoReplicas, NotAcquired, NotHeld, Refused, code_of, is_passing, typed
from lock_so.spec import Spec
from lock_so.steps import Attempt, Pause, Send, State, give_up


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

    found = Clock()
    monkeypatch.setattr(steps, "time", found)
    return found


def play(clock, generator, replies):
    """Passes these replies, (seconds, reply or error), to the generator. Returns (commands, result or error)."""
    replies, sent = iter(replies), []
    try:
        step = next(generator)
        while True:
            if isinstance(step, Pause):
                clock.now += step.seconds
                step = generator.send(None)
                continue
            sent.append(step)
            seconds, answer = next(replies)
            clock.now += seconds
            step = generator.throw(answer) if isinstance(answer, Exception) else generator.send(answer)
    except StopIteration as end:
        assert next(replies, None) is None, "not all replies were used"
        return sent, end.value
    except Exception as error:
        assert next(replies, None) is None, "not all replies were used"
        return sent, error


CUT, BAD = library.ConnectionError("cut"), library.ResponseError
LOCK = Spec("lock", ("k",), lease_ms=3000)


def blocks(sent):
    return [step.words[step.words.index("BLOCK") + 1] if "BLOCK" in step.words else None for step in sent]


def test_blocking_calls(clock):
    sent, end = play(clock, Attempt(LOCK, "o", 70).run(), [(30, None), (30, None), (10, None)])
    assert blocks(sent) == [30000, 30000, 10000] and isinstance(end, NotAcquired)
    assert [step.limit for step in sent] == [32, 32, 12]


def test_a_try_says_no_block(clock):
    sent, end = play(clock, Attempt(LOCK, "o", 0).run(), [(0.1, None)])
    assert blocks(sent) == [None] and isinstance(end, NotAcquired)


def test_for_ever(clock):
    attempt = Attempt(LOCK, "o", None)
    sent, end = play(clock, attempt.run(), [(30, None)] * 9 + [(1, CUT), (1, BAD("UNBLOCKED so")), (5, 1)])
    assert end == 1 and len(sent) == 12 and attempt.was_cut


def test_fair_keeps_its_place(clock):
    fair = Spec("fair", ("k",))
    silent = library.TimeoutError("one blocking call")
    sent, end = play(clock, Attempt(fair, "o", 70).run(), [(30, silent), (30, silent), (10, None)])
    assert blocks(sent) == [70000, 40000, 10000] and isinstance(end, NotAcquired)
    sent, end = play(clock, Attempt(fair, "o", None).run(), [(30, silent), (5, 1)])
    assert blocks(sent) == [0, 0] and end == 1


def test_the_last_error_is_the_librarys(clock):
    sent, end = play(clock, Attempt(LOCK, "o", 5).run(), [(1, CUT), (7, CUT)])
    assert end is CUT and len(sent) == 2


def test_given_up(clock):
    attempt = Attempt(LOCK, "o", None)
    attempt.given_up = True
    assert isinstance(play(clock, attempt.run(), [(0, None)])[1], NotAcquired)


@pytest.mark.parametrize("answer", [1, 2])
def test_giving_up(clock, answer):
    sent, _ = play(clock, give_up(Attempt(LOCK, "o", None), lambda: False), [(0, 0), (0, CUT), (0, 0), (0, answer)])
    assert all(step.words == ["LOCK.CANCEL", "k", "o", "RELEASE"] for step in sent) and len(sent) == 4


def test_giving_up_a_request_that_has_ended(clock):
    attempt = Attempt(LOCK, "o", None)
    assert len(play(clock, give_up(attempt, lambda: True), [(0, 0)])[0]) == 1
    attempt.was_cut = True  # the last request may still arrive
    assert len(play(clock, give_up(attempt, lambda: True), [(0, 2), (0, 0)])[0]) == 2


def test_giving_up_ends_with_the_lease(clock):
    sent, _ = play(clock, give_up(Attempt(LOCK, "o", None), lambda: False), [(1, CUT), (1, CUT), (1, CUT)])
    assert len(sent) == 3


def test_giving_up_multi(clock):
    spec = Spec("multi", ("k", "l"))
    sent, _ = play(clock, give_up(Attempt(spec, "o", None), lambda: True), [(0, 0), (0, 2)])
    assert [step.words[0] for step in sent] == ["LOCK.CANCEL", "LOCK.MRELEASE"]
    sent, _ = play(clock, give_up(Attempt(spec, "o", None), lambda: True), [(0, 0), (0, BAD("NOTHELD no"))])
    assert len(sent) == 2


def hold(clock, spec=LOCK, waited=0.0):
    return State(spec, "o", 1, clock.now - waited)


def test_release_is_repeated(clock):
    assert play(clock, hold(clock).released(), [(0, CUT), (0, BAD("NOTHELD no"))])[1] is None
    assert isinstance(play(clock, hold(clock).released(), [(0, BAD("NOTHELD no"))])[1], NotHeld)
    assert play(clock, hold(clock).released(), [(1, CUT), (5, CUT)])[1] is CUT


def test_a_late_release_is_no_success(clock):
    state = hold(clock)
    clock.now += 3
    assert state.is_lost
    assert isinstance(play(clock, state.released(), [(0, 0)])[1], NotHeld)


def test_what_is_left_of_multi(clock):
    state = hold(clock, Spec("multi", ("k", "l")))
    no = BAD("NOTHELD no")
    sent, end = play(clock, state.released(), [(0, no), (0, no), (0, 0)])
    assert [step.words[:2] for step in sent[1:]] == [["LOCK.RELEASE", "k"], ["LOCK.RELEASE", "l"]]
    assert isinstance(end, NotHeld)


def test_renewal_counts_from_before_it_was_sent(clock):
    state = hold(clock)
    clock.now += 1
    play(clock, state.renewed(), [(0.5, 1)])
    assert (state.until, state.renew_at) == (1004.0, 1002.0)
    play(clock, state.renewed(), [(0.5, CUT)])
    assert state.until == 1004.0 and not state.is_lost
    clock.now = 1004.0
    assert state.is_lost and state.lose() and not state.lose()


def test_a_grant_after_a_long_wait_is_renewed_at_once(clock):
    assert hold(clock, waited=5).renew_at == clock.now
    assert hold(clock, waited=0.1).renew_at == pytest.approx(clock.now + 0.9)


def test_a_session_is_bound_again(clock):
    state = hold(clock, Spec("lock", ("k",), session=True, lease_ms=3000))
    sent, end = play(clock, state.watched("k", 1), [(1, None), (0.5, CUT), (0, 1), (1, b"LOST")])
    assert [step.words[0] for step in sent] == ["LOCK.WATCH", "LOCK.WATCH", "LOCK.RENEW", "LOCK.WATCH"]
    assert end is True and state.until == 1003.0
    assert play(clock, state.watched("k", 1), [(0, CUT), (0, BAD("NOTHELD no"))])[1] is True


def test_a_watch_ends_with_the_release(clock):
    state = hold(clock)
    state.is_released = True
    assert play(clock, state.watched("k", 1), []) == ([], False)
    assert not state.lose()


@pytest.mark.parametrize(
    "error, code, kind",
    [
        (BAD("NOTHELD the owner holds no such lock"), "NOTHELD", NotHeld),
        (BAD("DEADLOCK a waits"), "DEADLOCK", Deadlock),
        (BAD("NOREPLICAS fewer"), "NOREPLICAS", NoReplicas),
        (BAD("WRONGTYPE Operation"), "WRONGTYPE", Refused),
        (BAD("syntax error"), "ERR", Refused),
        (library.OutOfMemoryError("command not allowed"), "OOM", Refused),
        (library.ClusterCrossSlotError("Keys in request"), "CROSSSLOT", Refused),
    ],
)
def test_types(error, code, kind):
    assert code_of(error) == code and type(typed(error)) is kind and not is_passing(error)
    assert kind is not Refused or typed(error).code == code


@pytest.mark.parametrize(
    "error",
    [
        CUT,
        library.TimeoutError(),
        OSError(),
        library.BusyLoadingError(""),
        library.ReadOnlyError("You can't write"),
        library.MovedError("1 127.0.0.1:7"),
        library.TryAgainError("x"),
        library.MasterDownError("x"),
        library.ClusterDownError("x"),
        BAD("UNBLOCKED client"),
    ],
)
def test_passing(error):
    assert is_passing(error)


def test_a_wrong_password_does_not_pass():
    error = library.AuthenticationError("no")
    assert not is_passing(error) and typed(error) is error


