"""Tasks that run once at a time, in real workers."""

import os
import signal
import time
from importlib import import_module

import pytest
import redis
from celery import chain, chord
from celery.exceptions import ChordError, TaskRevokedError
from harness import wait_for

from lock_so import NotAcquired, NotHeld
from lock_so_celery import LockedTask
from seen import info, wait_free, waiters

WAIT = 60


@pytest.fixture
def tasks(server, monkeypatch):
    """The application, as the process that sends has it."""
    monkeypatch.setenv("PROGRAM_URL", f"redis://127.0.0.1:{server.port}/0")
    monkeypatch.delitem(__import__("sys").modules, "program", raising=False)
    found = import_module("program")
    found.app.set_current()
    yield found
    found.locks.close()
    found.app.close()


def begun(server, number):
    """Waits until this number of runs have begun, and returns their labels and processes."""
    wait_for(lambda: server.control.llen("begun") >= number, 20, f"{number} runs to begin")
    found = [one.split(":") for one in server.control.lrange("begun", 0, -1)]
    assert len(found) == number, found
    return found


def open_gate(server, label):
    server.control.rpush(f"gate:{label}", "open")


def wait_state(result, state):
    wait_for(lambda: result.state == state, 20, f"state {state}")


def test_a_second_message_is_skipped(server, worker, tasks):
    worker()
    first = tasks.skips.delay("a")
    begun(server, 1)
    second = tasks.skips.delay("b")
    with pytest.raises(TaskRevokedError, match='lock "celery:program.skips" was not acquired: held by .+:.+:'):
        second.get(timeout=WAIT)
    assert second.state == "REVOKED"
    open_gate(server, "a")
    assert first.get(timeout=WAIT) == 0
    third = tasks.skips.delay("c")
    begun(server, 2)
    open_gate(server, "c")
    assert third.get(timeout=WAIT) == 0
    wait_free(server, "celery:program.skips")


def test_a_second_message_is_retried_without_counting(server, worker, tasks):
    worker()
    first = tasks.retries.delay("a")
    begun(server, 1)
    second = tasks.retries.delay("b")
    for _ in range(4):  # more often than max_retries
        wait_state(second, "RETRY")
        server.control.delete(f"celery-task-meta-{second.id}")
    assert begun(server, 1)
    open_gate(server, "a")
    open_gate(server, "b")
    assert (first.get(timeout=WAIT), second.get(timeout=WAIT)) == (0, 0)


def test_a_second_message_waits(server, worker, tasks):
    worker()
    first = tasks.waits.delay("a")
    begun(server, 1)
    second = tasks.waits.delay("b")
    wait_for(lambda: len(waiters(server, "celery:program.waits")) == 1, 20)
    open_gate(server, "b")
    assert begun(server, 1)
    open_gate(server, "a")
    assert (first.get(timeout=WAIT), second.get(timeout=WAIT)) == (0, 0)


def test_a_wait_with_a_limit_counts_as_a_retry(server, worker, tasks):
    worker()
    with tasks.locks.lock("celery:program.waits_shortly"):
        result = tasks.waits_shortly.delay("a")
        with pytest.raises(NotAcquired, match="within 0.2 s: held by"):
            result.get(timeout=WAIT)
    assert not server.control.exists("begun")


def test_a_key_is_made_of_the_arguments(server, worker, tasks):
    worker()
    results = [tasks.by_account.delay("a", 1), tasks.by_account.delay("b", account=2)]
    begun(server, 2)
    results.append(tasks.by_account.delay("c", 1))
    wait_state(results[2], "RETRY")
    for label in "abc":
        open_gate(server, label)
    assert [result.get(timeout=WAIT) for result in results] == [0, 0, 0]


def test_any_kind_of_lock(server, worker, tasks):
    worker()
    results = [tasks.two_at_a_time.delay(label) for label in "ab"]
    begun(server, 2)
    with pytest.raises(TaskRevokedError):
        tasks.two_at_a_time.delay("c").get(timeout=WAIT)
    for label in "ab":
        open_gate(server, label)
    assert [result.get(timeout=WAIT) for result in results] == [0, 0]


def test_the_hold_of_a_run(server, worker, tasks):
    worker()
    token, keys, is_lost = tasks.fenced.delay().get(timeout=WAIT)
    assert token > 0 and keys == ["celery:program.fenced"] and is_lost is False


@pytest.mark.parametrize("words", [["-P", "prefork", "-c", "6"], ["-P", "threads", "-c", "16"]])
def test_one_run_at_a_time(server, worker, tasks, words):
    worker(*words)
    for result in [tasks.counts.delay() for _ in range(60)]:
        result.get(timeout=WAIT)
    assert set(server.control.lrange("most", 0, -1)) == {"1"}
    assert server.control.llen("most") == 60


def test_a_process_that_is_killed_frees_the_lock_at_once(server, worker, tasks):
    """Its message is delivered again at once, while the lock is still held: it is not skipped."""
    worker()
    result = tasks.late.delay("a")
    ((_, pid),) = begun(server, 1)
    os.kill(int(pid), signal.SIGKILL)
    start = time.monotonic()
    (_, (_, other)) = begun(server, 2)
    assert time.monotonic() - start < 30 and other != pid
    open_gate(server, "a")
    assert result.get(timeout=WAIT) == 0


def test_a_worker_that_is_killed_frees_the_lock_at_once(server, worker, tasks):
    first, _ = worker(visibility=3), worker(visibility=3)
    tasks.late.delay("a")
    ((_, pid),) = begun(server, 1)
    killed = first if os.getpgid(int(pid)) == first.pid else _
    killed.kill()
    start = time.monotonic()
    wait_free(server, "celery:program.late")
    assert time.monotonic() - start < 20
    # Its message comes back after the visibility timeout.
    wait_for(lambda: server.control.llen("begun") == 2, 60)
    open_gate(server, "a")
    wait_for(lambda: server.control.lrange("ended", 0, -1) == ["a"], 20)


def test_a_message_that_is_delivered_again_during_its_run_runs_once(server, worker, tasks):
    worker(visibility=1)
    two = worker(visibility=1)
    result = tasks.late.delay("a")
    begun(server, 1)
    wait_state(result, "RETRY")  # by the second delivery
    assert begun(server, 1)
    open_gate(server, "a")
    open_gate(server, "a")
    wait_state(result, "SUCCESS")
    wait_for(lambda: not server.control.exists("celery", "unacked"), 60)
    assert begun(server, 1) and result.get(timeout=WAIT) == 0
    assert two is not None


def test_a_loss_is_noticed(server, worker, tasks):
    process = worker()
    result = tasks.skips.delay("a")
    begun(server, 1)
    server.control.execute_command("LOCK.FORCE", "celery:program.skips")
    process.wait_log("Task program.skips has lost its lock celery:program.skips while it runs")
    open_gate(server, "a")
    with pytest.raises(NotHeld, match="program.skips has lost its lock while it ran"):
        result.get(timeout=WAIT)


@pytest.mark.parametrize("error, text", [("KeyError", "own"), ("SystemExit", "3|exited")])
def test_a_run_that_fails_releases_the_lock(server, worker, tasks, error, text):
    """Its own retry counts, and releases it too."""
    worker()
    with pytest.raises(Exception, match=text):
        tasks.fails.delay(error).get(timeout=WAIT)
    wait_free(server, "celery:program.fails")


def test_a_server_that_cannot_be_reached_lets_nothing_run(server, worker, tasks):
    worker(locks="redis://127.0.0.1:1/0")
    with pytest.raises(redis.ConnectionError):
        tasks.fails.delay("KeyError").get(timeout=WAIT)
    assert server.info("commandstats").get("cmdstat_lock.acquire") is None


def test_what_follows_a_skipped_task_is_not_run(server, worker, tasks):
    worker()
    with tasks.locks.lock("celery:program.skips"):
        with pytest.raises(TaskRevokedError):
            chain(tasks.skips.s("a"), tasks.add.s()).apply_async().parent.get(timeout=WAIT)
        with pytest.raises((ChordError, TaskRevokedError)):
            chord([tasks.skips.s("a"), tasks.add.s(1)])(tasks.add.s()).get(timeout=WAIT)
    assert [one[0] for one in begun(server, 1)] == ["add"]  # that of the chord


def test_called_in_the_same_process(server, tasks):
    open_gate(server, "a")
    open_gate(server, "b")
    assert tasks.skips("a") == 0 and tasks.skips.apply(["b"]).get() == 0
    with tasks.locks.lock("celery:program.skips"):
        with pytest.raises(NotAcquired):
            tasks.skips("c")
        with pytest.raises(NotAcquired):
            tasks.skips.apply(["c"], throw=True)
    assert info(server, "celery:program.skips") is None and tasks.skips.hold is None


def test_options_are_checked(tasks):
    with pytest.raises(ValueError, match="lock_conflict must be"):
        type("Wrong", (LockedTask,), {"lock_conflict": "never"})
    with pytest.raises(ValueError, match="wait must not be negative"):
        tasks.app.task(name="wrong", base=LockedTask, lock_options={"wait": -1})(test_options_are_checked)(None)
