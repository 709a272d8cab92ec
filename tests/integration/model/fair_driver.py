"""Sends the same commands to a server and to the model, and compares the results."""

from harness import scaled_ms, wait_for

from .fair_model import FairModel
from .fair_scene import HOUR, info, nothing_left, written_is_right

DEATHS = ("reset", "close", "kill")


def _nameless(replies):
    """Which clients received a null and which a count, and the counts of each owner. Which connection of an owner
    received which of its counts depends on the order of its requests, and no owner can tell the difference."""
    counts = sorted((client.name, count) for client, got in replies.items() for count in got if count is not None)
    return counts, {client: [count is None for count in got] for client, got in replies.items()}


class FairDriver:
    """One lock, `k`, on a server whose fair-reserve is so long that no position ends by itself."""

    def __init__(self, server):
        self.server, self.model = server, FairModel()
        self.outsider = server.actor("outsider")
        self.restarted = False
        self.log = []

    def note(self, *words):
        self.log.append(" ".join(str(word) for word in words))

    # The queue

    def clients(self):
        """The actors that wait, head first."""
        return [position.client for position in self.model.queue if position.client is not None]

    def clients_of(self, owner):
        return [position.client for position in self.model.queue if position.client and position.owner == owner]

    def first_in_line(self):
        """The owner at the head, or None."""
        return next((position.owner for position in self.model.queue), None)

    def positions(self):
        return [position.owner for position in self.model.queue if position.fair]

    # What can be done

    def requests(self, owner, *, fair=True, blocks=True, once=False, client=None):
        """`owner` sends a request, on a new connection unless `client`, one that does not wait, is given."""
        client = client or self.server.actor(owner)
        self._send(client, owner, *(("BLOCK", 0) if blocks else ()), fair=fair, once=once)
        self.model.request(client, owner, fair=fair, blocks=blocks, once=once)
        if self.model.is_waiting(client):
            client.wait_blocked()
        self.compare()
        return client

    def _send(self, client, owner, *block, fair, once):
        words = ("LOCK.FAIR" if fair else "LOCK.ACQUIRE", "k", owner, *(("ONCE",) if once else ()), "PX", HOUR, *block)
        self.note(*words)
        client.send(*words)

    def requests_and_times_out(self, owner, *, fair=True, once=False):
        """It joins, or takes over its position, and leaves when it times out, unless it is granted."""
        client = self.server.actor(owner)
        self._send(client, owner, "BLOCK", scaled_ms(1), fair=fair, once=once)
        self.model.request(client, owner, fair=fair, blocks=True, once=once)
        if self.model.is_waiting(client):
            self.model.time_out(client)
        self.compare()
        client.close()

    def releases(self, owner):
        self.note("releases", owner)
        reply = self.outsider.attempt("LOCK.RELEASE", "k", owner)
        expected = self.model.release(owner)
        assert str(reply).startswith("NOTHELD") if expected is None else reply == expected, f"received {reply!r}"
        self.compare()

    def cancels(self, owner):
        self.note("cancels", owner)
        assert self.outsider.call("LOCK.CANCEL", "k", owner) == self.model.cancel(owner)
        self.compare()

    def gives_up(self, owner):
        self.note("gives up", owner)
        assert self.outsider.call("LOCK.CANCEL", "k", owner, "RELEASE") == self.model.give_up(owner)
        self.compare()

    def forces(self):
        self.note("forces")
        assert self.outsider.call("LOCK.FORCE", "k") == int(self.model.holder is not None)
        self.model.freed()
        self.compare()

    def deletes(self):
        self.note("deletes")
        self.outsider.call("DEL", "k")
        self.model.freed()
        self.compare()

    def dies(self, client, how="reset"):
        self.note("dies", client.name, how)
        if how == "kill":
            self.outsider.call("CLIENT", "KILL", "ID", client.client_id)
        (client.kill_socket if how == "reset" else client.close)()
        self.model.die(client)
        self.compare()

    def dies_as_it_is_granted(self, client):
        """It is killed in the transaction that releases the holder's hold; if it is granted there, no reply has been
        sent yet."""
        self.note("dies", client.name, "as", self.model.holder, "releases")
        for words in (
            ("MULTI",), ("LOCK.RELEASE", "k", self.model.holder), ("CLIENT", "KILL", "ID", client.client_id), ("EXEC",)
        ):
            self.outsider.call(*words)
        self.model.release(self.model.holder)
        (self.model.die if self.model.is_waiting(client) else self.model.die_before_reply)(client)
        self.compare()

    def restarts(self):
        """The server is killed and started again; all connections are closed."""
        self.note("restarts")
        self.server.kill()
        self.server.start()
        self.outsider = self.server.actor("outsider")
        self.restarted = True
        self.model.restart()
        self.compare()

    # Comparing

    def compare(self):
        """Compares the replies, the holder, the queue in order, and the positions in the keys."""
        expected = self.model.take_replies()
        received = {client: [client.outcome() for _ in replies] for client, replies in expected.items()}
        assert _nameless(received) == _nameless(expected), f"received {received}, not {expected}\n{self.story()}"
        try:
            wait_for(self.agrees, 5, "the server to agree with the model")
        except AssertionError as problem:
            raise AssertionError(f"{problem}\n{self.story()}") from None
        for client in self.clients():
            assert not client.has_reply(), f"{client} received {client.outcome()!r}\n{self.story()}"

    def agrees(self):
        found, model = info(self.server), self.model
        holders = [(holder["owner"], holder["holds"]) for holder in found["holders"]]
        expected = [(model.holder, model.holds)] if model.holder else []
        assert holders == expected, f"it is held by {holders}, not {expected}"
        got = [(waiter["owner"], waiter["fair"], waiter["client"]) for waiter in found["waiters"]]
        wanted = [(p.owner, int(p.fair), p.client.client_id if p.client else None) for p in model.queue]
        assert got == wanted, f"the queue is {got}, not {wanted}"
        assert self.server.info("lock")["lock_waiters"] == len(self.clients())
        return written_is_right(self.server, restarted=self.restarted, known=found["waiters"])

    def story(self):
        return "what was done:\n" + "\n".join(self.log)

    # The end

    def drains(self):
        """All waiters are granted in order; an owner with only a reserved position returns. Nothing is left."""
        while self.model.holder or self.model.queue:
            if self.model.holder:
                self.releases(self.model.holder)
            else:
                self.requests(self.model.queue[0].owner, blocks=False)
        wait_for(lambda: nothing_left(self.server), what="the last position to leave no trace")
        assert self.server.control.dbsize() == 0
