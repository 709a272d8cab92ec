"""lock.max-lease, and the warning if a quarantine is not longer."""

import pytest
from redis.exceptions import ResponseError

from harness.schedule import ANY, BLOCKS, error, run_schedule, schedules
from harness.server import ServerDied
from model.lock_scene import HOUR, lease
from model.quarantine_scene import REQUESTS

MAX = 60_000
TOO_LONG = error("ERR", "lease is longer than lock.max-lease")
SET = ("q", f"CONFIG SET lock.default-lease {MAX} lock.max-lease {MAX}", "OK")
REQUESTS_WITH_LEASE = {name: command for name, (command, _) in REQUESTS.items() if name != "session"}
each_request = pytest.mark.parametrize("command", REQUESTS_WITH_LEASE.values(), ids=REQUESTS_WITH_LEASE)


@each_request
@pytest.mark.parametrize("option", [f"PX {MAX + 1}", f"EX {MAX // 1000 + 1}", f"BLOCK 0 PX {MAX + 1}"])
def test_longer_lease_is_an_error(server, some_resp, command, option):
    run_schedule(server, [SET, ("a", f"{command} {option}", TOO_LONG), ("a", "EXISTS k l", 0)], some_resp)


@each_request
@pytest.mark.parametrize("option", [f"PX {MAX}", f"EX {MAX // 1000}", ""])
def test_longest_lease_is_no_error(server, some_resp, command, option):
    run_schedule(server, [SET, ("a", f"{command} {option}", ANY), ("a", "EXISTS k", 1)], some_resp)


SCRIPT = "return redis.call('LOCK.ACQUIRE', KEYS[1], 'a', 'PX', ARGV[1])"
TAKEN = ("a", f"LOCK.ACQUIRE k a PX {MAX}", 1)
OTHERS = {
    "renewal": [SET, TAKEN, ("a", f"LOCK.RENEW k a PX {MAX + 1}", TOO_LONG), ("a", f"LOCK.RENEW k a PX {MAX}", 1)],
    "renewal, seconds": [SET, TAKEN, ("a", f"LOCK.RENEW k a EX {MAX // 1000 + 1}", TOO_LONG)],
    "renewal, default": [SET, TAKEN, ("a", "LOCK.RENEW k a", 1)],
    "session": [SET, ("a", "LOCK.ACQUIRE k a SESSION", 1), ("a", "LOCK.RENEW k a SESSION", 1)],
    "script": [SET, ("a", ("EVAL", SCRIPT, 1, "k", MAX + 1), TOO_LONG)],
    "inside a guard": [SET, TAKEN, ("a", f"LOCK.GUARD k a LOCK.ACQUIRE l a PX {MAX + 1}", TOO_LONG)],
    "a latch has no lease": [SET, ("a", f"LATCH.SET k 1 PX {MAX + 1}", "OK")],
    "a wait may be longer": [SET, TAKEN, ("b", f"LOCK.ACQUIRE k b BLOCK {2 * MAX}", BLOCKS)],
    "any, without one": [("a", f"LOCK.ACQUIRE k a PX {10**15}", 1)],
    "any, once it is 0 again": [
        SET, ("q", "CONFIG SET lock.max-lease 0", "OK"), ("a", f"LOCK.ACQUIRE k a PX {MAX + 1}", 1),
    ],
}  # fmt: skip


@schedules(**OTHERS)
def test_limit_applies_to_leases_of_all_commands(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


def test_leases_requested_before_are_not_limited(server, actor):
    holder, waiter = actor("a"), actor("b")
    assert holder.call("LOCK.ACQUIRE", "k", "a", "PX", HOUR) == 1
    waiter.send("LOCK.ACQUIRE", "k", "b", "PX", HOUR, "BLOCK", 0)
    waiter.wait_blocked()
    server.control.execute_command(*SET[1].split())
    assert server.control.pttl("k") > MAX
    with lease(server, HOUR):
        holder.call("LOCK.RELEASE", "k", "a")
    assert waiter.reply() == 1


# ---- a default lease above it ----


def leases(client):
    return client.config_get("lock.default-lease", "lock.max-lease") | client.config_get("lock.max-lease")


def refused(client, *words):
    with pytest.raises(ResponseError, match="lock.default-lease is longer than lock.max-lease"):
        client.execute_command("CONFIG", "SET", *words)
    return True


def test_default_lease_above_it_is_refused(client):
    before = leases(client)
    assert refused(client, "lock.max-lease", 29_999)
    client.config_set("lock.max-lease", 30_000)
    assert refused(client, "lock.default-lease", 30_001)
    assert refused(client, "lock.default-lease", 10, "lock.max-lease", 9)
    assert refused(client, "lock.max-lease", 9, "lock.default-lease", 10)
    assert leases(client) == before | {"lock.max-lease": "30000"}


def test_quarantine_set_with_a_refused_option_does_not_begin(server, client):
    assert refused(client, "lock.quarantine", HOUR, "lock.max-lease", 9)
    assert server.info("lock")["lock_quarantine_ms"] == 0
    assert client.execute_command("LOCK.ACQUIRE", "k", "o") == 1


@pytest.mark.parametrize("words", [("max", 10, "default", 10), ("default", 10, "max", 10)])
def test_both_may_be_set_at_once(client, words):
    names = {"max": "lock.max-lease", "default": "lock.default-lease"}
    assert client.execute_command("CONFIG", "SET", *(names.get(word, word) for word in words))
    assert leases(client) == {"lock.max-lease": "10", "lock.default-lease": "10"}


def test_default_lease_above_it_in_the_configuration_stops_the_start(make_server):
    with pytest.raises(ServerDied, match="lock.default-lease is longer than lock.max-lease"):
        make_server(lock_max_lease=29_999)


def test_MODULE_LOADEX_with_a_default_lease_above_it_is_refused(make_server):
    server = make_server(load_module=False)
    with pytest.raises(ResponseError):
        server.control.execute_command("MODULE", "LOADEX", str(server.launch.module), "CONFIG", "lock.max-lease", 1)
    assert "lock.default-lease is longer than lock.max-lease" in server.log()
    assert server.control.ping()


# ---- the warning ----

NONE, NOT_LONGER, NOT_SET = None, "is not longer than lock.max-lease", "lock.max-lease is not set"
WARNINGS = [
    (0, 0, NONE), (0, MAX, NONE), (MAX + 1, MAX, NONE), (MAX, MAX, NOT_LONGER), (1, MAX, NOT_LONGER), (MAX, 0, NOT_SET),
]  # fmt: skip
each_warning = pytest.mark.parametrize("quarantine, longest, warning", WARNINGS)


def warned(log):
    return next((text for text in (NOT_LONGER, NOT_SET) if text in log), NONE)


@each_warning
def test_warning_at_load(make_server, quarantine, longest, warning):
    server = make_server(lock_quarantine=quarantine, lock_max_lease=longest)
    assert warned(server.log()) == warning


@each_warning
@pytest.mark.parametrize("last", ["quarantine", "max-lease"])
def test_warning_when_either_of_the_two_is_set(server, quarantine, longest, warning, last):
    values = {"quarantine": quarantine, "max-lease": longest}
    first = next(name for name in values if name != last)
    server.control.config_set(f"lock.{last}", 2 * MAX if values[last] != 2 * MAX else MAX)
    server.control.config_set(f"lock.{first}", values[first])
    before = len(server.log())
    server.control.config_set(f"lock.{last}", values[last])
    assert warned(server.log()[before:]) == warning
