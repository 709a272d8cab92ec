"""Scenes of failpoint_scene.py played on a server, and their ends, whatever went wrong in them."""

from itertools import groupby

from redis.exceptions import ConnectionError, ResponseError

from harness import code_of, failpoint, scaled_ms, wait_for
from harness.iothreads import has_io_threads
from harness.schedule import as_map

from .failpoint_judge import holders_in, locks_in, part_of
from .failpoint_scene import LONG

TAKES = ("LOCK.ACQUIRE", "LOCK.FAIR", "LOCK.RWREAD", "LOCK.RWWRITE", "LOCK.SEMAPHORE", "LOCK.MACQUIRE")
LISTENS = ("LATCH.WAIT", "LOCK.WATCH")


def keys_of(words):
    return words[2 : 2 + int(words[1])] if words[0] in ("LOCK.MACQUIRE", "LOCK.MRELEASE") else words[1:2]


def without_replicas(words):
    at = words.index("REPLICAS") if "REPLICAS" in words else len(words)
    return words[:at] + words[at + 3 :]


class Party:
    """One client: what it waits for and what it has been told to hold."""

    def __init__(self, server, name):
        self.server, self.owner = server, name.rstrip("0123456789")
        self.actor = server.actor(name)
        self.unanswered = []  # what it has said, as lists of words
        self.holds = []  # the commands by which it was told that it holds something
        self.lives = True
        self.answers = []
        self.refused = None  # a list of what was answered TRYAGAIN, where that may be

    def say(self, lines, lease=("PX", LONG)):
        """In one packet: all of it has been sent, also if the server dies at the first. Returns each as a list of words."""
        commands = [line.split() for line in lines]
        for words in commands:
            if words[0] in TAKES and not {"SESSION", "PX"} & set(words):
                words += map(str, lease)
        self.actor.send_together(*commands)
        self.unanswered += commands
        return commands

    @property
    def waits(self):
        return self.lives and any(words[0] in TAKES for words in self.unanswered)

    def dies(self):
        self.actor.kill_socket()
        self.lives = False

    def hear(self):
        """Takes in the answers that have come."""
        try:
            while self.lives and self.unanswered and self.actor.has_reply():
                self._take_in(self.unanswered[0], self.actor.outcome())
                self.unanswered.pop(0)
        except ConnectionError:
            self.lives = False

    def _take_in(self, words, heard):
        self.answers.append((words, heard))
        if self.refused is not None and isinstance(heard, ResponseError) and code_of(heard) == "TRYAGAIN":
            self.refused.append(words)
        elif isinstance(heard, ResponseError):
            may_be = {"LOCK.RELEASE": "NOTHELD"}.get(words[0], "NOREPLICAS" if "REPLICAS" in words else None)
            assert code_of(heard) == may_be, f"{self.actor}: {words}: {heard}"
        elif words[0] in TAKES and heard is not None:
            self.holds.append(words)
        elif words[0] in ("LOCK.RELEASE", "LOCK.MRELEASE"):
            self.holds = self.holds[:heard] if words[0] == "LOCK.RELEASE" else []

    def says_again(self):
        """What was refused, and waits for the answers to what does not wait."""
        again, self.refused = self.refused, None
        for words in again:
            self.actor.send(*words)
            self.unanswered.append(words)
            if "BLOCK" not in words:
                wait_for(lambda: self.hear() or not self.unanswered, what=f"the answer to {words}")

    def told(self):
        return {(key, self.owner) for words in self.holds for key in keys_of(words)}

    def may_have_released(self):
        """{key} of what it said, and has heard no answer to."""
        return {key for words in self.unanswered if words[0] not in TAKES for key in keys_of(words)}

    def releases(self):
        """All that it holds. Returns how many of the holds it did not have any more, without those by ONCE: another
        connection of its owner may have released them.
        """
        lost = 0
        for words in self.holds:
            if words[0] == "LOCK.MACQUIRE":
                several = " ".join(words[1 : 2 + int(words[1])])
                # Of some that are gone it releases the others one by one.
                if self._releases_one(f"LOCK.MRELEASE {several}"):
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
        heard = self.actor.attempt(*command.split(), self.owner, *mode.split())
        if isinstance(heard, ResponseError):
            assert code_of(heard) == "NOTHELD", f"{self.actor}: {command}: {heard}"
        return not isinstance(heard, ResponseError)


class Play:
    """One scene on one server."""

    def __init__(self, server, scene):
        self.server, self.scene = server, scene
        self.parties = {}
        self.asked = []  # all that was said to take something or to listen, with the party's name

    def invite(self, *names):
        """They connect, if they have not yet."""
        for name in names:
            if name not in self.parties:
                self.parties[name] = Party(self.server, name)

    def say(self, *lines, lease=("PX", LONG)):
        """Lines of one party."""
        name = lines[0].split()[0]
        self.invite(name)
        party = self.parties[name]
        commands = party.say([line.partition(" ")[2] for line in lines], lease)
        self.asked += [(name, words) for words in commands if words[0] in (*TAKES, *LISTENS)]
        return party

    def begin(self, *lease):
        """Says what comes first; the server is at rest afterwards. Who waits then has asked for this lease."""
        lease = lease or ("PX", LONG)
        for line in self.scene.before:
            waits = "BLOCK" in line
            party = self.say(line, lease=lease) if waits else self.say(line)
            if waits:
                party.actor.wait_blocked()
            else:
                wait_for(lambda who=party: who.hear() or not who.unanswered, what=line)
        self.server.all_searched()
        return self

    def go(self, *lease):
        """Says the rest, and waits for no answer."""
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
                self.say(*lines, lease=lease)

    def hear(self):
        for party in self.parties.values():
            party.hear()

    def told(self):
        """{(key, owner)} of all that those who live have been told that they hold, and did not release."""
        return {pair for party in self.parties.values() if party.lives for pair in party.told()}

    @property
    def multikey(self):
        several = [(name, words) for name, words in self.asked if words[0] == "LOCK.MACQUIRE"]
        return [(self.parties[name].owner, keys_of(words)) for name, words in several]

    @property
    def fenced(self):
        """Who asked for a token each time."""
        every = {(owner, words[1]) for owner, words in self.asked}
        plain = {(owner, words[1]) for owner, words in self.asked if "FENCED" not in words}
        return every - plain

    # The end

    def comes_again(self, server):
        """Who waited asks the server that there is now, for what it had asked for; that has no replicas."""
        again = Play(server, self.scene)
        for owner, words in self.asked:
            if "BLOCK" in words:
                again.say(f"{owner} {' '.join(without_replicas(words))}")
        return again

    def is_over(self):
        """Each who was told of a hold releases it, until nobody waits. Returns how many holds were lost meanwhile."""
        lost = 0

        def nobody_waits():
            nonlocal lost
            self.hear()
            lost += sum(party.releases() for party in self.parties.values() if party.lives)
            return not any(party.waits or (party.lives and party.unanswered) for party in self.parties.values())

        wait_for(nobody_waits, 10, f"{self.scene} to be over")
        return lost

    def nothing_is_left(self):
        """All go, and nothing of them stays."""
        for party in self.parties.values():
            party.actor.close()
        wait_for(lambda: self._is_empty(), 10, "all that the scene wrote to go")

    def _is_empty(self):
        info = self.server.info("lock")
        for field in ("lock_waiters", "lock_contended_locks", "lock_sessions"):
            assert info[field] == 0, f"{field} is {info[field]}"
        ends_by_itself = [b"lock:token:"]
        if any(words[0] == "DEL" for party in self.parties.values() for words, _ in party.answers):
            ends_by_itself.append(b"lock:lease:")
        left = [name for _, name in self.server.dump() if not name.startswith(tuple(ends_by_itself))]
        assert not left, f"{left} is left"
        for key in {key for _, words in self.asked for key in keys_of(words)}:
            known = as_map(self.server.control.execute_command("LOCK.INFO", key))
            assert not known or known["mode"] == "free", f"{key}: {known}"
        return True


def holds_end(play):
    """By the end of their leases where somebody waits, who sees to all that belongs to them; else by force. Latches are
    opened.
    """
    server, data = play.server, play.server.dump()
    for key in locks_in(data):
        asking = {play.parties[name].owner for name, words in play.asked if key in keys_of(words)}
        if asking - holders_in(data, key):
            server.control.pexpire(key, scaled_ms(20))
        else:
            server.control.execute_command("LOCK.FORCE", key)
    for key in {words[1] for _, words in play.asked if words[0] == "LATCH.WAIT"}:
        server.control.execute_command("LATCH.SET", key, 0)


def untouched(play, point, data):
    """The part in which nothing may differ: what is not whole at the end of the last turn of the loop is nowhere. Where
    I/O threads read a command, its replies may be made a turn after the one that ran it.
    """
    moved = play.scene.moved.split()
    if point == "reply" and has_io_threads(play.server.launch):
        moved += " ".join(play.scene.then).split()
    return {position: entry for position, entry in data.items() if position not in part_of(data, moved)}


def points_of_locks():
    """All points but those that are refused something, and those of the delayed queue: delay/test_crash.py."""
    points = failpoint.points() - failpoint.points_that_fail()
    return {point for point in points if not point.startswith("deliver.")}
