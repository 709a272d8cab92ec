"""Which commands are sent when, without a server: each test supplies the server's replies."""

import pytest
import redis.exceptions as library

from lock_so import _steps as steps
from lock_so._spec import Spec, holders_of, new_owner
from lock_so._steps import Attempt, Connect, Pause, State
from lock_so.errors import Busy, Closed, Deadlock, ModuleMissing, NoReplicas, NotAcquired, NotHeld, Refused, code_of, is_transient, not_acquired, typed


@pytest.fixture
def clock(monkeypatch):
    class Clock:
        now = 1000.0

        def monotonic(self):
            return self.now

    found = Clock()
    monkeypatch.setattr(steps, "time", found)
    return found


def play(clock, generator, replies, unreachable=None):
    """Passes these replies, (seconds, reply or error), to the generator. Returns (commands, result or error).
    `unreachable`: the error of every attempt to connect."""
    replies, sent = iter(replies), []
    try:
        step = next(generator)
        while True:
            if isinstance(step, Pause):
                clock.now += step.seconds
                step = generator.send(None)
                continue
            if isinstance(step, Connect):
                step = generator.throw(unreachable) if unreachable else generator.send(None)
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
LOCK = Spec("lock", ("k",), lease=3)


class Server:
    def __init__(self, has_connected=True):
        self.has_connected = has_connected

    def address(self, key):
        return "there:1"


def attempt(wait, spec=LOCK, server=Server(), **settings):
    found = Attempt(spec, wait, server, **settings)
    found.owner = "o"
    return found


def blocks(sent):
    return [step.words[step.words.index("BLOCK") + 1] if "BLOCK" in step.words else None for step in sent]


NOTHING = (0, [])  # the reply of LOCK.INFO


def test_blocking_calls(clock):
    sent, end = play(clock, attempt(70).run(), [(30, None), (30, None), (10, None), NOTHING])
    assert blocks(sent) == [30000, 30000, 10000, None] and isinstance(end, NotAcquired)
    assert [round(step.until - at, 2) for step, at in zip(sent, (1000, 1030, 1060, 1070), strict=True)] == [32, 32, 10.08, 0.08]


def test_a_try_does_not_block(clock):
    sent, end = play(clock, attempt(0).run(), [(0.01, None), (0, ["holders", [["owner", "a"], ["owner", "b"]]])])
    assert blocks(sent) == [None, None] and round(sent[0].until, 2) == 1000.08
    assert str(end) == 'lock "k" was not acquired: held by a and b' and end.holders == ["a", "b"]


def test_a_late_reply_leaves_no_time_to_query_the_holder(clock):
    sent, end = play(clock, attempt(3).run(), [(3.2, None)])
    assert str(end) == 'lock "k" was not acquired within 3 s'


def test_for_ever(clock):
    tried = attempt(None)
    sent, end = play(clock, tried.run(), [(30, None)] * 9 + [(1, CUT), (1, BAD("UNBLOCKED so")), (5, 1)])
    assert end == 1 and len(sent) == 12 and tried.was_cut


def test_fair_keeps_its_place(clock):
    fair = Spec("fair", ("k",))
    silent = library.TimeoutError("one blocking call")
    sent, end = play(clock, attempt(70, fair).run(), [(30, silent), (30, silent), (10, None), NOTHING])
    assert blocks(sent)[:3] == [70000, 40000, 10000] and isinstance(end, NotAcquired)
    sent, end = play(clock, attempt(None, fair).run(), [(30, silent), (5, 1)])
    assert blocks(sent) == [0, 0] and end == 1


def test_the_last_error_is_the_cause(clock):
    sent, end = play(clock, attempt(5).run(), [(1, CUT), (7, CUT)])
    assert isinstance(end, NotAcquired) and end.__cause__ is CUT and len(sent) == 2
    assert str(end) == 'lock "k" was not acquired within 5 s: cut'


def test_a_try_without_a_reply_is_the_librarys_error(clock):
    assert play(clock, attempt(0).run(), [(0, CUT)])[1] is CUT


@pytest.mark.parametrize("wait", [None, 60])
def test_never_connected(clock, wait):
    tried = attempt(wait, server=Server(has_connected=False), connect_timeout=5)
    sent, end = play(clock, tried.run(), [], unreachable=CUT)
    assert end is CUT and not sent and not tried.was_cut and 1005 <= clock.now < 1006


def test_never_connected_within_a_shorter_wait(clock):
    tried = attempt(3, server=Server(has_connected=False), connect_timeout=5)
    sent, end = play(clock, tried.run(), [], unreachable=CUT)
    assert isinstance(end, NotAcquired) and end.__cause__ is CUT and clock.now == 1003


def test_each_outage_is_logged_once(clock, caplog):
    play(clock, attempt(None).run(), [(0.1, CUT), (0.1, CUT), (0.1, None), (0.1, CUT), (0.1, CUT), (2, CUT), (0, 1)])
    assert caplog.messages == ['lock "k": no connection to there:1 (cut); the wait goes on'] * 3


def test_given_up(clock):
    tried = attempt(None)
    tried.given_up = True
    assert isinstance(play(clock, tried.run(), [(0, None)])[1], NotAcquired)


@pytest.mark.parametrize("answer", [1, 2])
def test_giving_up(clock, answer):
    sent, _ = play(clock, attempt(None).give_up(lambda: False), [(0, 0), (0, CUT), (0, 0), (0, answer)])
    assert all(step.words == ["LOCK.CANCEL", "k", "o", "RELEASE"] for step in sent) and len(sent) == 4


def test_giving_up_a_request_that_has_ended(clock):
    tried = attempt(None)
    assert len(play(clock, tried.give_up(lambda: True), [(0, 0)])[0]) == 1
    tried.was_cut = True  # the last request may still arrive
    assert len(play(clock, tried.give_up(lambda: True), [(0, 2), (0, 0)])[0]) == 2


def test_giving_up_ends_with_the_lease(clock):
    sent, _ = play(clock, attempt(None).give_up(lambda: False), [(1, CUT), (1, CUT), (1, CUT)])
    assert len(sent) == 3


def test_giving_up_multi(clock):
    spec = Spec("multi", ("k", "l"))
    sent, _ = play(clock, attempt(None, spec).give_up(lambda: True), [(0, 0), (0, 2)])
    assert [step.words[0] for step in sent] == ["LOCK.CANCEL", "LOCK.MRELEASE"]
    sent, _ = play(clock, attempt(None, spec).give_up(lambda: True), [(0, 0), *[(0, BAD("NOTHELD no"))] * 3])
    assert [step.words[0] for step in sent[2:]] == ["LOCK.RELEASE"] * 2


def hold(clock, spec=LOCK, waited=0.0):
    return State(spec, "o", 1, clock.now - waited, Server())


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
    sent, end = play(clock, state.renewed(), [(0.5, 1), (0.5, CUT), (0, BAD("NOTHELD no"))])
    # Sent at 1001, at 1002, and after a pause of a quarter of a third.
    assert [step.until for step in sent] == [1003.0, 1004.0, 1004.0] and clock.now == 1002.75
    assert end is True and state.until == 1004.0 and not state.is_lost
    clock.now = 1004.0
    assert state.is_lost and state.lose() and not state.lose()


def test_a_lease_that_expires_is_lost(clock, caplog):
    state = hold(clock)
    sent, end = play(clock, state.renewed(), [(0.1, CUT)] * 6)
    assert end is True and clock.now >= 1003 and len(caplog.messages) == 1
    assert play(clock, hold(clock, Spec("lock", ("k",), renew=False)).renewed(), []) == ([], True)


def test_a_grant_after_a_long_wait_is_renewed_at_once(clock):
    assert hold(clock, waited=5).renew_at == clock.now
    assert hold(clock, waited=0.1).renew_at == pytest.approx(clock.now + 0.9)


def test_a_hold_counts_from_its_request(clock):
    """Unless it waited: then the lease began later."""
    assert hold(clock, waited=0.9).until == clock.now + 2.1
    assert hold(clock, waited=1.1).until == clock.now + 3


def test_a_request_that_was_stopped_may_still_arrive(clock):
    for error, was_cut in ((Closed(), True), (BAD("UNBLOCKED so"), False), (BAD("WRONGTYPE Operation"), False)):
        tried = attempt(3)
        play(clock, tried.run(), [(0.1, error), *[(0, 1)] * (str(error) == "UNBLOCKED so")])
        assert tried.was_cut == was_cut
    tried = attempt(3)
    play(clock, tried.run(), [], unreachable=Closed())
    assert not tried.was_cut


def test_a_full_queue_is_not_logged_as_an_outage(clock, caplog):
    tried = attempt(3)
    assert isinstance(play(clock, tried.run(), [], unreachable=Busy("all are in use"))[1], NotAcquired)
    assert not caplog.messages


def test_renewals_wait_for_replicas(clock):
    spec = Spec("lock", ("k",), lease=30, replicas=(1, 5))
    sent, _ = play(clock, hold(clock, spec).renewed(), [(6.5, 1), (0, BAD("NOTHELD no"))])
    assert [step.until for step in sent] == [1017.0, 1027.0]
    session = hold(clock, Spec("lock", ("k",), lease=30, session=True, replicas=(1, 5)))
    sent, _ = play(clock, session.watched("k", 10), [(0, CUT), (0, BAD("NOTHELD no"))])
    assert sent[1].words[0] == "LOCK.RENEW" and sent[1].until == clock.now + 7


@pytest.mark.parametrize("error", [BAD("BUSY a script"), BAD("too many waiters"), library.NoPermissionError("no")])
def test_a_watch_that_is_refused_is_repeated(clock, caplog, error):
    state = hold(clock)
    sent, end = play(clock, state.watched("k", 1), [(0, error)] * 3 + [(0, b"LOST")])
    assert end is True and len(sent) == 4 and len(caplog.messages) == 1
    state = hold(clock, Spec("lock", ("k",), lease=3, session=True))
    sent, end = play(clock, state.watched("k", 1), [(0, error), (0, error), (0, 1), (0, error), (1, 1), (0, None), (0, "LOST")])
    assert [step.words[0][5:] for step in sent] == ["WATCH", "RENEW", "RENEW", "WATCH", "RENEW", "WATCH", "WATCH"]
    assert end is True and state.until == pytest.approx(clock.now + 3) and len(caplog.messages) == 2


def test_a_watch_of_closed_locks_ends(clock, caplog):
    assert play(clock, hold(clock).watched("k", 1), [(0, Closed())])[1] is False and not caplog.messages


def test_a_session_is_bound_again(clock):
    state = hold(clock, Spec("lock", ("k",), session=True, lease=3))
    sent, end = play(clock, state.watched("k", 1), [(1, None), (0.5, CUT), (0, 1), (1, b"LOST")])
    assert [step.words[0] for step in sent] == ["LOCK.WATCH", "LOCK.WATCH", "LOCK.RENEW", "LOCK.WATCH"]
    assert end is True and state.until == 1004.5
    assert play(clock, state.watched("k", 1), [(0, CUT), (0, BAD("NOTHELD no"))])[1] is True


def test_a_watch_ends_with_the_release(clock):
    state = hold(clock)
    state.is_ending = True
    assert play(clock, state.watched("k", 1), []) == ([], False)
    assert not state.lose()


@pytest.mark.parametrize(
    "error, kind, text",
    [
        (BAD("NOTHELD the owner holds no such lock"), Refused, "NOTHELD the owner holds no such lock"),
        (BAD("unknown command 'LOCK.ACQUIRE', with"), ModuleMissing, "unknown command: is lock.so loaded on there:1?"),
        (BAD("ERR unknown command 'LOCK.ACQUIRE'"), ModuleMissing, "unknown command: is lock.so loaded on there:1?"),
        (BAD("DEADLOCK a waits"), Deadlock, "DEADLOCK a waits"),
        (BAD("NOREPLICAS fewer"), NoReplicas, "NOREPLICAS fewer"),
        (BAD("WRONGTYPE Operation"), Refused, "WRONGTYPE Operation"),
        (BAD("syntax error"), Refused, "ERR syntax error"),
        (library.OutOfMemoryError("command not allowed"), Refused, "OOM command not allowed"),
        (library.ClusterCrossSlotError("Keys in request"), Refused, "CROSSSLOT Keys in request"),
        (Refused("MOVED 1 h:1: a cluster"), Refused, "MOVED 1 h:1: a cluster"),
        (Closed(), Closed, "these Locks are closed"),
    ],
)
def test_types(error, kind, text):
    found = typed(error, LOCK, Server())
    assert type(found) is kind and str(found) == f'lock "k": {text}' and not is_transient(error)
    code = "ERR" if kind is ModuleMissing else text.split(" ")[0]
    assert not isinstance(found, Refused) or code_of(error) == found.code == code


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
def test_transient(error):
    assert is_transient(error)


def test_a_wrong_password_is_not_transient():
    error = library.AuthenticationError("no")
    assert not is_transient(error) and typed(error, LOCK, Server()) is error


def test_a_second_release_sends_nothing(clock):
    state = hold(clock)
    play(clock, state.released(), [(0, 0)])
    sent, end = play(clock, state.released(), [])
    assert not sent and str(end) == 'lock "k" is not held: it was released before'


def test_not_held_names_the_reason(clock):
    reported, expired = hold(clock), hold(clock)
    assert reported.lose()
    assert str(reported.not_held()) == 'lock "k" is not held: the server reported its loss'
    clock.now += 3
    assert expired.lose() and str(expired.not_held()) == 'lock "k" is not held: its lease expired'


@pytest.mark.parametrize(
    "owners, text",
    [
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c"], "a, b and 1 other"),
        (["a", "b", "c", "d", "e"], "a, b and 3 others"),
    ],
)
def test_holders_in_a_text(owners, text):
    assert str(not_acquired(LOCK, 2.5, owners)) == f'lock "k" was not acquired within 2.5 s: held by {text}'


@pytest.mark.parametrize(
    "reply",
    [
        ["mode", "read", "holders", [["owner", "a", "holds", 1], ["owner", "b", "holds", 1]]],
        {b"holders": [{b"owner": b"a"}, {b"owner": b"b"}]},
    ],
)
def test_the_reply_of_info(reply):
    assert holders_of(reply) == ["a", "b"] and holders_of(None) == []


NOT_HELD = BAD("NOTHELD no")


def test_the_last_try_of_a_short_command_has_time_to_fail(clock):
    asked, left = steps.asked(["X"], LOCK, Server()), []
    step = next(asked)
    with pytest.raises(library.ConnectionError) as found:
        while True:
            if isinstance(step, Pause):
                clock.now += step.seconds
                step = asked.send(None)
            else:
                left.append(step.until - clock.now)
                step = asked.throw(CUT)
    assert found.value is CUT and min(left) > 0.07 and clock.now > 1001.9


def test_a_short_command_is_repeated(clock):
    ask = lambda **more: steps.asked(["X"], LOCK, Server(), **more)  # noqa: E731
    assert play(clock, ask(), [(0, CUT), (0, library.MovedError("1 h:1")), (0, 5)])[1] == 5
    assert play(clock, ask(), [(1, CUT), (1, CUT)])[1] is CUT
    assert play(clock, ask(is_repeatable=False), [(0, CUT)])[1] is CUT
    assert play(clock, ask(is_repeatable=False), [(0, library.TryAgainError("x")), (0, 5)])[1] == 5
    assert play(clock, ask(is_repeatable=False), [], unreachable=CUT)[1] is CUT and 1003.9 <= clock.now < 1005
    assert type(play(clock, ask(), [(0, BAD("WRONGTYPE no"))])[1]) is Refused


def test_the_keys_of_a_multi_key_lock_are_inspected_together(clock):
    reply = ["holders", [["owner", b"a", "mode", "exclusive", "holds", 1, "pttl", -1, "session", None]], "waiting", 2, "waiters", []]
    sent, found = play(clock, steps.inspected(Spec("multi", ("k", b"l", "m")), Server(), 0), [(0, reply), (0, None), (0, reply)])
    assert [step.words[1] for step in sent] == ["k", b"l", "m"] and found.waiting == 4
    assert [(holder.key, holder.owner, holder.left) for holder in found.holders] == [("k", "a", None), ("m", "a", None)]
    sent, was_held = play(clock, steps.forced(Spec("multi", ("k", "l")), Server()), [(0, 1), (0, 0)])
    assert was_held and len(sent) == 2


def test_a_shorter_lease_counts_from_its_sending(clock):
    state = hold(clock, Spec("lock", ("k",), lease=30))
    sent, end = play(clock, state.renew(5), [(1, CUT), (1, CUT)])
    assert end is CUT and sent[0].words == ["LOCK.RENEW", "k", "o", "PX", 5000]
    assert state.until == 1005 and state.third == 5 / 3
    play(clock, state.renew(None), [(0, 1)])
    assert state.until == 1007


def test_a_longer_lease_counts_from_its_reply(clock):
    state = hold(clock)
    play(clock, state.renew(30), [(1, CUT), (1, CUT)])
    assert state.until == 1003
    play(clock, state.renew(30), [(0.5, 1)])
    assert state.until == 1032 and state.renew_at == 1012


def test_a_renewal_without_a_reply_may_be_executed_later(clock):
    state = hold(clock)
    renewals = state.renewed()
    clock.now += next(renewals).seconds
    assert next(renewals).words[3:] == ["PX", 3000]
    play(clock, state.renew(30), [(0.5, 1)])
    assert state.until == 1004 and state.renew_at == 1002
    with pytest.raises(StopIteration):  # there is another schedule
        renewals.send(1)
    play(clock, state.renewed(state.schedule), [(0, 1), (0, NOT_HELD)])
    assert state.until == 1032


def test_a_loss_that_a_renewal_notices(clock):
    state = hold(clock)
    assert str(play(clock, state.renew(None), [(0, NOT_HELD)])[1]) == 'lock "k" is not held: the server reported its loss'
    assert play(clock, state.renew(None), [])[0] == [] and state.is_lost


def test_the_lease_of_a_session_cannot_be_changed(clock):
    state = hold(clock, Spec("lock", ("k",), session=True))
    assert isinstance(play(clock, state.renew(3), [])[1], ValueError)
    assert play(clock, state.renew(None), [(0, 1)])[0][0].words == ["LOCK.RENEW", "k", "o"]


def test_a_guarded_command_is_not_repeated(clock):
    sent, end = play(clock, hold(clock).guarded(["INCR", "n"]), [(0, 7)])
    assert end == 7 and sent[0].words == ["LOCK.GUARD", "k", "o", "INCR", "n"]
    assert play(clock, hold(clock).guarded(["INCR", "n"]), [(0, CUT)])[1] is CUT
    assert isinstance(play(clock, hold(clock).guarded(["INCR", "n"]), [(0, NOT_HELD)])[1], NotHeld)


def test_own_holders_are_named():
    own = new_owner()
    assert str(not_acquired(LOCK, 0, [own, "a"])) == f'lock "k" was not acquired: held by {own} (this process) and a'


def test_a_lock_is_forced_once(clock):
    sent, end = play(clock, steps.forced(LOCK, Server()), [(0, CUT)])
    assert len(sent) == 1 and end is CUT
