"""Ten thousand holders, thousands of waiters: the cost of a command does not grow with their number."""

from harness import scaled, wait_for
from model.semaphore_scene import LEASES, LONG

MANY = 10_000


def fill(server, count, key="k", lease=LONG):
    pipeline = server.control.pipeline(transaction=False)
    for number in range(count):
        pipeline.execute_command("LOCK.SEMAPHORE", key, f"o{number}", 10 * MANY, "PX", lease)
    assert pipeline.execute() == [1] * count


def test_ten_thousand_owners_hold_and_release_permits(server):
    fill(server, MANY)
    control = server.control
    assert control.execute_command("LOCK.SEMAPHORE", "k", "more", MANY) is None
    assert control.execute_command("LOCK.SEMAPHORE", "k", "more", MANY + 1) == 1
    pipeline = control.pipeline(transaction=False)
    for number in range(MANY):
        pipeline.execute_command("LOCK.RELEASE", "k", f"o{number}")
    assert pipeline.execute() == [0] * MANY
    assert control.hgetall("k") == {"mode": "semaphore", "more": "1"}


def test_one_release_grants_thousands_in_order_of_arrival(server, crowd_size=2_000):
    control = server.control
    words = ("LOCK.SEMAPHORE", "k", "a", crowd_size, "PERMITS", crowd_size, "PX", LONG)
    assert control.execute_command(*words) == crowd_size
    waiters = []
    for number in range(crowd_size):
        waiter = server.actor(f"w{number}")
        waiter.send("LOCK.SEMAPHORE", "k", f"w{number}", crowd_size, "PX", LONG, "BLOCK", 0)
        waiters.append(waiter)
    wait_for(lambda: server.info("lock")["lock_waiters"] == crowd_size, scaled(30))
    assert control.execute_command("LOCK.RELEASE", "k", "a", "PERMITS", crowd_size) == 0
    assert [waiter.reply(timeout=30) for waiter in waiters] == [1] * crowd_size
    assert control.hlen("k") == crowd_size + 1
    # Granted in order of arrival, so their leases end in that order.
    ends = [control.zscore(LEASES, f"w{number}") for number in (0, crowd_size // 2, crowd_size - 1)]
    assert ends == sorted(ends)


def test_more_semaphores_than_sums_are_remembered(server):
    """The least recently used sums are forgotten, and counted again."""
    count = 5_000
    pipeline = server.control.pipeline(transaction=False)
    for owner in "abc":
        for number in range(count):
            pipeline.execute_command("LOCK.SEMAPHORE", f"s{number}", owner, 3, "PX", LONG)
    assert pipeline.execute() == [1] * 3 * count
    for number in range(count):
        pipeline.execute_command("LOCK.SEMAPHORE", f"s{number}", "d", 3, "PX", LONG)
    assert pipeline.execute() == [None] * count
