"""A server and the oracle of semaphore.py, which get the same commands and are compared after every step."""

from harness.schedule import as_map

from .once import options
from .rw_side_by_side import LEASE, SideBySide, plainly
from .semaphore import MODES, NOTHING_YET, SEMAPHORE, Oracle


class SemaphoresSideBySide(SideBySide):
    def __init__(self, server, keys=("k",), patience=2.0):
        super().__init__(server, keys, patience)
        self.oracles = {key: Oracle() for key in keys}

    def request(self, client, key, owner, kind=SEMAPHORE, permits=1, limit=1, blocks=True, *, lease=LEASE, session=False):
        """Returns the reply, or NOTHING_YET."""
        asks = (limit, "PERMITS", permits) if kind == SEMAPHORE else ()
        ends = ("SESSION",) if session else ("PX", lease)
        words = (f"LOCK.{kind}", key, owner, *asks, *options(kind), *ends, *(("BLOCK", 0) if blocks else ()))
        actor = self.actor(client)
        self.note(client, *words)
        actor.send(*words)
        expected = self.oracles[key].request(client, owner, kind, permits, limit, blocks)
        if expected == NOTHING_YET:
            self.waits_for[client] = key
            actor.wait_blocked()
        else:
            self.check(client, plainly(actor.outcome()), expected)
        return expected

    def dies(self, client, how):
        """A waiting client dies: its connection is reset, closed or killed."""
        actor = self.actors[client]
        self.note(client, f"({how})")
        if how == "kill":
            self.outsider.call("CLIENT", "KILL", "ID", actor.client_id)
        (actor.kill_socket if how == "reset" else actor.close)()
        del self.actors[client]
        self.oracles[self.waits_for.pop(client)].left(client)

    def seen(self, key):
        got = self.outsider.call("LOCK.INFO", key, "COUNT", 100)
        if got is None:
            return None
        info = as_map(got)
        holds = {one["owner"]: one["holds"] for one in map(as_map, info["holders"])}
        line = [
            (one["owner"], one["mode"], one["client"], one.get("permits"), one.get("limit"))
            for one in map(as_map, info["waiters"])
        ]
        assert info["waiting"] == len(line)
        return info["mode"], holds, line

    def expected(self, oracle):
        if not oracle.counts and not oracle.line:
            return None
        line = [
            (owner, MODES[kind], self.actors[client].client_id)
            + ((permits, limit) if kind == SEMAPHORE else (None, None))
            for client, owner, kind, permits, limit in oracle.line
        ]
        return MODES.get(oracle.kind, "free"), oracle.counts, line
