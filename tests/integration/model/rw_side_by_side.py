"""A server and the oracle of rw.py, which get the same commands and are compared after every step."""

from harness import code_of, wait_for
from harness.schedule import as_map

from .once import options
from .rw import MODES, NOTHING_YET, Oracle

LEASE = 3_600_000


def plainly(reply):
    """The code of an error; any other reply unchanged."""
    return code_of(reply) if isinstance(reply, Exception) else reply


class SideBySide:
    """Clients are names; each has a connection from its first command on. All commands are in `story`."""

    def __init__(self, server, keys=("k",), patience=2.0):
        self.server, self.patience = server, patience
        self.oracles = {key: Oracle() for key in keys}
        self.outsider = server.actor("outsider")
        self.actors, self.waits_for = {}, {}
        self.story = []

    def actor(self, client):
        if client not in self.actors:
            self.actors[client] = self.server.actor(client)
        return self.actors[client]

    # Sending

    def request(self, client, key, owner, kind, blocks=True, *, lease=LEASE):
        """Returns the reply, or NOTHING_YET."""
        words = (f"LOCK.{kind}", key, owner, *options(kind), "PX", lease, *(("BLOCK", 0) if blocks else ()))
        actor = self.actor(client)
        self.note(client, *words)
        actor.send(*words)
        expected = self.oracles[key].request(client, owner, kind, blocks)
        if expected == NOTHING_YET:
            self.waits_for[client] = key
            actor.wait_blocked()
        else:
            self.check(client, plainly(actor.outcome()), expected)
        return expected

    def call(self, command, key, *words, client=None):
        """LOCK.<command>, a command that does not block."""
        actor = self.actor(client) if client else self.outsider
        self.note(client, f"LOCK.{command}", key, *words)
        reply = plainly(actor.attempt(f"LOCK.{command}", key, *words))
        expected = getattr(self.oracles[key], command.lower())(*words)
        self.check(client, reply, expected)
        return expected

    def gives_up(self, key, owner, *words):
        """LOCK.CANCEL … RELEASE."""
        command = ("LOCK.CANCEL", key, owner, "RELEASE", *words)
        self.note(None, *command)
        self.check(None, plainly(self.outsider.attempt(*command)), self.oracles[key].give_up(owner, *words))

    def note(self, who, *words):
        self.story.append(f"{who or 'outsider'}: {' '.join(map(str, words))}")

    def check(self, who, reply, expected):
        assert reply == expected, f"{who} received {reply!r}, not {expected!r}, after\n" + "\n".join(self.story)

    # Comparing

    def compare(self, at_once=True):
        """Compares the waits that have ended, with their replies; then LOCK.INFO of each key.

        After other events than commands of the module the server may need a moment.
        """
        for oracle in self.oracles.values():
            for client, reply in oracle.take_replies().items():
                del self.waits_for[client]
                if client in self.actors:  # it has not died
                    self.check(client, plainly(self.actors[client].outcome()), reply)
        if at_once:
            self.agree()
        else:
            wait_for(self.agree, self.patience, "the server to agree with the oracle")
        for client in self.waits_for:
            if self.actors[client].has_reply():
                self.check(client, plainly(self.actors[client].outcome()), NOTHING_YET)

    def agree(self):
        for key, oracle in self.oracles.items():
            seen, expected = self.seen(key), self.expected(oracle)
            assert seen == expected, f"{key} is {seen}, not {expected}, after\n" + "\n".join(self.story)
        assert self.server.info("lock")["lock_waiters"] == len(self.waits_for)
        return True

    def seen(self, key):
        got = self.outsider.call("LOCK.INFO", key, "COUNT", 100)
        if got is None:
            return None
        info = as_map(got)
        holds = {(one["owner"], one["mode"]): one["holds"] for one in map(as_map, info["holders"])}
        line = [(one["owner"], one["mode"], one["client"]) for one in map(as_map, info["waiters"])]
        assert info["waiting"] == len(line)
        return info["mode"], holds, line

    def expected(self, oracle):
        if not oracle.counts and not oracle.line:
            return None
        holds = {(owner, MODES[kind]): count for (owner, kind), count in oracle.counts.items()}
        line = [
            (owner, MODES[kind], self.actors[client].client_id) for client, owner, kind in oracle.line
        ]
        return oracle.mode(), holds, line
