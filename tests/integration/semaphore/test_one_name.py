"""A semaphore, a latch and a delayed queue of one name: the first two exclude each other, the last has keys of its own."""

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
    who_waits_for_permits_waits_while_there_is_a_latch=[
        takes("a", 2, 2),
        waits("b", 2),
        waits("c", 2),
        *[("z", words, answer) for words, answer in [("MULTI", "OK"), ("DEL k", "QUEUED"), ("LATCH.SET k 1", "QUEUED")]],
        ("z", "EXEC", [1, "OK"]),
        ("b", STILL_BLOCKED),
        ("c", STILL_BLOCKED),
        ("z", "LATCH.DOWN k", 0),
        ("b", granted(1)),
        ("c", granted(1)),
        holds(b=1, c=1),
    ],
    who_waits_for_a_latch_waits_while_there_is_a_semaphore=[
        ("z", "LATCH.SET k 1", "OK"),
        ("w", "LATCH.WAIT k BLOCK 0", BLOCKS),
        *[("z", words, answer) for words, answer in [("MULTI", "OK"), ("DEL k", "QUEUED"), ("LOCK.SEMAPHORE k oa 2", "QUEUED")]],
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
def test_schedule(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


def test_queue_of_that_name_is_in_nobodys_way(server, actor):
    """Its elements stay pending as long as the name is a semaphore's, and go when the last permit has gone."""
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


def test_list_of_that_name_is_no_semaphore(server, actor):
    """Who waits for permits when the element comes waits on until the list is empty."""
    client, waiter, last = server.control, actor(), actor()
    assert client.execute_command("LOCK.SEMAPHORE", "k", "a", 1, "PX", LONG) == 1
    waiter.send("LOCK.SEMAPHORE", "k", "b", 1, "PX", LONG, "BLOCK", 0)
    waiter.wait_blocked()
    client.rename("k", "elsewhere")  # the waiter may come in now, and does before anything else
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


FREES = {
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


@pytest.mark.parametrize("frees", FREES.values(), ids=FREES)
@pytest.mark.parametrize("takes_it", KINDS.values(), ids=KINDS)
@pytest.mark.usefixtures("no_active_expiry")
def test_latch_is_open_when_the_lock_in_its_place_has_gone(server, frees, takes_it):
    scene = latch_scene.Scene(server)
    scene.do("MULTI", "DEL l", takes_it, "EXEC")
    scene.both_wait_on()
    scene.do(*frees.split(";"))
    scene.both_are_told()


def test_latch_is_open_when_the_session_in_its_place_has_ended(server, actor):
    server.control.config_set("lock.session-grace", 1)
    scene, session = latch_scene.Scene(server), actor("session")
    for words in ("MULTI", "DEL l", "LOCK.SEMAPHORE l o 3 SESSION", "EXEC"):
        session.call(*words.split())
    scene.both_wait_on()
    session.kill_socket()
    scene.both_are_told()


OPENS = ["LATCH.DOWN k 2", "LATCH.SET k 0", "DEL k", "DECRBY k 2", f"PEXPIRE k {scaled_ms(50)}"]
WAITS = ["LOCK.ACQUIRE k o", "LOCK.FAIR k o", "LOCK.RWREAD k o", "LOCK.SEMAPHORE k o 3", "LOCK.MACQUIRE 1 k o"]


@pytest.mark.parametrize("opens", OPENS)
@pytest.mark.parametrize("asks", WAITS)
def test_lock_is_free_when_the_latch_in_its_place_has_gone(server, actor, opens, asks):
    """A number of 0 is a key still, and is no lock."""
    client, waiter = server.control, actor()
    client.execute_command("LOCK.ACQUIRE", "k", "before")
    waiter.send(*asks.split(), "PX", HOUR, "BLOCK", 0)
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
