"""--at-least: a lock that is kept after its command has ended, so that a job of many hosts runs once."""

from signal import SIGKILL, SIGTERM

import pytest

from harness import scaled, scaled_ms, wait_for
from harness.proxy import Proxy
from runs import LOST, NO_COMMAND, NOT_HAD, UNAVAILABLE, USAGE, holders, is_free, wait_waiting, wait_watched

HOUR = ["--at-least", "1h"]
KINDS = {"plain": [], "fair": ["--fair"], "shared": ["--shared"], "semaphore": ["--semaphore", 1], "lease": ["--lease", 20]}


def left_ms(server, key="k"):
    [holder] = holders(server, key)
    assert holder["session"] is None, "a session ends with its connection"
    return holder["pttl"]


def test_a_job_of_two_hosts_a_second_apart_runs_once(server, run, tmp_path):
    job = ["sh", "-c", f"sleep 0.2; echo ran >> {tmp_path}/log"]
    assert run(server, "--wait", 0, *HOUR, "nightly", *job).wait() == 0
    server.let_pass(1000)
    assert run(server, "--wait", 0, *HOUR, "nightly", *job).wait() == NOT_HAD
    assert (tmp_path / "log").read_text() == "ran\n"


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_kept_without_the_process(server, run, kind):
    done = run(server, *KINDS[kind], *HOUR, "k", "sh", "-c", "exit 7")
    assert (done.wait(), done.stderr) == (7, "")
    assert 3_500_000 < left_ms(server) <= 3_600_000
    other = [] if kind == "shared" else KINDS[kind]
    assert run(server, *other, "--wait", 0, "k", "true").wait() == NOT_HAD


def test_a_waiter_acquires_it_when_the_time_has_passed(server, run, witness):
    command = witness()
    first = run(server, "--at-least", scaled(2), "k", "true")
    began = server.now_ms()
    assert first.wait() == 0
    waiter = run(server, "k", *command.words)
    wait_waiting(server, "k")
    command.wait_begun()
    assert server.now_ms() - began >= scaled_ms(2000) - 200
    command.finish(9)
    assert waiter.wait() == 9


def test_a_command_that_takes_longer(server, run, witness):
    command = witness()
    held = run(server, "--at-least", "100ms", "k", *command.words)
    command.wait_begun()
    server.let_pass(scaled_ms(300))
    command.finish()
    assert (held.wait(), held.stderr) == (0, "")
    assert is_free(server, "k")


def test_no_request_ever_makes_it_end_sooner(server, run, witness):
    # The lease is shorter than the time, and is renewed several times: a renewal that is executed late does no harm.
    command = witness()
    held = run(server, "--lease", scaled(0.6), "--at-least", scaled(3), "k", *command.words)
    command.wait_begun()
    ends = [server.control.pexpiretime("k")]

    def passed():
        ends.append(server.control.pexpiretime("k"))
        return server.now_ms() > ends[0] + scaled_ms(300)

    wait_for(passed, 20, "the time to pass")
    # Each end is later than the time by as long as the request was under way.
    assert min(ends) >= ends[0] - scaled_ms(300) and len(set(ends)) > 2
    # From then on it is an ordinary lease.
    command.finish()
    assert held.wait() == 0
    assert is_free(server, "k")


def test_the_lease_is_not_left_longer_than_the_time(server, run, witness):
    held = run(server, "--lease", 3600, "--at-least", scaled(60), "k", "true")
    assert held.wait() == 0
    assert left_ms(server) <= scaled_ms(60_000)


@pytest.mark.parametrize("number", [SIGTERM, SIGKILL], ids=["SIGTERM", "SIGKILL"])
def test_it_is_kept_whatever_ends_lockctl(server, run, witness, number):
    # The host may crash, too: the job does not run a second time on another host.
    command = witness()
    held = run(server, *HOUR, "k", *command.words)
    command.wait_begun()
    held.tell(number)
    assert held.wait() in (128 + number, -number)
    assert left_ms(server) > 3_500_000


def test_it_is_kept_when_the_server_cannot_be_reached_at_the_end(server, run, witness):
    command = witness()
    with Proxy(server.port) as proxy:
        held = run(f"redis://127.0.0.1:{proxy.port}", *HOUR, "k", *command.words)
        command.wait_begun()
        proxy.swallow()
        command.finish(7)
        assert (held.wait(), held.stderr) == (7, "")
    assert left_ms(server) > 3_500_000


def test_a_command_that_was_not_started(server, run, tmp_path):
    # It can run on another host.
    assert run(server, *HOUR, "k", "no such command").wait() == NO_COMMAND
    assert is_free(server, "k")
    server.control.execute_command("LOCK.ACQUIRE", "k", "o")
    waiter = run(server, *HOUR, "k", "true")
    wait_waiting(server, "k")
    waiter.tell(SIGTERM)
    assert waiter.wait() == -SIGTERM
    assert [holder["owner"] for holder in holders(server, "k")] == [b"o"]


def test_a_lock_that_was_lost(server, run, witness):
    command = witness()
    held = run(server, *HOUR, "k", *command.words)
    command.wait_begun()
    wait_watched(server, "k")
    server.control.execute_command("LOCK.FORCE", "k")
    assert held.wait() == LOST
    assert is_free(server, "k")


def test_a_lease_that_the_server_does_not_permit(make_server, run, tmp_path):
    server = make_server(lock_max_lease=60_000, lock_default_lease=30_000)
    refused = run(server, *HOUR, "k", "touch", tmp_path / "started")
    assert refused.wait() == UNAVAILABLE
    assert "lock.max-lease" in refused.stderr
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("other", [["--session"], ["--owner", "me"]], ids=["session", "owner"])
def test_what_it_excludes(server, run, other):
    refused = run(server, *HOUR, *other, "k", "true")
    assert refused.wait() == USAGE
    assert other[0] in refused.stderr
