"""The driver's own tests: a runner with a fault must fail the scenario for this fault, and one without must pass it."""

import io
import sys
from pathlib import Path

import pytest
from conftest import LANGUAGES, scenarios
from programs import ProgramTorment
from words import KINDS

from harness.proxy import read
from harness.seeds import seed_of_run

BAD = [sys.executable, "-B", str(Path(__file__).with_name("bad_runner.py"))]

# Which scenario notices which fault, with the kind `lock`, with sessions for a fault of these, or with its first kind.
NOTICED = [
    ("no_once", "cuts", "acquire_reply"),
    ("no_cancel", "waits", "cancelled"),
    ("shared", "waits", "waits_block_nothing_else"),
    ("masks", "loss", "within_body_and_loss"),
    ("no_watch", "loss", "lost_by_force"),
    ("tardy", "loss", "lost_by_force"),
    ("tardy", "loss", "lost_by_del"),
    ("no_renewal", "loss", "renewed"),
    ("one_owner", "basics", "try"),
    ("no_retry", "cuts", "release_request"),
    ("forgets", "basics", "acquire_and_release"),
    ("unfenced", "basics", "fencing"),
    ("unchecked", "options", "bad_times"),
    ("any_client", "options", "wrong_client"),
    ("vague", "errors", "not_acquired"),
    ("vague", "errors", "not_held"),
    ("vague", "errors", "module_missing"),
    ("vague", "waits", "wrong_kind"),
    ("vague", "waits", "deadlock"),
    ("vague", "replicas", "acknowledged"),
    ("one_owner", "errors", "owner"),
    ("frees", "errors", "released_twice"),
    ("no_hint", "errors", "module_missing"),
    ("no_hint", "errors", "module_missing_for_latches"),
    ("no_hint", "errors", "module_missing_for_queues"),
    ("vague", "errors", "module_missing_for_information"),
    ("swallows", "errors", "callback_fails"),
    ("greedy", "basics", "try"),
    ("greedy", "errors", "not_acquired"),
    ("late", "deadlines", "silent"),
    ("slow", "deadlines", "refused"),
    ("slow", "basics", "time_out"),
    ("hasty", "basics", "time_out"),
    ("hasty", "deadlines", "connecting_in_silence"),
    ("slow", "deadlines", "silent_while_waiting"),
    ("quiet", "deadlines", "outage_is_logged"),
    ("noisy", "deadlines", "outage_is_logged"),
    ("vague", "deadlines", "refused_port"),
    ("quiet", "deadlines", "refused_port"),
    ("wordless", "deadlines", "refused_port"),
    ("wordless", "deadlines", "refused"),
    ("wordless", "deadlines", "server_is_gone"),
    ("hog", "resources", "full_server"),
    ("leaks", "resources", "lock_factories_are_collected"),
    ("hog", "resources", "full_server_one_lock"),
    ("leaks", "resources", "lock_factories_are_closed"),
    ("unclosed", "resources", "closed"),
    ("unclosed", "resources", "closed_without_waits"),
    ("vague", "resources", "closed"),
    ("vague", "resources", "closed_without_waits"),
    ("slow", "deadlines", "waits_in_silence"),
    ("keeps", "resources", "forgotten"),
    ("keeps", "resources", "forgotten_is_logged"),
    ("keeps", "resources", "forgotten_with_a_callback"),
    ("unchecked", "options", "bad_keys"),
    ("unchecked", "options", "bad_permits"),
    ("unchecked", "options", "option_of_another_kind"),
    ("unchecked", "options", "bad_max_block"),
    ("vague", "errors", "not_acquired_of_many"),
    ("vague", "errors", "lease_expired"),
    ("no_watch", "errors", "stopped_by_loss"),
    ("cuts", "deadlines", "fair_wait_is_no_outage"),
    ("cuts", "loss", "session_beside_a_fair_wait"),
    ("unwatched", "loss", "session_kept_unwatched"),
    ("trusting", "loss", "session_on_a_dead_connection"),
    ("late", "deadlines", "waits_longer_than_a_blocking_call"),
    ("quiet", "deadlines", "full_and_never_connected"),
    ("narrow", "deadlines", "burst"),
    ("no_cancel", "silence", "cancelled_before_it_arrives"),
    ("owned", "silence", "cancelled_on_a_dead_connection"),
    ("hog", "resources", "full_server_renews"),
    ("trusting", "resources", "idle_connections_are_closed"),
    ("leaks", "resources", "losses_leave_no_connection"),
    ("leaks", "resources", "refused_renewals_leave_no_connection"),
    ("patient", "resources", "closed_in_silence"),
    ("unclosed", "resources", "closed_in_silence_with_a_wait"),
    ("unclosed", "resources", "closed_in_silence_with_a_limited_wait"),
    ("vague", "resources", "closed_in_silence_with_a_wait"),
    ("vague", "resources", "closed_in_silence_with_a_limited_wait"),
    ("unclosed", "resources", "closed_while_acquiring"),
    ("vague", "resources", "closed_while_acquiring"),
    ("abrupt", "resources", "closed_while_releasing"),
    ("no_retry", "resources", "closed_while_releasing_again"),
    ("anew", "reentry", "entered_again"),
    ("vague", "reentry", "self_deadlock"),
    ("enters", "reentry", "another_task"),
    ("unchecked", "reentry", "not_of_a_semaphore"),
    ("blind", "beside", "info"),
    ("no_watch", "beside", "forced"),
    ("lasting", "beside", "renewed_by_the_program"),
    ("lasting", "beside", "renewed_with_the_new_lease"),
    ("optimist", "beside", "shorter_lease_ends"),
    ("repeats", "beside", "guarded_once"),
    ("repeats", "latch", "counted_once"),
    ("repeats", "latch", "set_once"),
    ("gives_up", "latch", "outage"),
    ("twofold", "queue", "pushed"),
    ("uncounted", "queue", "consumed"),
    ("endless", "queue", "retried"),
    ("forgetful", "queue", "killed"),
    ("blind", "queue", "left_behind"),
    ("twofold", "queue", "shared"),
    ("drops", "queue", "claimed_over_cuts"),
    ("blind", "queue", "taken_over_cuts"),
    ("certain", "redlock", "majority_away"),
    ("careless", "redlock", "released_behind_the_request"),
    ("immortal", "redlock", "majority_lost"),
    ("immortal", "redlock", "majority_forgets"),
    ("any_client", "redlock", "bad_members"),
    ("any_client", "redlock", "nodes_of_a_cluster"),
]

# Scenarios for which the bad runner has no fault of its own, but which it must pass.
PASSED = [
    ("reentry", "lost_inside"),
    ("beside", "info_refused"),
    ("beside", "bad_renewals"),
    ("beside", "guarded"),
    ("latch", "counted_down"),
    ("latch", "time_out"),
    ("latch", "cancelled"),
    ("latch", "bad_options"),
    ("queue", "bad_options"),
    ("queue", "stopped_while_working"),
    ("queue", "closed"),
    ("queue", "refused"),
    ("queue", "never_connected"),
    ("queue", "restart"),
    ("queue", "pushed_over_cuts"),
    ("queue", "settled_over_cuts"),
    ("queue", "outage"),
    ("redlock", "acquired"),
    ("redlock", "one_of_three_away"),
    ("redlock", "two_of_five_away"),
    ("redlock", "majority_refuses"),
    ("redlock", "one_after_the_other_restarts_empty"),
    ("redlock", "killed"),
    ("redlock", "renewed_by_the_program"),
    ("redlock", "within"),
    ("redlock", "cancelled"),
]


def _scenario(topic, name):
    return next(one for one, _ in scenarios() if (one["topic"], one["name"]) == (topic, name))


def _kind(fault, topic, name):
    kinds = _scenario(topic, name)["kinds"]
    wanted = "session" if fault == "trusting" else "lock"
    return wanted if wanted in kinds else kinds[0]


def _play(play, fault, topic, name, kind):
    scenario = _scenario(topic, name)
    play([*BAD, fault], scenario, kind)


@pytest.mark.parametrize("fault, topic, name", NOTICED)
def test_a_fault_is_noticed(play, fault, topic, name):
    with pytest.raises(AssertionError):
        _play(play, fault, topic, name, _kind(fault, topic, name))


@pytest.mark.parametrize(
    "topic, name, kind", sorted({(*case[1:], _kind(*case)) for case in [*NOTICED, *(("none", *case) for case in PASSED)]})
)
def test_passes_without_fault(play, topic, name, kind):
    _play(play, "none", topic, name, kind)


@pytest.mark.parametrize("fault", ["none", "certain"])
def test_a_second_holder_is_found(make_ring, start_program, judge, fault):
    """The history of four programs, of which each believes to hold the lock whatever the servers reply, has two holders."""
    torment = ProgramTorment(make_ring(), lambda ring: start_program([*BAD, fault], ring), seed_of_run(), 1.0, hands=0)
    torment.run(1, lambda: len(torment.holds) >= 8)
    assert ("holder" in judge(torment.holds)) == (fault == "certain"), f"{torment.summary()}\n{judge.text}"


def test_every_scenario_can_be_played():
    found = [(scenario["topic"], scenario["name"], kind) for scenario, kind in scenarios()]
    assert len(set(found)) == len(found)
    for scenario, kind in scenarios():
        assert kind in KINDS and scenario["about"] and scenario["steps"], scenario["name"]
    cannot = {what for flavours in LANGUAGES.values() for one in flavours.values() for what in one["cannot"]}
    assert cannot <= {what for scenario, _ in scenarios() for what in scenario.get("needs", [])}


@pytest.mark.parametrize(
    "raw, words",
    [
        (b"*2\r\n$4\r\nPING\r\n$1\r\nx\r\n", [b"PING", b"x"]),
        (b"$-1\r\n", b"-1"),
        (b":17\r\n", b"17"),
        (b"_\r\n", b""),
        (b"%1\r\n+a\r\n:1\r\n", [b"a", b"1"]),
        (b"|1\r\n+a\r\n:1\r\n:5\r\n", b"5"),
        (b">2\r\n+a\r\n:1\r\n", [b"a", b"1"]),
        (b"*0\r\n", []),
    ],
)
def test_wire_reads(raw, words):
    file = io.BytesIO(raw + b"+next\r\n")
    assert read(file) == (raw, words)
    assert file.read() == b"+next\r\n"
