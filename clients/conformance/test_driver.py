"""The driver's own tests: a runner with a fault must fail the scenario for this fault, and one without must pass it."""

import io
import sys
from pathlib import Path

import pytest
from conftest import LANGUAGES, scenarios
from words import KINDS

from harness.proxy import read

BAD = [sys.executable, "-B", str(Path(__file__).with_name("bad_runner.py"))]

# Which scenario notices which fault, with the kind `lock`.
NOTICED = [
    ("no_once", "cuts", "acquire_reply"),
    ("no_cancel", "waits", "cancelled"),
    ("shared", "waits", "waits_block_nothing_else"),
    ("masks", "loss", "within_body_and_loss"),
    ("no_watch", "loss", "lost_by_force"),
    ("no_renewal", "loss", "renewed"),
    ("one_owner", "basics", "try"),
    ("no_retry", "cuts", "release_request"),
    ("forgets", "basics", "acquire_and_release"),
    ("unfenced", "basics", "fencing"),
    ("unchecked", "options", "bad_times"),
    ("any_client", "options", "wrong_client"),
    ("vague", "errors", "not_acquired"),
    ("vague", "errors", "not_held"),
    ("one_owner", "errors", "owner"),
    ("frees", "errors", "released_twice"),
    ("no_hint", "errors", "module_missing"),
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
    ("hog", "resources", "full_server"),
    ("leaks", "resources", "lock_factories_are_collected"),
    ("hog", "resources", "full_server_one_lock"),
    ("leaks", "resources", "lock_factories_are_closed"),
    ("unclosed", "resources", "closed"),
    ("unclosed", "resources", "closed_without_waits"),
    ("slow", "deadlines", "waits_in_silence"),
    ("keeps", "resources", "forgotten"),
    ("keeps", "resources", "forgotten_is_logged"),
]


def _scenario(topic, name):
    return next(one for one, _ in scenarios() if (one["topic"], one["name"]) == (topic, name))


def _for_kind_lock_only(scenario):
    """Leaves out the steps with other kinds of lock, because the bad runner knows the kind `lock` only."""
    steps = [step for step in scenario["steps"] if "fair" not in str(step.get("lock", ""))]
    return {**scenario, "steps": [step for step in steps if step.get("hears") != "three" and step.get("as") != "e"]}


def _play(play, fault, topic, name):
    scenario = _for_kind_lock_only(_scenario(topic, name))
    if name == "waits_block_nothing_else":
        for step in scenario["steps"]:
            if step.get("waiting") == 2:
                step["waiting"] = 1
    play([*BAD, fault], scenario, "lock")


@pytest.mark.parametrize("fault, topic, name", NOTICED)
def test_a_fault_is_noticed(play, fault, topic, name):
    with pytest.raises(AssertionError):
        _play(play, fault, topic, name)


@pytest.mark.parametrize("topic, name", sorted({case[1:] for case in NOTICED}))
def test_passes_without_fault(play, topic, name):
    _play(play, "none", topic, name)


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
