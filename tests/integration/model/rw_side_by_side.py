"""A server and the oracle of rw.py, told the same and compared after every step."""

from harness import code_of, wait_for
from harness.schedule import as_map

from .once import options
from .rw import MODES, NOTHING_YET, Oracle

LEASE = 3_600_000


def plainly(answer):
    """An error as its code, anything else as it is."""
    return code_of(answer) if isinstance(answer, Exception) else answer


class SideBySide:
    """Clients are names; each has a connection from its first word on. What was said is in `story`."""

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

    # Saying

    def ask(self, client, key, owner, kind, blocks=True, *, lease=LEASE):
        """Returns what is heard at once."""
        words = (f"LOCK.{kind}", key, owner, *options(kind), "PX", lease, *(("BLOCK", 0) if blocks else ()))
        actor = self.actor(client)
        self.tell(client, *words)
        actor.send(*words)
        expected = self.oracles[key].ask(client, owner, kind, blocks)
        if expected == NOTHING_YET:
            self.waits_for[client] = key
            actor.wait_blocked()
        else:
            self.heard(client, plainly(actor.outcome()), expected)
        return expected

    def say(self, command, key, *words, client=None):
        """LOCK.<command>, of one that does not block."""
        actor = self.actor(client) if client else self.outsider
        self.tell(client, f"LOCK.{command}", key, *words)
        heard = plainly(actor.attempt(f"LOCK.{command}", key, *words))
        expected = getattr(self.oracles[key], command.lower())(*words)
        self.heard(client, heard, expected)
        return expected

    def gives_up(self, key, owner, *words):
        """LOCK.CANCEL … RELEASE."""
        said = ("LOCK.CANCEL", key, owner, "RELEASE", *words)
        self.tell(None, *said)
        self.heard(None, plainly(self.outsider.attempt(*said)), self.oracles[key].give_up(owner, *words))

    def tell(self, who, *words):
        self.story.append(f"{who or 'outsider'}: {' '.join(map(str, words))}")

    def heard(self, who, heard, expected):
        assert heard == expected, f"{who} heard {heard!r}, not {expected!r}, after\n" + "\n".join(self.story)

    # Comparing

    def compare(self, at_once=True):
        """Whose waits have ended, and with what; then what LOCK.INFO says of each key.

        After anything but a command of the module's own the server may take a moment.
        """
        for oracle in self.oracles.values():
            for client, answer in oracle.take_told().items():
                del self.waits_for[client]
                if client in self.actors:  # it lives
                    self.heard(client, plainly(self.actors[client].outcome()), answer)
        if at_once:
            self.agree()
        else:
            wait_for(self.agree, self.patience, "the server to be as the oracle says")
        for client in self.waits_for:
            if self.actors[client].has_reply():
                self.heard(client, plainly(self.actors[client].outcome()), NOTHING_YET)

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
