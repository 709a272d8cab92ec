"""Runs the scenes of failpoint_scene.py on a server, and ends them, whatever went wrong in them."""

from itertools import groupby

from redis.exceptions import ConnectionError, ResponseError

from harness import code_of, failpoint, scaled_ms, wait_for
from harness.iothreads import has_io_threads
from harness.schedule import as_map

from .failpoint_invariants import holders_in, locks_in, part_of
from .failpoint_scene import LONG

TAKES = ("LOCK.ACQUIRE", "LOCK.FAIR", "LOCK.RWREAD", "LOCK.RWWRITE", "LOCK.SEMAPHORE", "LOCK.MACQUIRE")
LISTENS = ("LATCH.WAIT", "LOCK.WATCH")


def keys_of(words):
    return words[2 : 2 + int(words[1])] if words[0] in ("LOCK.MACQUIRE", "LOCK.MRELEASE") else words[1:2]


def without_replicas(words):
    at = words.index("REPLICAS") if "REPLICAS" in words else len(words)
    return words[:at] + words[at + 3 :]


class Party:
    """One client: its commands without a reply, and the holds that have been granted to it."""

    def __init__(self, server, name):
        self.server, self.owner = server, name.rstrip("0123456789")
        self.actor = server.actor(name)
        self.pending = []  # the commands that have no reply yet, as lists of words
        self.holds = []  # the commands whose reply was a grant
        self.lives = True
        self.replies = []  # (command, reply)
        self.refused = None  # if TRYAGAIN is allowed: the commands that had it as the reply

    def send(self, lines, lease=("PX", LONG)):
        """Sends them in one packet, so that all have been sent even if the server dies at the first. Returns each as a
        list of words."""
        commands = [line.split() for line in lines]
        for words in commands:
            if words[0] in TAKES and not {"SESSION", "PX"} & set(words):
                words += map(str, lease)
        self.actor.send_together(*commands)
        self.pending += commands
        return commands

    @property
    def waits(self):
        return self.lives and any(words[0] in TAKES for words in self.pending)

    def dies(self):
        self.actor.kill_socket()
        self.lives = False

    def receive(self):
        """Reads the replies that have arrived."""
        try:
            while self.lives and self.pending and self.actor.has_reply():
                self._take_in(self.pending[0], self.actor.outcome())
                self.pending.pop(0)
        except ConnectionError:
            self.lives = False

    def _take_in(self, words, reply):
        self.replies.append((words, reply))
        if self.refused is not None and isinstance(reply, ResponseError) and code_of(reply) == "TRYAGAIN":
            self.refused.append(words)
        elif isinstance(reply, ResponseError):
            may_be = {"LOCK.RELEASE": "NOTHELD"}.get(words[0], "NOREPLICAS" if "REPLICAS" in words else None)
            assert code_of(reply) == may_be, f"{self.actor}: {words}: {reply}"
        elif words[0] in TAKES and reply is not None:
            self.holds.append(words)
        elif words[0] in ("LOCK.RELEASE", "LOCK.MRELEASE"):
            self.holds = self.holds[:reply] if words[0] == "LOCK.RELEASE" else []

    def resend(self):
        """Sends the refused commands again, and waits for the replies to those that do not block."""
        again, self.refused = self.refused, None
        for words in again:
            self.actor.send(*words)
            self.pending.append(words)
            if "BLOCK" not in words:
                wait_for(lambda: self.receive() or not self.pending, what=f"the reply to {words}")

    def granted(self):
        return {(key, self.owner) for words in self.holds for key in keys_of(words)}

    def may_have_released(self):
        """{key} of its commands without a reply."""
        return {key for words in self.pending if words[0] not in TAKES for key in keys_of(words)}

    def releases(self):
        """Releases all that it holds. Returns how many of the holds it did not have any more, without those with ONCE:
        another connection of its owner may have released them.
        """
        lost = 0
        for words in self.holds:
            if words[0] == "LOCK.MACQUIRE":
                keys = " ".join(words[1 : 2 + int(words[1])])
                # If some of them are gone it releases the others one by one.
                if self._releases_one(f"LOCK.MRELEASE {keys}"):
                    continue
                ways = [f"LOCK.RELEASE {key}" for key in keys_of(words)]
            else:
                ways = [f"LOCK.RELEASE {words[1]}"]
            mode = words[0].removeprefix("LOCK.RW") if words[0].startswith("LOCK.RW") else ""
            gone = [self._releases_one(way, mode) for way in ways].count(False)
            lost += 0 if "ONCE" in words else gone
        self.holds = []
        return lost

    def _releases_one(self, command, mode=""):
        reply = self.actor.attempt(*command.split(), self.owner, *mode.split())
        if isinstance(reply, ResponseError):
            assert code_of(reply) == "NOTHELD", f"{self.actor}: {command}: {reply}"
        return not isinstance(reply, ResponseError)


class Play:
    """One scene on one server."""

    def __init__(self, server, scene):
        self.server, self.scene = server, scene
        self.parties = {}
        self.requests = []  # all acquiring commands, LATCH.WAIT and LOCK.WATCH, with the party's name

    def connect(self, *names):
        """Connects those that have no connection yet."""
        for name in names:
            if name not in self.parties:
                self.parties[name] = Party(self.server, name)

    def send(self, *lines, lease=("PX", LONG)):
        """Sends lines of one party."""
        name = lines[0].split()[0]
        self.connect(name)
        party = self.parties[name]
        commands = party.send([line.partition(" ")[2] for line in lines], lease)
        self.requests += [(name, words) for words in commands if words[0] in (*TAKES, *LISTENS)]
        return party

    def begin(self, *lease):
        """Sends the lines of `before`; afterwards the server has no more work. Those that wait then have requested this
        lease."""
        lease = lease or ("PX", LONG)
        for line in self.scene.before:
            waits = "BLOCK" in line
            party = self.send(line, lease=lease) if waits else self.send(line)
            if waits:
                party.actor.wait_blocked()
            else:
                wait_for(lambda who=party: who.receive() or not who.pending, what=line)
        self.server.all_searched()
        return self

    def go(self, *lease):
        """Sends the lines of `then`, and waits for no reply."""
        lease = lease or ("PX", LONG)
        at_once = [line.removeprefix("at_once ") for line in self.scene.then if line.startswith("at_once ")]
        if at_once:
            ids = {name: party.actor.client_id for name, party in self.parties.items()}
            packet = "".join(line.format(**ids) + "\r\n" for line in at_once)
            self.server.raw_connection().sendall(packet.encode())
            self.parties["a"].holds = []
            return
        for name, lines in groupby(self.scene.then, lambda line: line.split()[0]):
            lines = list(lines)
            if lines == [f"{name} DIES"]:
                self.parties[name].dies()
            else:
                self.send(*lines, lease=lease)

    def receive(self):
        for party in self.parties.values():
            party.receive()

    def granted(self):
        """{(key, owner)} of all holds that were granted to parties that are alive, and that they have not released."""
        return {pair for party in self.parties.values() if party.lives for pair in party.granted()}

    @property
    def multikey(self):
        requests = [(name, words) for name, words in self.requests if words[0] == "LOCK.MACQUIRE"]
        return [(self.parties[name].owner, keys_of(words)) for name, words in requests]

    @property
    def fenced(self):
        """(owner, key) of those that requested a token each time."""
        every = {(owner, words[1]) for owner, words in self.requests}
        without_token = {(owner, words[1]) for owner, words in self.requests if "FENCED" not in words}
        return every - without_token

    # The end

    def repeat_on(self, server):
        """All that waited send their requests to another server, which has no replicas."""
        again = Play(server, self.scene)
        for owner, words in self.requests:
            if "BLOCK" in words:
                again.send(f"{owner} {' '.join(without_replicas(words))}")
        return again

    def finish(self):
        """All release the holds that were granted to them, until no party waits. Returns how many holds were lost in
        the meantime."""
        lost = 0

        def none_waits():
            nonlocal lost
            self.receive()
            lost += sum(party.releases() for party in self.parties.values() if party.lives)
            return not any(party.waits or (party.lives and party.pending) for party in self.parties.values())

        wait_for(none_waits, 10, f"{self.scene} to end")
        return lost

    def check_nothing_left(self):
        """Closes all connections, and waits until nothing of them is left."""
        for party in self.parties.values():
            party.actor.close()
        wait_for(lambda: self._is_empty(), 10, "all that the scene wrote to be gone")

    def _is_empty(self):
        info = self.server.info("lock")
        for field in ("lock_waiters", "lock_contended_locks", "lock_sessions"):
            assert info[field] == 0, f"{field} is {info[field]}"
        ends_by_itself = [b"lock:token:"]
        if any(words[0] == "DEL" for party in self.parties.values() for words, _ in party.replies):
            ends_by_itself.append(b"lock:lease:")
        left = [name for _, name in self.server.dump() if not name.startswith(tuple(ends_by_itself))]
        assert not left, f"{left} is left"
        for key in {key for _, words in self.requests for key in keys_of(words)}:
            info = as_map(self.server.control.execute_command("LOCK.INFO", key))
            assert not info or info["mode"] == "free", f"{key}: {info}"
        return True


def holds_end(play):
    """Ends all holds. If a lock has a waiter, its lease expires, and the grant to the waiter also ends all that belongs
    to the hold. Other locks are forced, and latches are opened.
    """
    server, data = play.server, play.server.dump()
    for key in locks_in(data):
        owners = {play.parties[name].owner for name, words in play.requests if key in keys_of(words)}
        if owners - holders_in(data, key):
            server.control.pexpire(key, scaled_ms(20))
        else:
            server.control.execute_command("LOCK.FORCE", key)
    for key in {words[1] for _, words in play.requests if words[0] == "LATCH.WAIT"}:
        server.control.execute_command("LATCH.SET", key, 0)


def untouched(play, point, data):
    """The part of the dataset that may not differ: a change that is not complete at the end of the last event-loop
    iteration is nowhere. If I/O threads read a command, its replies may be written one iteration after the one that ran
    it.
    """
    moved = play.scene.moved.split()
    if point == "reply" and has_io_threads(play.server.launch):
        moved += " ".join(play.scene.then).split()
    return {position: entry for position, entry in data.items() if position not in part_of(data, moved)}


def points_of_locks():
    """All points except those that can fail, and those of the delayed queue, which delay/test_crash.py tests."""
    points = failpoint.points() - failpoint.points_that_fail()
    return {point for point in points if not point.startswith("deliver.")}
