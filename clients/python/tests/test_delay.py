"""Delayed queues and their consumers, in both flavours."""

import asyncio
import threading
import time
from concurrent import futures

import pytest
import redis
import redis.asyncio
from harness import wait_for

from lock_so import Cancellation, Cancelled, Closed, Job, Locks, Refused, aio
from lock_so._delay import Consumer, beside, element_of, parsed
from lock_so._spec import Spec
from lock_so._steps import Connect, Send
from seen import calls


@pytest.mark.parametrize(
    "element, tries, value",
    [
        (b"v", 0, b"v"),
        (b"lock-so:0:v", 0, b"v"),
        (b"lock-so:12:lock-so:x", 12, b"lock-so:x"),
        ("lock-so:3:\n", 3, "\n"),
        (b"lock-so::v", 0, b"lock-so::v"),
        (b"x lock-so:1:v", 0, b"x lock-so:1:v"),
    ],
)
def test_elements(element, tries, value):
    assert parsed(element) == (tries, value)
    assert parsed(element_of(tries + 1, value)) == (tries + 1, value)


@pytest.mark.parametrize(
    "name, taken",
    [
        (b"q", b"{q}:taken"),
        (b"a{b}c", b"a{b}c:taken"),
        (b"{}q", b"{{}q}:taken"),
        (b"a{b", b"{a{b}:taken"),
        (b"}a{b}", b"}a{b}:taken"),
    ],
)
def test_keys_of_the_same_slot(name, taken):
    assert beside(name, b":taken") == taken


def test_push_cancel_and_list(server, do):
    locks = do.locks(server)
    queue = locks.delayed_queue("q")
    assert do(queue.push("a", 600, id="x")) == "x" and do(queue.push(b"b", 300, id=b"x")) == "x"
    other = do(queue.push("c", 900))
    found = do(queue.list())
    assert [(item.id, item.value) for item in found] == [("x", b"b"), (other, b"c")] and 290 < found[0].left <= 300
    assert len(do(queue.list(1))) == 1
    assert do(queue.cancel("x")) and not do(queue.cancel("x")) and do(queue.cancel(other))
    do(queue.push("d", 0))
    wait_for(lambda: server.control.llen("q") == 1, 20, "the delivery")
    do(locks.close())


def test_options_are_checked(server, do):
    queue = do.locks(server).delayed_queue("q")
    for work in (
        lambda: queue.push("v", -1),
        lambda: queue.push("v", float("inf")),
        lambda: queue.push("lock-so:1:v", 1),
        lambda: queue.push("v", 1, id=""),
        lambda: queue.consume(print, timeout=0),
        lambda: queue.consume(print, max_tries=0),
        lambda: queue.consume(print, backoff=-1),
    ):
        with pytest.raises(ValueError):
            do(work())
    with pytest.raises(TypeError):
        do(queue.push(7, 1))
    assert not calls(server, "delay.push") and not calls(server, "blmove")


class Consuming:
    """A consumer in the background, whose handler records its jobs."""

    def __init__(self, do, queue, handler=lambda job: None, **options):
        self.jobs = []

        def handle(job):
            self.jobs.append(job)
            return handler(job)

        if isinstance(queue, aio.DelayedQueue):
            self._future = asyncio.run_coroutine_threadsafe(queue.consume(handle, **options), do.loop)
            self.stop = self._future.cancel
        else:
            cancellation, self._future = Cancellation(), futures.Future()
            self.stop = cancellation.cancel

            def run():
                try:
                    queue.consume(handle, cancel=cancellation, **options)
                except Exception as error:
                    self._future.set_exception(error)

            threading.Thread(target=run, daemon=True).start()

    def error(self):
        try:
            return self._future.exception(60)
        except futures.CancelledError as error:
            return error

    def end(self):
        self.stop()
        assert isinstance(self.error(), (Cancelled, futures.CancelledError)), self.error()


def empty(server):
    return not server.control.keys()


def wait_empty(server):
    wait_for(lambda: empty(server), 20, "nothing to be left")


def seen(consuming):
    return [(job.value, job.tries) for job in consuming.jobs]


def test_a_job(server, do):
    locks = do.locks(server)
    queue = locks.delayed_queue("q")
    consuming = Consuming(do, queue)
    do(queue.push("a", 0))
    server.control.rpush("q", "b")
    wait_for(lambda: len(consuming.jobs) == 2, 20, "two jobs")
    assert sorted(job.value for job in consuming.jobs) == [b"a", b"b"] and {job.tries for job in consuming.jobs} == {1}
    wait_empty(server)
    consuming.end()
    do(locks.close())


def test_tries_and_failures(server, do, caplog):
    def handler(job):
        raise ValueError("no")

    locks = do.locks(server)
    consuming = Consuming(do, locks.delayed_queue("q"), handler, max_tries=2, backoff=0.05)
    server.control.rpush("q", "a")
    wait_for(lambda: server.control.llen("{q}:failed") == 1, 20, "the failure")
    assert seen(consuming) == [(b"a", 1), (b"a", 2)]
    assert server.control.lrange("{q}:failed", 0, -1) in (["a"], [b"a"])
    assert [text for text in caplog.messages if "try 2" in text and "no" in text]
    wait_for(lambda: len(server.control.keys()) == 1, 20, "only the failed one to be left")
    consuming.end()
    do(locks.close())


def test_a_try_that_does_not_end_is_repeated(server, do, caplog):
    first, second = do.locks(server), do.locks(server)
    entered, leave = threading.Event(), threading.Event()

    async def wait():
        entered.set()
        while not leave.is_set():
            await asyncio.sleep(0.01)

    def handler(job):
        if do.is_asyncio:
            return wait()
        entered.set()
        leave.wait(60)

    slow = Consuming(do, first.delayed_queue("q"), handler, timeout=0.3)
    server.control.rpush("q", "a")
    assert entered.wait(20)
    fast = Consuming(do, second.delayed_queue("q"))
    wait_for(lambda: fast.jobs, 20, "the second try")
    assert seen(fast) == [(b"a", 2)]
    leave.set()
    wait_for(lambda: [text for text in caplog.messages if "took longer than its timeout" in text], 20, "the warning")
    for consuming in (slow, fast):
        consuming.end()
    wait_empty(server)
    for locks in (first, second):
        do(locks.close())


def test_what_a_dead_consumer_has_left_is_delivered(server, do):
    locks = do.locks(server)
    server.control.rpush("{q}:taken", "a", "lock-so:2:b", "a")
    consuming = Consuming(do, locks.delayed_queue("q"))
    wait_for(lambda: len(consuming.jobs) == 3, 20, "the three jobs")
    assert sorted(seen(consuming)) == [(b"a", 1), (b"a", 1), (b"b", 3)]
    wait_empty(server)
    consuming.end()
    do(locks.close())


def test_a_cancellation_while_a_job_is_handled(server, do):
    """In threads the job is finished, with asyncio it is pushed back."""
    locks, entered = do.locks(server), threading.Event()

    def handler(job):
        entered.set()
        if do.is_asyncio:
            return asyncio.sleep(600)
        time.sleep(0.3)

    consuming = Consuming(do, locks.delayed_queue("q"), handler, timeout=600)
    server.control.rpush("q", "a")
    assert entered.wait(20)
    consuming.end()
    if do.is_asyncio:
        wait_for(lambda: server.control.lrange("q", 0, -1) in (["lock-so:0:a"], [b"lock-so:0:a"]), 20, "the element")
        server.control.delete("q")
    wait_empty(server)
    do(locks.close())


def test_close_ends_a_consumer(server, do):
    locks = do.locks(server)
    consuming = Consuming(do, locks.delayed_queue("q"))
    wait_for(lambda: server.info("clients")["blocked_clients"] == 1, 20, "the consumer to wait")
    do(locks.close())
    assert isinstance(consuming.error(), Closed)


def test_a_consumer_survives_an_outage(server, do, caplog):
    locks = do.locks(server)
    consuming = Consuming(do, locks.delayed_queue("q"))
    wait_for(lambda: server.info("clients")["blocked_clients"] == 1, 20, "the consumer to wait")
    server.control.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    server.control.rpush("q", "a")
    wait_for(lambda: consuming.jobs, 20, "the job")
    assert 'delayed queue "q": no connection to' in caplog.text
    wait_empty(server)
    consuming.end()
    do(locks.close())


def test_an_element_that_cannot_be_claimed_is_kept(server, do, caplog):
    locks = do.locks(server)
    server.control.rpush("q", "a")
    server.control.config_set("maxmemory", 1)
    server.control.config_set("maxmemory-policy", "noeviction")
    consuming = Consuming(do, locks.delayed_queue("q"), backoff=600)
    wait_for(lambda: "could not be taken or claimed" in caplog.text, 20, "a warning")
    assert not consuming.jobs
    server.control.config_set("maxmemory", 0)
    wait_for(lambda: consuming.jobs, 20, "the job")
    wait_empty(server)
    consuming.end()
    do(locks.close())


def test_what_is_no_list_is_refused(server, do):
    locks = do.locks(server)
    server.control.set("q", "text")
    consuming = Consuming(do, locks.delayed_queue("q"))
    error = consuming.error()
    assert isinstance(error, Refused) and error.code == "WRONGTYPE"
    do(locks.close())


def test_text_of_a_client_that_decodes(server):
    locks = Locks(redis.Redis(port=server.port, decode_responses=True))
    found, cancellation = [], Cancellation()

    def handler(job):
        found.append(job)
        if job.tries < 2:
            raise ValueError("no")
        cancellation.cancel()

    locks.delayed_queue("q").push("é", 0)
    with pytest.raises(Cancelled):
        locks.delayed_queue("q").consume(handler, cancel=cancellation, backoff=0)
    assert found == [Job("é", 1), Job("é", 2)] and empty(server)
    locks.close()


def test_a_consumer_without_a_server(server, do):
    locks = do.locks(server, connect_timeout=0.3)
    server.kill()
    began = time.monotonic()
    assert isinstance(Consuming(do, locks.delayed_queue("q")).error(), redis.ConnectionError)
    assert time.monotonic() - began < 5
    do(locks.close())


@pytest.mark.parametrize("error", [redis.ConnectionError("cut"), redis.TimeoutError("late")])
def test_a_removal_without_a_reply_counts(error):
    """It is not sent again: the second one could remove an equal element of another consumer."""
    steps, sent = Consumer(None, Spec("queue", ("q",)), print, 60, 1, 1)._claimed(b"a", 1, 60), []
    try:
        step = next(steps)
        while True:
            if isinstance(step, Send):
                sent.append(step.words[0])
            is_lost = isinstance(step, Send) and step.words[0] == "LREM"
            assert isinstance(step, (Connect, Send))
            step = steps.throw(error) if is_lost else steps.send(1)
    except StopIteration as end:
        assert end.value.startswith("claim-") and sent == ["DELAY.PUSH", "LREM"]


@pytest.mark.parametrize("backoff", [0, 0.0, 1])
def test_a_pause_after_many_tries(server, do, backoff):
    def handler(job):
        if len(consuming.jobs) == 1:
            raise ValueError("no")

    locks = do.locks(server)
    consuming = Consuming(do, locks.delayed_queue("q"), handler, max_tries=10**6, backoff=backoff)
    server.control.rpush("q", "lock-so:5000:a")
    if backoff:
        (pending,) = wait_pending(server)
        assert pending[2] in ("lock-so:5001:a", b"lock-so:5001:a") and int(pending[1]) > 2**49
        server.control.execute_command("DELAY.CANCEL", "q", pending[0])
    else:
        wait_for(lambda: seen(consuming) == [(b"a", 5001), (b"a", 5002)], 20, "two tries")
        wait_empty(server)
    consuming.end()
    do(locks.close())


def wait_pending(server):
    """The elements of the queue whose claims have been settled."""
    found = []

    def is_settled():
        found[:] = server.control.execute_command("DELAY.LIST", "q")
        return found and int(found[0][1]) > 10**6

    wait_for(is_settled, 20, "the pause")
    return found


def test_a_job_that_is_cancelled_too_late_is_not_pushed_again(server):
    async def play():
        first, second = (aio.Locks(redis.asyncio.Redis(port=server.port)) for _ in range(2))
        entered, again, tries = asyncio.Event(), asyncio.Event(), []

        async def slow(job):
            entered.set()
            await asyncio.sleep(600)

        async def fast(job):
            tries.append(job.tries)
            again.set()

        consuming = asyncio.ensure_future(first.delayed_queue("q").consume(slow, timeout=0.3))
        server.control.rpush("q", "a")
        await entered.wait()
        other = asyncio.ensure_future(second.delayed_queue("q").consume(fast))
        await again.wait()
        consuming.cancel()
        await asyncio.wait({consuming})
        while not empty(server):
            await asyncio.sleep(0.05)
        other.cancel()
        await asyncio.wait({other})
        assert tries == [2]
        for locks in (first, second):
            await locks.close()

    asyncio.run(asyncio.wait_for(play(), 60))
