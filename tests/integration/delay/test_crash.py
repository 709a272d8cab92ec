"""kill -9, with an AOF that is synced at once: each element is in the due set or in the list, never in both."""

import random
import time

import pytest

from harness import drawn, failpoint, fewer, scaled_ms, wait_for, wait_for_sync
from harness.aof import cut_open_transaction, increments
from harness.seeds import seed_of_run
from model.delay_scene import HOUR, due_of, push, torn, wait_nothing_left

KILLS = 20
AOF = {"appendonly": "yes", "appendfsync": "always"}


def torn_on(server, pushed):
    """The torn elements. The keys are read in one step, also while the server delivers."""
    pipeline = server.client(decode_responses=False).pipeline()
    pipeline.zrange(due_of(), 0, -1, withscores=True)
    pipeline.hgetall("delay:value:{q}")
    pipeline.lrange("q", 0, -1)
    due, values, in_list = pipeline.execute()
    keys = {b"delay:due:{q}": due, b"delay:value:{q}": values, b"q": in_list}
    return torn({(0, name): (None, value) for name, value in keys.items()}, pushed=pushed)


class Traffic:
    """Pushes batches of elements, each confirmed before the next one; the value is the id. Some elements are due at
    once, some soon, some not during the test."""

    def __init__(self, seed):
        self._random, self._number, self.confirmed = random.Random(seed), 0, set()

    def run(self, server, seconds):
        actor, end = server.actor(), time.monotonic() + seconds
        while time.monotonic() < end:
            ids = [str(self._number + n) for n in range(self._random.randrange(1, 60))]
            self._number += len(ids)
            for id_ in ids:
                actor.send("DELAY.PUSH", "q", id_, self._random.choice((0, 1, 2, 5, 20, HOUR)), id_)
            self.confirmed |= {actor.reply().encode() for _ in ids}
        # Sent, with the replies not read: the server may have executed them or not, but never half of one.
        for _ in range(self._random.randrange(200)):
            actor.send("DELAY.PUSH", "q", str(self._number), self._random.choice((0, 1)), str(self._number))
            self._number += 1


@pytest.mark.parametrize("run", range(drawn(10)))
def test_element_is_never_torn_by_a_kill_at_any_moment(make_server, run):
    server, seed = make_server(**AOF), seed_of_run(run)
    traffic, draw = Traffic(seed), random.Random(seed)
    for _ in range(fewer(KILLS) or 1):
        traffic.run(server, draw.uniform(0, 0.06))
        server.kill()
        cut_open_transaction(server)
        server.start()
        assert torn_on(server, traffic.confirmed) == set()
    # All elements that are due are delivered, once.
    client = server.client()
    client.zadd(due_of(), {id_: 1 for id_ in client.zrange(due_of(), 0, -1)}, xx=True)
    wait_nothing_left(server, client)
    assert torn_on(server, traffic.confirmed) == set()


def test_open_transaction_is_removed_and_later_writes_stay(make_server):
    """The test above relies on it: the open transaction is removed, and what is written after it stays."""
    server = make_server(**AOF)
    client = server.client()
    push(client, "before", HOUR, "before")
    server.kill()
    with open(increments(server)[-1], "ab") as aof:
        aof.write(b"*1\r\n$5\r\nMULTI\r\n*3\r\n$5\r\nRPUSH\r\n$1\r\nq\r\n$6\r\nbefore\r\n*1\r\n$4\r\nEX")
    cut_open_transaction(server)
    server.start()
    push(client, "after", HOUR, "after")
    server.kill()
    server.start()
    assert torn_on(server, {b"before", b"after"}) == set()


@pytest.mark.usefixtures("checking_build")
@pytest.mark.parametrize("point", ["deliver.begun", "deliver.pushed"])
@pytest.mark.parametrize("count", [1, 3])
def test_element_is_never_torn_by_a_kill_within_a_delivery(make_server, point, count):
    server = make_server(**AOF)
    replica = server.start_replica()
    client = server.client()
    ids = [str(n) for n in range(100)]
    client.set("q", "no list")
    pipeline = client.pipeline()
    for id_ in ids:
        push(pipeline, id_, scaled_ms(1), id_)
    pipeline.execute()
    wait_for(lambda: server.info("lock")["lock_delay_stuck"] == 100, what="the stuck ones")
    # A kill loses all that was written in its event-loop iteration, so DEL is sent out before it, and until then
    # nothing is delivered.
    pipeline = client.pipeline(transaction=False)
    pipeline.delete("q")
    pipeline.config_set("min-replicas-to-write", 2)
    pipeline.execute()
    wait_for_sync(server, replica)
    # In one packet: a delivery that is refused passes the point too.
    arm = f'CONFIG SET {failpoint.CONFIG} "{point} kill {count}"'
    server.raw_connection().sendall(f"{arm}\r\nCONFIG SET min-replicas-to-write 0\r\n".encode())
    failpoint.wait_dead(server)
    server.has_died()
    wait_for(lambda: replica.info("replication")["master_link_status"] == "down", what="the link to be down")
    pushed = {id_.encode() for id_ in ids}
    assert torn_on(replica, pushed) == set()
    replica.control.replicaof("NO", "ONE")
    server.start()
    for one in (server, replica):
        assert torn_on(one, pushed) == set()
        wait_for(lambda one=one: one.control.llen("q") == 100, what="the rest to be delivered")
        assert one.control.lrange("q", 0, -1) == ids
        wait_nothing_left(one, one.control)
