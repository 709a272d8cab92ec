"""Says the same to a server and to the model, and compares what comes of it."""

from harness import scaled_ms, wait_for

from .fair_model import FairModel
from .fair_scene import HOUR, info, nothing_left, written_is_right

DEATHS = ("reset", "close", "kill")


def _nameless(answers):
    """Who heard a null and who a count, and each owner's counts: which of its own connections heard which of
    them depends on the order in which it asked on them, and no owner can tell."""
    counts = sorted((client.name, count) for client, told in answers.items() for count in told if count is not None)
    return counts, {client: [count is None for count in told] for client, told in answers.items()}


class FairDriver:
    """One lock, `k`, of a server whose fair-reserve is so long that no position ends by itself."""

    def __init__(self, server):
        self.server, self.model = server, FairModel()
        self.outsider = server.actor("outsider")
        self.restarted = False
        self.log = []

    def note(self, *words):
        self.log.append(" ".join(str(word) for word in words))

    # Who waits

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

    def asks(self, owner, *, fair=True, blocks=True, once=False, client=None):
        """`owner` asks, on a connection of its own unless one that does not wait is given."""
        client = client or self.server.actor(owner)
        self._says(client, owner, *(("BLOCK", 0) if blocks else ()), fair=fair, once=once)
        self.model.ask(client, owner, fair=fair, blocks=blocks, once=once)
        if self.model.is_waiting(client):
            client.wait_blocked()
        self.compare()
        return client

    def _says(self, client, owner, *block, fair, once):
        words = ("LOCK.FAIR" if fair else "LOCK.ACQUIRE", "k", owner, *(("ONCE",) if once else ()), "PX", HOUR, *block)
        self.note(*words)
        client.send(*words)

    def asks_and_times_out(self, owner, *, fair=True, once=False):
        """It joins, or takes its position over, and leaves when its time is over, unless it is granted."""
        client = self.server.actor(owner)
        self._says(client, owner, "BLOCK", scaled_ms(1), fair=fair, once=once)
        self.model.ask(client, owner, fair=fair, blocks=True, once=once)
        if self.model.is_waiting(client):
            self.model.time_out(client)
        self.compare()
        client.close()

    def releases(self, owner):
        self.note("releases", owner)
        answer = self.outsider.attempt("LOCK.RELEASE", "k", owner)
        expected = self.model.release(owner)
        assert str(answer).startswith("NOTHELD") if expected is None else answer == expected, f"heard {answer!r}"
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
        """In the transaction that releases the holder's hold; if that lets it in, nobody has been told yet."""
        self.note("dies", client.name, "as", self.model.holder, "releases")
        for words in (
            ("MULTI",), ("LOCK.RELEASE", "k", self.model.holder), ("CLIENT", "KILL", "ID", client.client_id), ("EXEC",)
        ):
            self.outsider.call(*words)
        self.model.release(self.model.holder)
        (self.model.die if self.model.is_waiting(client) else self.model.die_untold)(client)
        self.compare()

    def restarts(self):
        """The server is killed and started; all connections with it."""
        self.note("restarts")
        self.server.kill()
        self.server.start()
        self.outsider = self.server.actor("outsider")
        self.restarted = True
        self.model.restart()
        self.compare()

    # Comparing

    def compare(self):
        """Who heard what, who holds, who waits in which order, what is written down."""
        expected = self.model.take_heard()
        heard = {client: [client.outcome() for _ in answers] for client, answers in expected.items()}
        assert _nameless(heard) == _nameless(expected), f"heard were {heard}, not {expected}\n{self.story()}"
        try:
            wait_for(self.is_as_modelled, 5, "the server to be as the model")
        except AssertionError as problem:
            raise AssertionError(f"{problem}\n{self.story()}") from None
        for client in self.clients():
            assert not client.has_reply(), f"{client} heard {client.outcome()!r}\n{self.story()}"

    def is_as_modelled(self):
        found, model = info(self.server), self.model
        holders = [(holder["owner"], holder["holds"]) for holder in found["holders"]]
        expected = [(model.holder, model.holds)] if model.holder else []
        assert holders == expected, f"it is held by {holders}, not {expected}"
        got = [(waiter["owner"], waiter["fair"], waiter["client"]) for waiter in found["waiters"]]
        wanted = [(p.owner, int(p.fair), p.client.client_id if p.client else None) for p in model.queue]
        assert got == wanted, f"in the queue are {got}, not {wanted}"
        assert self.server.info("lock")["lock_waiters"] == len(self.clients())
        return written_is_right(self.server, restarted=self.restarted, known=found["waiters"])

    def story(self):
        return "what was done:\n" + "\n".join(self.log)

    # The end

    def drains(self):
        """All who wait are served in order; whose position is only kept comes back for it. Nothing is left."""
        while self.model.holder or self.model.queue:
            if self.model.holder:
                self.releases(self.model.holder)
            else:
                self.asks(self.model.queue[0].owner, blocks=False)
        wait_for(lambda: nothing_left(self.server), what="the last position to leave no trace")
        assert self.server.control.dbsize() == 0
