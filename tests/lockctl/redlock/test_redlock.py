"""lockctl run with three or more independent servers: it holds the lock at a majority of them."""

import pytest

from harness import scaled, scaled_ms, wait_for
from redlock_ring import KEY, patient

HOUR_MS = 3_600_000

several = pytest.mark.parametrize("count", [3, 5])


# Holding and releasing


@several
def test_all_hold_it_by_the_lease_and_all_are_released(make_ring, lock_run, count):
    ring = make_ring(count)
    run = lock_run(ring, "-l", "60")
    worker = run.wait_holds()
    ring.wait_held(worker.owner, *range(count))
    for number in range(count):
        holder = ring.holders(number)[worker.owner]
        assert holder["mode"] == "exclusive" and 30_000 < holder["pttl"] <= 60_000
    assert run.finish() == (0, "")
    assert all(ring.is_free(number) for number in range(count))


def test_without_lease_it_is_ten_seconds(make_ring, lock_run):
    ring = make_ring(3)
    owner = lock_run(ring).wait_holds().owner
    ring.wait_held(owner, 0, 1, 2)
    assert all(5_000 < ring.holders(number)[owner]["pttl"] <= 10_000 for number in range(3))


def test_status_and_variables_are_the_commands(make_ring, lock_run):
    command = ["sh", "-c", 'echo "$LOCK_KEY|$LOCK_OWNER|$LOCK_TOKEN"; exit 7']
    run = lock_run(make_ring(3), command=command)
    assert run.end() == (7, "")
    key, owner, token = run.output().strip().split("|")
    assert key == KEY and owner and int(token) > 1_000_000_000_000_000


def test_it_is_renewed_everywhere(make_ring, lock_run):
    ring, lease_ms = make_ring(5), scaled_ms(1500)
    run = lock_run(ring, "-l", patient(1.5))
    owner = run.wait_holds().owner
    ring.wait_held(owner, *range(5))
    first = [ring.ends_ms(number) for number in range(5)]
    for number in range(5):
        wait_for(lambda number=number: ring.ends_ms(number) > first[number] + 2 * lease_ms, 10, "renewals")
    assert run.lives_on() and run.finish() == (0, "")


def test_the_token_is_the_largest_and_grows_only_as_clocks_agree(make_ring, lock_run):
    ring = make_ring(3)
    # The clock of the last server was an hour ahead when it issued its last token, and tokens never get smaller.
    ahead = ring.servers[2].now_ms() * 1000 + 3_600_000_000
    ring.servers[2].control.hset(f"lock:token:{{{KEY}}}", mapping={"token": ahead, "owner": "other"})
    ring.kill(0)
    run = lock_run(ring)
    token = run.wait_holds().token
    assert token == ring.token(2) > ahead > ring.token(1) + 3_000_000_000
    assert run.finish() == (0, "")
    # The next majority does not include that server, so its token is smaller: docs/redlock.md.
    ring.start(0)
    ring.kill(2)
    run = lock_run(ring)
    assert run.wait_holds().token < token
    assert run.finish() == (0, "")


def test_shared(make_ring, lock_run):
    ring = make_ring(3)
    runs = [lock_run(ring, "--shared") for _ in range(2)]
    owners = [run.wait_holds().owner for run in runs]
    for owner in owners:
        ring.wait_held(owner, 0, 1, 2)
    assert runs[0].worker().token == 0
    assert lock_run(ring, "--wait", "0").status() == 75
    assert [run.finish() for run in runs] == [(0, ""), (0, "")]
    assert all(ring.is_free(number) for number in range(3))
    assert lock_run(ring, "--wait", "0", until=0).status() == 0


# Another client


@several
def test_a_majority_is_somebody_elses(make_ring, lock_run, count):
    ring = make_ring(count)
    majority = range(count // 2 + 1)
    ring.take("other", HOUR_MS, *majority)
    run = lock_run(ring, "--wait", "0")
    status, said = run.end()
    assert status == 75 and said == f"lockctl: {KEY}: another client holds the lock\n"
    assert not run.has_begun()
    ring.wait_free(*range(count // 2 + 1, count))
    assert all(set(ring.holders(number)) == {"other"} for number in majority)


def test_a_minority_is_somebody_elses(make_ring, lock_run):
    ring = make_ring(5)
    ring.take("other", HOUR_MS, 0, 1)
    run = lock_run(ring, "--wait", "0")
    run.wait_holds()
    assert all(set(ring.holders(number)) == {"other"} for number in (0, 1))
    assert run.finish() == (0, "")


def test_it_is_tried_again_until_it_is_free(make_ring, lock_run):
    ring = make_ring(5)
    ring.take("other", HOUR_MS, 0, 1, 2)
    run = lock_run(ring, "--wait", "60")
    wait_for(lambda: min(ring.calls(number, "lock.acquire") for number in range(5)) >= 4, 10, "some rounds")
    assert not run.has_begun()
    ring.give("other", 0)
    assert run.wait_holds().token == max(ring.token(number) for number in (0, 3, 4))
    assert run.finish() == (0, "")


def test_wait_ends(make_ring, lock_run):
    ring = make_ring(3)
    ring.take("other", HOUR_MS, 0, 1)
    run = lock_run(ring, "--wait", patient(0.5))
    assert run.status() == 75
    # It has tried until the timeout: with rounds and with pauses of 0.2 s at most.
    assert ring.calls(2, "lock.acquire") >= 2
    ring.wait_free(2)


def test_two_who_want_it_have_it_in_turn(make_ring, lock_run, judge):
    ring = make_ring(5)
    runs = [lock_run(ring, "--wait", "60", "-l", "60", until=20) for _ in range(6)]
    assert [run.status(60) for run in runs] == [0] * 6
    assert judge([run.hold() for run in runs]) == set()


def test_a_server_refuses(make_ring, lock_run):
    """The same as with a single server that refuses: status 69 and its error, not an endless wait."""
    ring = make_ring(3, lock_max_lease=10_000, lock_default_lease=10_000)
    run = lock_run(ring, "-l", "60", "--wait", "60")
    status, said = run.end()
    assert status == 69 and "lock.max-lease" in said


# No majority replies


@several
@pytest.mark.parametrize("wait", ["0", "60"])
def test_a_majority_is_not_there(make_ring, lock_run, count, wait):
    ring = make_ring(count)
    dead = range(count // 2 + 1)
    ring.kill(*dead)
    run = lock_run(ring, "--wait", wait, "--timeout", patient(1))
    status, said = run.end()
    assert status == 69 and said == f"lockctl: {KEY}: no majority of the servers replied\n"
    assert not run.has_begun()
    ring.wait_free(*range(count // 2 + 1, count))


@pytest.mark.parametrize("wait", ["0", "60"])
def test_a_majority_is_silent(make_ring, lock_run, wait):
    ring = make_ring(5)
    ring.stop(0, 1, 2)
    run = lock_run(ring, "-l", "60", "--wait", wait, "--timeout", patient(1))
    assert run.status() == 69 and not run.has_begun()
    ring.wait_free(3, 4)
    # They have received a request and a release, although they had not replied.
    ring.go_on(0, 1, 2)
    for number in (0, 1, 2):
        wait_for(lambda number=number: ring.calls(number, "lock.acquire") >= 1, what="the request to be read")
    ring.wait_free(0, 1, 2)


def test_a_majority_comes_back(make_ring, lock_run):
    ring = make_ring(5)
    ring.kill(0, 1, 2)
    run = lock_run(ring, "--wait", "60", "--timeout", "60")
    wait_for(lambda: ring.calls(4, "lock.acquire") >= 2, 10, "two rounds")
    ring.start(1)
    run.wait_holds()
    assert run.finish() == (0, "")


# Options


@pytest.mark.parametrize("options", ["--session", "--fair", "--semaphore 2", "--replicas 1"])
def test_what_a_majority_does_not_know(lock_run, options):
    urls = [f"redis://127.0.0.1:{port}" for port in (1, 2, 3)]
    status, said = lock_run(urls, *options.split()).end()
    assert status == 64 and "need one server" in said


def test_two_servers(lock_run):
    status, said = lock_run(["redis://127.0.0.1:1", "redis://127.0.0.1:2"]).end()
    assert status == 64 and "two servers" in said


def test_servers_by_the_environment(make_ring, lock_run, monkeypatch):
    ring = make_ring(3)
    monkeypatch.setenv("LOCKCTL_URL", " ".join(ring.urls()))
    run = lock_run([])
    ring.wait_held(run.wait_holds().owner, 0, 1, 2)
    assert run.finish(scaled(20)) == (0, "")
