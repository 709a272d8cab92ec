"""The bound of the search for cycles: it follows a chain of 10,000 waits to its end, and stops after 20,000 steps."""

import pytest

from harness import fewer, wait_for
from harness.schedule import as_map
from model.deadlock_scene import counters, pipelined

pytestmark = pytest.mark.usefixtures("no_lease_ends")

# The bound of the search: how many holders, edges and positions it visits, and for how many waiters it checks whether
# they hold a lock.
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
            # In about this order each search ends at once: the owner that it reaches does not wait yet.
            self.sockets.append(server.raw_connection())
            self.sockets[i].sendall(b"LOCK.ACQUIRE k%d o%d PX 3600000 BLOCK 0\r\n" % (i + 1, i))
        wait_for(lambda: server.info("lock")["lock_waiters"] == length, 60, "the chain")

    def close(self):
        """The last owner requests the first key; returns the reply."""
        return str(self.last.attempt("LOCK.ACQUIRE", "k0", f"o{self.length}", "BLOCK", 0, timeout=30))


@pytest.mark.timeout(600)
def test_chain_of_ten_thousand_waits_is_searched_to_its_end(make_server):
    length = fewer(10_000)
    server = make_server(maxclients=length + 100)
    chain = Chain(server, length)
    text = chain.close()
    assert text.startswith(f"DEADLOCK o{length} waits for k0 held by o0, o0 waits for k1 held by o1, "), text
    assert f" held by o3, ... {length + 1 - 8} more waits ..., o{length - 4} waits for k{length - 3} " in text
    assert text.endswith(f", o{length - 1} waits for k{length} held by o{length}")
    assert counters(server) == (1, 0)
    # The other waits are not affected.
    chain.last.call("LOCK.RELEASE", f"k{length}", f"o{length}")
    assert chain.sockets[-1].recv(16) == b":1\r\n"
    assert server.info("lock")["lock_waiters"] == length - 1


def reply_after_the_search(server, requester):
    """The requester's reply after the search from its wait, or None if it still waits."""
    wait_for(lambda: requester.has_reply() or requester.is_blocked(), 30, "the requester to receive a reply or wait")
    server.all_searched(30)
    return None if requester.is_blocked() else str(requester.outcome())


class Star:
    """The requester a needs all hubs; each hub's owner waits for `keys` keys with a holder each, which do not wait.

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

    def request(self):
        requester = self.server.actor("a")
        requester.send("LOCK.MACQUIRE", self.hubs, *(f"hub{i}" for i in range(self.hubs)), "a", "BLOCK", 0)
        return reply_after_the_search(self.server, requester)


def test_cycle_within_the_bound_is_found(server):
    before = counters(server)
    star = Star(server, hubs=9, keys=1000)  # a step for each key: its holder
    assert star.request() == "DEADLOCK a waits for hub8 held by h8, h8 waits for own held by a"
    assert counters(server) == (before[0] + 1, before[1])


def test_search_beyond_the_bound_is_cut_and_the_wait_continues(server):
    before = counters(server)
    star = Star(server, hubs=25, keys=1000)  # only the last leads back
    assert star.request() is None
    assert counters(server) == (before[0], before[1] + 1)
    info = as_map(server.control.execute_command("LOCK.INFO", "hub0"))
    assert [as_map(one)["owner"] for one in info["waiters"]] == ["a"]
    # It ends like any other wait.
    server.control.execute_command("LOCK.CANCEL", "hub7", "a")
    assert server.info("lock")["lock_waiters"] == 25


def test_cycle_through_one_of_more_readers_than_steps_is_found(server):
    """A lock may have more readers than a search has steps, if few of them wait for anything."""
    readers = MOST_STEPS + 1000
    reads = (("LOCK.RWREAD", "k", f"r{i}", "PX", 3_600_000) for i in range(readers))
    assert set(pipelined(server, reads)) == {1}
    before = counters(server)
    a, b = server.actor("r500"), server.actor("b")
    b.call("LOCK.ACQUIRE", "l", "b")
    a.send("LOCK.ACQUIRE", "l", "r500", "BLOCK", 0)
    a.wait_blocked()
    reply = str(b.attempt("LOCK.RWWRITE", "k", "b", "BLOCK", 0))
    assert reply == "DEADLOCK b waits for k held by r500, r500 waits for l held by b"
    assert counters(server) == (before[0] + 1, before[1])


class Crowd:
    """The requester a needs `locks` locks with `readers` readers each; `waiters` owners wait for a lock that a holds.

    Only one of the waiters reads: a reader of the last lock. If there are fewer waiters than readers, the search checks
    for each lock and for each waiter, and for a, whether it holds the lock: these steps lead to no other wait.
    """

    def __init__(self, server, locks, readers, waiters):
        self.server = server
        self.keys, self.requester = [f"{{k}}{i}" for i in range(locks)], server.actor("a")
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

    def request(self):
        self.requester.send("LOCK.MACQUIRE", len(self.keys), *self.keys, "a", "BLOCK", 0)
        return reply_after_the_search(self.server, self.requester)


# A hash of up to 512 fields is a list that the server walks. There each check of a waiter counts one step, and one for
# every 64 fields: 8 of them.
CROWDS = {"large hashes": (600, 700, 1), "small hashes": (50, 500, 8)}


def crowd_within(server, kind):
    """As many locks as a search can check, apart from the few steps that lead from the last lock to a."""
    waiters, readers, steps = CROWDS[kind]
    return Crowd(server, (MOST_STEPS - 10) // (steps * (waiters + 1)), readers, waiters)


def crowd_beyond(server, kind):
    waiters, readers, steps = CROWDS[kind]
    return Crowd(server, MOST_STEPS // (steps * (waiters + 1)) + 1, readers, waiters)


@pytest.mark.parametrize("kind", CROWDS)
def test_each_check_whether_a_waiter_holds_a_lock_is_a_step(server, kind):
    before = counters(server)
    crowd = crowd_within(server, kind)
    assert crowd.request() == crowd.cycle
    assert counters(server) == (before[0] + 1, before[1])


@pytest.mark.parametrize("kind", CROWDS)
def test_search_with_more_checks_of_waiters_than_steps_is_cut(server, kind):
    before = counters(server)
    crowd = crowd_beyond(server, kind)
    assert crowd.request() is None
    assert counters(server) == (before[0], before[1] + 1)
    # Only once: the wait is not new any more when another wait begins, which is for no owner in the crowd.
    server.control.execute_command("LOCK.ACQUIRE", "l", "y")
    server.actor().send("LOCK.ACQUIRE", "l", "z", "BLOCK", 0)
    wait_for(lambda: server.info("lock")["lock_waiters"] == len(crowd.sockets) + 2, 30, "another to wait")
    server.all_searched()
    assert counters(server) == (before[0], before[1] + 1)


def test_few_readers_are_visited_whatever_the_number_of_waiters(server):
    """A check of each waiter whether it holds a lock would cut the search: the readers are fewer steps."""
    before = counters(server)
    waiters = 600
    crowd = Crowd(server, locks=MOST_STEPS // waiters + 10, readers=2, waiters=waiters)
    assert crowd.request() == crowd.cycle
    assert counters(server) == (before[0] + 1, before[1])
