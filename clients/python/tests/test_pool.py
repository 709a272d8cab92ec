"""Which connections are used and opened when, without a server: each test supplies the results."""

import time

import pytest
import redis.exceptions as library

from lock_so._pool import FRESH, IDLE, SHORT, Await, Busy, Check, Exchange, Link, Open, Pool
from lock_so._steps import Send, short
from lock_so.errors import Closed

CUT, FULL = library.ConnectionError("cut"), library.ConnectionError("max number of clients reached")


class Connection:
    is_open = True


class Fake(Pool):
    retry = None

    def __init__(self, settings=None):
        super().__init__(object(), (None, settings or {}), 5.0, lambda steps: None)

    def disconnect(self, connection):
        connection.is_open = False

    def event(self):
        return []

    def notify(self, event):
        event.append(1)


@pytest.fixture
def pool():
    return Fake()


def begin(pool, words=("X",), is_short=True, limit=60.0):
    """(link, its operations, the first one)"""

    def steps():
        return (yield Send(list(words), time.monotonic() + limit))

    link = Link(pool, "k", is_short)
    operations = link.run(steps())
    return link, operations, next(operations)


def give_idle(pool, number=1):
    connections = [Connection() for _ in range(number)]
    for connection in connections:
        pool.give(connection, pool.server(None))
    return connections


def idle(pool):
    return [connection for connection, _ in pool.server(None).idle]


def test_all_waits_open_at_once(pool):
    assert all(isinstance(begin(pool, is_short=False)[2], Open) for _ in range(500))


def fill(pool):
    """All connections of short commands are in use."""
    found = [begin(pool) for _ in range(SHORT)]
    for _, operations, step in found:
        assert isinstance(step, Open)
        assert isinstance(operations.send(Connection()), Exchange)
    return found


def test_a_short_command_waits_for_a_connection(pool):
    found = fill(pool)
    later = [begin(pool) for _ in range(3)]
    assert all(isinstance(step, Await) for *_, step in later)
    for (link, _, _), (_, operations, step) in zip(found, later):
        link.close()
        assert step.event, "the first one is woken"
        assert isinstance(operations.send(True), Check) and isinstance(operations.send(True), Exchange)


def test_who_is_woken_in_vain_is_the_next_again(pool):
    found, (_, first, step), (_, _, second) = fill(pool), begin(pool), begin(pool)
    found[0][0].close()
    thief = begin(pool)
    assert isinstance(thief[2], Check)
    step = first.send(True)
    assert isinstance(step, Await)
    thief[0].close()
    assert step.event and not second.event


def test_a_dropped_connection_makes_room(pool):
    found, (_, operations, step) = fill(pool), begin(pool)
    found[0][0].drop()
    assert step.event and isinstance(operations.send(True), Open)


def test_who_leaves_wakes_the_next(pool):
    found, (_, first, step), (_, _, second) = fill(pool), begin(pool), begin(pool)
    found[0][0].close()
    assert step.event and not second.event
    with pytest.raises(KeyboardInterrupt):
        first.throw(KeyboardInterrupt())
    assert second.event


def test_a_full_queue_is_no_outage(pool):
    failed = []
    pool.failed = lambda *words: failed.append(words)
    found = fill(pool)
    with pytest.raises(Busy):
        begin(pool, limit=-1.0)
    assert not failed and not pool.server(None).waiting and len(found) == SHORT


def test_who_cannot_connect_does_not_wait_for_others_that_cannot(pool):
    (_, first, _), (_, second, _), (_, third, _) = begin(pool), begin(pool), begin(pool)
    step = second.throw(FULL)
    assert isinstance(step, Await)
    assert isinstance(third.throw(FULL), Await)
    with pytest.raises(library.ConnectionError):
        first.throw(FULL)
    assert step.event
    with pytest.raises(library.ConnectionError):
        second.send(True)
    with pytest.raises(library.ConnectionError):
        third.send(True)


def test_who_is_stopped_does_not_wait(pool):
    found, (link, operations, _) = fill(pool), begin(pool)
    link.is_stopped = True
    assert link.event is not None
    with pytest.raises(Closed):
        operations.send(True)
    assert not pool.server(None).waiting and found


def test_who_cannot_connect_uses_the_connection_of_another(pool):
    (link, first, _), (_, second, _) = begin(pool), begin(pool)
    first.send(Connection())
    step = second.throw(FULL)
    link.close()
    assert step.event and isinstance(second.send(True), Check)


def of_a_sentinel():
    error = library.ConnectionError("The previous master is now a slave")
    error.__context__ = library.ReadOnlyError("a replica")
    return error


@pytest.mark.parametrize(
    "error, is_short, took, left",
    [
        (CUT, True, 0, 1),
        (CUT, False, 0, 3),
        (library.TimeoutError("late"), True, 2, 1),
        (library.TimeoutError("the lease ends soon"), True, 0.1, 3),
        (library.ReadOnlyError("a replica"), False, 0, 0),
        (of_a_sentinel(), False, 0, 0),
        (library.TryAgainError("later"), True, 0, 4),
        (library.MovedError("1 127.0.0.1:7"), True, 0, 4),
    ],
)
def test_what_an_error_closes(pool, monkeypatch, error, is_short, took, left):
    """TRYAGAIN and a redirection do not even close the connection that they came from."""
    pool._cluster = type("Cluster", (), {"nodes_manager": type("Nodes", (), {"remap_host_port": lambda *to: to[1:]})()})()
    pool.place, pool._learn, pool._is_introduced = lambda key: None, lambda: None, True
    give_idle(pool, 4)
    _, operations, _ = begin(pool, is_short=is_short)
    assert isinstance(operations.send(True), Exchange)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + took)
    with pytest.raises(library.RedisError):
        operations.throw(error)
    assert len(idle(pool)) == left


def test_the_end_of_a_blocking_call_is_no_failure(pool):
    failed = []
    pool.failed = lambda *words: failed.append(words)
    for is_cut in (True, False):
        link = Link(pool, "k")
        operations = link.run(iter_send(is_cut))
        next(operations)
        operations.send(Connection())
        with pytest.raises(library.TimeoutError):
            operations.throw(library.TimeoutError("no reply"))
        assert len(failed) == (not is_cut)


def iter_send(is_cut):
    step = short(["X"])
    step.is_cut = is_cut
    return (yield step)


def test_a_wait_uses_no_connection_that_was_idle_for_long(pool, monkeypatch):
    old, now = give_idle(pool, 3), time.monotonic()
    assert isinstance(begin(pool, is_short=False)[2], Check)
    monkeypatch.setattr(time, "monotonic", lambda: now + FRESH + 1)
    give_idle(pool)
    for expected in (Check, Open):
        assert isinstance(begin(pool, is_short=False)[2], expected)
    # The last one is kept: it is checked, and used only by a short command.
    assert [connection.is_open for connection in old] == [True, False, True] and idle(pool) == old[:1]
    assert isinstance(begin(pool)[2], Check)


def test_the_number_of_idle_connections(pool):
    assert [connection.is_open for connection in give_idle(pool, IDLE + 1)] == [True] * IDLE + [False]


class Client:
    """A Sentinel's, or its connections."""

    connection_class, connection_kwargs, connection_pool = None, {}, None

    def __init__(self, **_):
        self.connection_pool = self


class Managed:
    is_master, service_name = True, "main"

    def __init__(self):
        self.sentinel_manager, self.sentinels = self, [Client() for _ in range(3)]


def test_the_address_of_a_master_that_no_sentinel_has_named_yet():
    pool = Fake({"connection_pool": Managed()})
    assert pool.address("k") == 'the master "main"'
    pool.master = "h", 7
    assert pool.address("k") == "h:7" and Fake({"host": "h", "port": 1}).address("k") == "h:1"


def test_two_look_ups_at_the_same_time_query_each_sentinel_once():
    pool = Fake({"connection_pool": Managed()})
    silent, other, healthy = pool.sentinels
    first, second = pool.lookups(), pool.lookups()
    for lookup in (first, first, second, first, second):
        next(lookup)
    assert list(pool.sentinels) == [healthy, silent, other]
    next(second)
    assert len(list(second)) == 0 and len(list(first)) == 0


@pytest.mark.parametrize("reply, slots", [
    ([[0, 99, [b"h", 1]], [100, 199, [None, 2], [b"h", 3]]], [(0, 99, ("h", 1)), (100, 199, ("first", 2))]),
    ([], []),
    (library.NoPermissionError("no"), []),
])  # fmt: skip
def test_the_first_connection_shows_where_the_slots_are(reply, slots):
    class Nodes:
        slots_cache, startup_nodes = {}, {"first:1": type("Node", (), {"host": "first", "port": 1})}

        @staticmethod
        def remap_host_port(host, port):
            return host, port

    class Cluster(Fake):
        def __init__(self):
            super().__init__()
            self._cluster = type("Client", (), {"nodes_manager": Nodes, "keyslot": staticmethod(lambda key: 7)})

    pool = Cluster()
    link, operations, step = begin(pool)
    assert isinstance(step, Open)
    step = operations.send(Connection())
    assert step.words == ["CLUSTER", "SLOTS"]
    step = operations.throw(reply) if isinstance(reply, Exception) else operations.send(reply)
    assert step.words == ["X"] and pool._slots == slots
    link.close()
    _, operations, step = begin(pool)
    step = operations.send(Connection() if isinstance(step, Open) else True)
    assert step.words == ["X"], "only the first one"
