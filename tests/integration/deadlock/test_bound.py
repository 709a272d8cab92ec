"""How far the search for cycles goes: to the end of a chain of 10,000 waits, and not beyond 20,000 steps."""

import pytest

from harness import fewer, wait_for
from harness.schedule import as_map
from model.deadlock_scene import counters, pipelined

pytestmark = pytest.mark.usefixtures("no_lease_ends")

# The bound of the search: so many holders, ties and positions are looked at, or waiters asked whether they hold a lock.
MOST_STEPS = 20_000


class Chain:
    """Owner i holds k_i and waits for k_{i+1}; the last one, number `length`, only holds."""

    def __init__(self, server, length):
        self.server, self.length = server, length
        self.last = server.actor("last")
        took = pipelined(server, (("LOCK.ACQUIRE", f"k{i}", f"o{i}", "PX", 3_600_000) for i in range(length + 1)))
        assert set(took) == {1}
        self.sockets = []
        for i in range(length):
            # In about this order each search ends at once: whom it leads to does not wait yet.
            self.sockets.append(server.raw_connection())
            self.sockets[i].sendall(b"LOCK.ACQUIRE k%d o%d PX 3600000 BLOCK 0\r\n" % (i + 1, i))
        wait_for(lambda: server.info("lock")["lock_waiters"] == length, 60, "the chain")

    def close(self):
        """The last one asks for the first key and hears this."""
        return str(self.last.attempt("LOCK.ACQUIRE", "k0", f"o{self.length}", "BLOCK", 0, timeout=30))


@pytest.mark.timeout(600)
def test_chain_of_ten_thousand_waits_is_seen_to_its_end(make_server):
    length = fewer(10_000)
    server = make_server(maxclients=length + 100)
    chain = Chain(server, length)
    told = chain.close()
    assert told.startswith(f"DEADLOCK o{length} waits for k0 held by o0, o0 waits for k1 held by o1, "), told
    assert f" held by o3, ... {length + 1 - 8} more waits ..., o{length - 4} waits for k{length - 3} " in told
    assert told.endswith(f", o{length - 1} waits for k{length} held by o{length}")
    assert counters(server) == (1, 0)
    # The others have not noticed.
    chain.last.call("LOCK.RELEASE", f"k{length}", f"o{length}")
    assert chain.sockets[-1].recv(16) == b":1\r\n"
    assert server.info("lock")["lock_waiters"] == length - 1


def heard_in_the_end(server, asker):
    """What the asker hears when it has been searched from, or None."""
    wait_for(lambda: asker.has_reply() or asker.is_blocked(), 30, "the asker to hear or wait")
    server.all_searched(30)
    return None if asker.is_blocked() else str(asker.outcome())


class Star:
    """The asker a wants all the hubs; each hub's owner waits for keys of so many holders, who wait for nothing.

    Each of these holders is a step of the search from a; the last hub's owner waits for a.
    """

    def __init__(self, server, hubs, keys):
        self.server, self.hubs = server, hubs
        held = [("LOCK.ACQUIRE", f"hub{i}", f"h{i}") for i in range(hubs)] + [("LOCK.ACQUIRE", "own", "a")]
        held += [("LOCK.ACQUIRE", f"k{i}.{j}", f"x{i}.{j}") for i in range(hubs) for j in range(keys)]
        assert set(pipelined(server, held)) == {1}
        for i in range(hubs):
            waiter = server.actor(f"h{i}")
            leads_to = [f"k{i}.{j}" for j in range(keys)] + (["own"] if i == hubs - 1 else [])
            waiter.send("LOCK.MACQUIRE", len(leads_to), *leads_to, f"h{i}", "BLOCK", 0)
            waiter.wait_blocked()

    def asks(self):
        asker = self.server.actor("a")
        asker.send("LOCK.MACQUIRE", self.hubs, *(f"hub{i}" for i in range(self.hubs)), "a", "BLOCK", 0)
        return heard_in_the_end(self.server, asker)


def test_cycle_within_the_bound_is_found(server):
    before = counters(server)
    star = Star(server, hubs=9, keys=1000)  # a step for each key: its holder
    assert star.asks() == "DEADLOCK a waits for hub8 held by h8, h8 waits for own held by a"
    assert counters(server) == (before[0] + 1, before[1])


def test_search_past_the_bound_is_cut_and_the_wait_let_in(server):
    before = counters(server)
    star = Star(server, hubs=25, keys=1000)  # only the last leads back
    assert star.asks() is None
    assert counters(server) == (before[0], before[1] + 1)
    info = as_map(server.control.execute_command("LOCK.INFO", "hub0"))
    assert [as_map(one)["owner"] for one in info["waiters"]] == ["a"]
    # As any other wait it ends when it can.
    server.control.execute_command("LOCK.CANCEL", "hub7", "a")
    assert server.info("lock")["lock_waiters"] == 25


def test_more_readers_than_steps_are_no_way_past_the_search(server):
    """A lock may have more readers than a search takes steps, when few of them wait for anything."""
    readers = MOST_STEPS + 1000
    reads = (("LOCK.RWREAD", "k", f"r{i}", "PX", 3_600_000) for i in range(readers))
    assert set(pipelined(server, reads)) == {1}
    before = counters(server)
    a, b = server.actor("r500"), server.actor("b")
    b.call("LOCK.ACQUIRE", "l", "b")
    a.send("LOCK.ACQUIRE", "l", "r500", "BLOCK", 0)
    a.wait_blocked()
    heard = str(b.attempt("LOCK.RWWRITE", "k", "b", "BLOCK", 0))
    assert heard == "DEADLOCK b waits for k held by r500, r500 waits for l held by b"
    assert counters(server) == (before[0] + 1, before[1])


class Crowd:
    """The asker a wants locks with so many readers each; so many others wait for what a holds, and none of them reads.

    If fewer wait than there are readers, each of them, and a, is asked for every lock whether it holds that: no step
    leads anywhere. Only one reader of the last lock waits too, for a.
    """

    def __init__(self, server, locks, readers, waiters):
        self.server = server
        self.keys, self.asker = [f"{{k}}{i}" for i in range(locks)], server.actor("a")
        last = f"r{readers - 1}"
        reads = (("LOCK.RWREAD", key, f"r{j}") for key in self.keys for j in range(readers - 1))
        assert set(pipelined(server, reads)) == {1}
        held = [("LOCK.RWREAD", key, f"s{key}") for key in self.keys[:-1]] + [("LOCK.RWREAD", self.keys[-1], last)]
        assert set(pipelined(server, [*held, ("LOCK.ACQUIRE", "own", "a")])) == {1}
        self.sockets = [server.raw_connection() for _ in range(waiters)]
        for owner, sock in zip((last, *(f"w{i}" for i in range(1, waiters))), self.sockets):
            sock.sendall(b"LOCK.ACQUIRE own %s BLOCK 0\r\n" % owner.encode())
        wait_for(lambda: server.info("lock")["lock_waiters"] == waiters, 30, "all to wait")
        self.cycle = f"DEADLOCK a waits for {self.keys[-1]} held by {last}, {last} waits for own held by a"

    def asks(self):
        self.asker.send("LOCK.MACQUIRE", len(self.keys), *self.keys, "a", "BLOCK", 0)
        return heard_in_the_end(self.server, self.asker)


# A hash of up to 512 fields is a list that the server walks, so there each who is asked is a step for every 64 fields,
# and one: 8 of them.
CROWDS = {"large hashes": (600, 700, 1), "small hashes": (50, 500, 8)}


def crowd_within(server, kind):
    """As many locks as a search gets through, but for the few steps that lead from the last of them to a."""
    waiters, readers, steps = CROWDS[kind]
    return Crowd(server, (MOST_STEPS - 10) // (steps * (waiters + 1)), readers, waiters)


def crowd_beyond(server, kind):
    waiters, readers, steps = CROWDS[kind]
    return Crowd(server, MOST_STEPS // (steps * (waiters + 1)) + 1, readers, waiters)


@pytest.mark.parametrize("kind", CROWDS)
def test_whoever_is_asked_whether_it_holds_a_lock_is_a_step(server, kind):
    before = counters(server)
    crowd = crowd_within(server, kind)
    assert crowd.asks() == crowd.cycle
    assert counters(server) == (before[0] + 1, before[1])


@pytest.mark.parametrize("kind", CROWDS)
def test_more_who_are_asked_than_steps_cut_a_search(server, kind):
    before = counters(server)
    crowd = crowd_beyond(server, kind)
    assert crowd.asks() is None
    assert counters(server) == (before[0], before[1] + 1)
    # Once only: the wait is no newcomer any more when others come, who wait for nobody in the crowd.
    server.control.execute_command("LOCK.ACQUIRE", "l", "y")
    server.actor().send("LOCK.ACQUIRE", "l", "z", "BLOCK", 0)
    wait_for(lambda: server.info("lock")["lock_waiters"] == len(crowd.sockets) + 2, 30, "another to wait")
    server.all_searched()
    assert counters(server) == (before[0], before[1] + 1)


def test_few_readers_are_looked_at_however_many_wait(server):
    """To ask each who waits whether it holds a lock would cut the search: the readers are fewer steps."""
    before = counters(server)
    waiters = 600
    crowd = Crowd(server, locks=MOST_STEPS // waiters + 10, readers=2, waiters=waiters)
    assert crowd.asks() == crowd.cycle
    assert counters(server) == (before[0] + 1, before[1])
