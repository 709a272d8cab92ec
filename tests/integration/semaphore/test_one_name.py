"""A semaphore, a latch and a delayed queue with one name: two exclude each other, the last has its own keys."""

import pytest

from harness import scaled_ms, wait_for
from harness.schedule import BLOCKS, STILL_BLOCKED, answered, error, granted, run_schedule, schedules
from model import latch_scene
from model.delay_scene import HOUR, delivered, pending, push, stuck, wait_delivered
from model.semaphore_scene import LONG, holds, permits_of, releases, takes, waits

WRONG = error("WRONGTYPE")
LATCH = [
    ("z", "LATCH.SET k 1", WRONG),
    ("z", "LATCH.DOWN k", WRONG),
    ("z", "LATCH.WAIT k", WRONG),
    ("z", "LATCH.WAIT k BLOCK 0", WRONG),
]

SCHEDULES = dict(
    a_semaphore_is_no_latch=[takes("a", 2), waits("b", 1), *LATCH, holds(a=1), releases("a"), ("b", granted(1))],
    a_latch_is_no_semaphore=[
        ("z", "LATCH.SET k 1", "OK"),
        ("w", "LATCH.WAIT k BLOCK 0", BLOCKS),
        ("a", "LOCK.SEMAPHORE k oa 2", WRONG),
        ("a", "LOCK.SEMAPHORE k oa 2 BLOCK 0", WRONG),
        ("a", "LOCK.RELEASE k oa", WRONG),
        ("a", "LOCK.WATCH k oa WANTED BLOCK 0", WRONG),
        ("a", "LOCK.INFO k", WRONG),
        ("w", STILL_BLOCKED),
        ("z", "LATCH.DOWN k", 0),
        ("w", answered(1)),
        takes("a", 2),
    ],
    waiters_for_permits_wait_while_there_is_a_latch=[
        takes("a", 2, 2),
        waits("b", 2),
        waits("c", 2),
        *[("z", text, got) for text, got in [("MULTI", "OK"), ("DEL k", "QUEUED"), ("LATCH.SET k 1", "QUEUED")]],
        ("z", "EXEC", [1, "OK"]),
        ("b", STILL_BLOCKED),
        ("c", STILL_BLOCKED),
        ("z", "LATCH.DOWN k", 0),
        ("b", granted(1)),
        ("c", granted(1)),
        holds(b=1, c=1),
    ],
    waiters_for_a_latch_wait_while_there_is_a_semaphore=[
        ("z", "LATCH.SET k 1", "OK"),
        ("w", "LATCH.WAIT k BLOCK 0", BLOCKS),
        *[("z", text, got) for text, got in [("MULTI", "OK"), ("DEL k", "QUEUED"), ("LOCK.SEMAPHORE k oa 2", "QUEUED")]],
        ("z", "EXEC", [1, 1]),
        ("w", STILL_BLOCKED),
        waits("b", 1),
        releases("a"),
        ("b", granted(1)),
        ("w", STILL_BLOCKED),
        releases("b"),
        ("w", answered(1)),
    ],
)  # fmt: skip


@schedules(**SCHEDULES)
def test_semaphore_and_latch_exclude_each_other(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


def test_delayed_queue_of_that_name_does_not_affect_the_semaphore(server, actor):
    """Its elements stay pending as long as the key is a semaphore, and are delivered after the last release."""
    client, waiter = server.control, actor()
    push(client, "later", HOUR, name="k")
    assert client.execute_command("LOCK.SEMAPHORE", "k", "a", 2, "PERMITS", 2, "PX", LONG) == 2
    push(client, "soon", 0, name="k")
    wait_for(lambda: stuck(server) == 1, what="the element to be stuck")
    waiter.send("LOCK.SEMAPHORE", "k", "b", 2, "PX", LONG, "BLOCK", 0)
    waiter.wait_blocked()
    assert client.execute_command("LOCK.RELEASE", "k", "a") == 1
    assert waiter.reply() == 1
    assert (pending(client, "k"), permits_of(server)) == (["soon", "later"], {"a": 1, "b": 1})
    for owner in "ab":
        assert client.execute_command("LOCK.RELEASE", "k", owner) == 0
    wait_delivered(client, "vsoon", name="k")
    assert (stuck(server), pending(client, "k")) == (0, ["later"])


def test_waiter_for_permits_waits_while_the_key_is_a_list(server, actor):
    """A client that waits for permits when an element is delivered waits until the list is deleted."""
    client, waiter, last = server.control, actor(), actor()
    assert client.execute_command("LOCK.SEMAPHORE", "k", "a", 1, "PX", LONG) == 1
    waiter.send("LOCK.SEMAPHORE", "k", "b", 1, "PX", LONG, "BLOCK", 0)
    waiter.wait_blocked()
    client.rename("k", "elsewhere")  # the waiter can be granted now, and is before anything else
    assert waiter.reply() == 1
    last.send("LOCK.SEMAPHORE", "k", "c", 1, "PX", LONG, "BLOCK", 0)
    last.wait_blocked()
    transaction = client.pipeline(transaction=True)
    transaction.delete("k")
    transaction.rpush("k", "there")
    transaction.execute()
    push(client, "x", 0, name="k")
    wait_delivered(client, "there", "vx", name="k")
    server.settle(scaled_ms(20))
    assert not last.has_reply()
    assert delivered(client, "k") == ["there", "vx"]
    assert client.delete("k") == 1
    assert last.reply() == 1


ENDS = {
    "RELEASE": "LOCK.RELEASE l o",
    "RELEASE in MULTI": "MULTI;LOCK.RELEASE l o;EXEC",
    "MRELEASE": "LOCK.MRELEASE 1 l o",
    "FORCE": "LOCK.FORCE l",
    "lease end": f"PEXPIRE l {scaled_ms(50)}",
}
KINDS = {
    "plain": "LOCK.ACQUIRE l o PX {HOUR}",
    "read": "LOCK.RWREAD l o PX {HOUR}",
    "permit": "LOCK.SEMAPHORE l o 3 PX {HOUR}",
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("acquisition", KINDS.values(), ids=KINDS)
@pytest.mark.usefixtures("no_active_expiry")
def test_latch_opens_when_the_lock_that_replaced_it_is_free(server, end, acquisition):
    scene = latch_scene.Scene(server)
    scene.do("MULTI", "DEL l", acquisition, "EXEC")
    scene.both_still_wait()
    scene.do(*end.split(";"))
    scene.both_are_notified()


def test_latch_opens_when_the_session_that_replaced_it_has_ended(server, actor):
    server.control.config_set("lock.session-grace", 1)
    scene, session = latch_scene.Scene(server), actor("session")
    for words in ("MULTI", "DEL l", "LOCK.SEMAPHORE l o 3 SESSION", "EXEC"):
        session.call(*words.split())
    scene.both_still_wait()
    session.kill_socket()
    scene.both_are_notified()


OPENS = ["LATCH.DOWN k 2", "LATCH.SET k 0", "DEL k", "DECRBY k 2", f"PEXPIRE k {scaled_ms(50)}"]
WAITS = ["LOCK.ACQUIRE k o", "LOCK.FAIR k o", "LOCK.RWREAD k o", "LOCK.SEMAPHORE k o 3", "LOCK.MACQUIRE 1 k o"]


@pytest.mark.parametrize("opens", OPENS)
@pytest.mark.parametrize("request_text", WAITS)
def test_lock_is_granted_when_the_latch_that_replaced_it_is_gone(server, actor, opens, request_text):
    """A value of 0 still is a key, which is no lock."""
    client, waiter = server.control, actor()
    client.execute_command("LOCK.ACQUIRE", "k", "before")
    waiter.send(*request_text.split(), "PX", HOUR, "BLOCK", 0)
    waiter.wait_blocked()
    transaction = client.pipeline(transaction=True)
    transaction.delete("k")
    transaction.execute_command("LATCH.SET", "k", 2)
    transaction.execute()
    server.settle(30)
    assert not waiter.has_reply()
    client.execute_command(*opens.split())
    if opens.startswith("DECRBY"):
        server.settle(30)
        assert not waiter.has_reply() and waiter.is_blocked()
        client.execute_command("LATCH.DOWN", "k")
    assert waiter.reply(timeout=10) == 1
