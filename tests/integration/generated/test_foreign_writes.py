"""Another client writes anything into the keys of a lock: every command replies as the table of docs/keys.md requires.

The oracle, model/foreign_table.py, reads the keys with ordinary commands before each command. FOREIGN_SCENES= sets the
number of scenes, of about five commands each; LOCK_SEED= repeats a run.
"""

import os
import random

import pytest
from redis.exceptions import ResponseError

from harness import wait_for
from harness.seeds import seed_of_run
from model.foreign_table import EXCLUSIVE, FOREIGN, KEY, LEASES, MOST, PERMITS, PLAIN, QUEUE, READ, READ_WRITE
from model.foreign_table import SEMAPHORE, TIMEOUT, TOKEN, WRITE, WRONG_TYPE, Ask, Keys, may

SCENES = int(os.environ.get("FOREIGN_SCENES") or 800)
PARTS = 4

LEASE = 3_600_000
OWNERS = (b"o1", b"o2", b"o3", b"o4")
NAMES = (
    *OWNERS,
    *(owner + b":write" for owner in OWNERS),
    b"mode",
    b"mode:write",
    b":write",
    b"x:write:write",
    b"",
    b"\x00\xff\r\n",
    b"1",
    b"owner:write",
    b"owner",
    b"token",
    b"n" * 512,
    b"n" * 513,
    b"n" * 512 + b":write",
    b"n" * 513 + b":write",
)
VALUES = (b"1", b"1", b"1", b"2", b"5", b"0", b"-1", b"x", b"", b"01", b" 1", b"1 ", b"+1", b"1.5", b"1e0", b"inf")
VALUES += tuple(str(number).encode() for number in (MOST, MOST + 1, 2**63 - 1, 2**63, -(2**63))) + (b"read", b"9" * 600)
MODES = (b"read", b"write", b"semaphore", b"READ", b"", b"banana", b"1", b"read ", b"exclusive")
TOKENS = (b"1", b"-1", b"0", b"x", b"", b"1.5", str(2**53 + 1).encode(), str(2**62 - 1).encode(), str(2**62).encode())
TOKENS += (str(2**63 - 1).encode(), str(2**63).encode(), b"01")
COMMANDS = {EXCLUSIVE: "LOCK.ACQUIRE", READ: "LOCK.RWREAD", WRITE: "LOCK.RWWRITE", SEMAPHORE: "LOCK.SEMAPHORE"}
OTHER_TYPES = (("SET", b"x"), ("RPUSH", b"x"), ("SADD", b"x"), ("XADD", b"*", b"f", b"v"))


class World:
    def __init__(self, server, draw):
        self.client, self.draw = server.client(decode_responses=False), draw
        self.has_field_ttls = self.attempt("HPEXPIRE", b"none", 1, "FIELDS", 1, b"f") == [-2]
        self.tokens = {}
        self.done = []

    def attempt(self, *words):
        try:
            return self.client.execute_command(*words)
        except ResponseError as error:
            return error

    def write(self, *words):
        self.done.append(words)
        return self.attempt(*words)

    def send(self, *words):
        self.done.append(words)
        return self.attempt(*words)

    # What the module's own commands have written before

    def begin(self):
        self.done = []
        self.client.flushall()
        kind = self.draw.choice(("nothing", PLAIN, READ, "reads", WRITE, SEMAPHORE, "full", "dead"))
        for command in self.module_commands(kind):
            self.send(*command, "PX", LEASE)
        if self.draw.random() < 0.2:
            # From listpacks to hashtables and skiplists.
            for name in (b"y" * 300,):
                self.write("HSET", KEY, name, b"1")
                self.write("HDEL", KEY, name)
                self.write("ZADD", LEASES, 1, name)
                self.write("ZREM", LEASES, name)

    def module_commands(self, kind):
        one, two, three = self.draw.sample(OWNERS, 3)
        return {
            "nothing": (),
            PLAIN: (("LOCK.ACQUIRE", KEY, one),),
            READ: (("LOCK.RWREAD", KEY, one),),
            "reads": tuple(("LOCK.RWREAD", KEY, owner) for owner in (one, two, three)),
            WRITE: (("LOCK.RWREAD", KEY, one), ("LOCK.RWWRITE", KEY, one)),
            SEMAPHORE: (("LOCK.SEMAPHORE", KEY, one, 3),),
            "full": tuple(("LOCK.SEMAPHORE", KEY, owner, 2) for owner in (one, two)),
            "dead": tuple(("LOCK.RWREAD", KEY, b"d%d" % number) for number in range(self.draw.choice((3, 70)))),
        }[kind]

    # What another client writes

    def interfere(self):
        draw = self.draw
        kinds = (self.field, self.field, self.mode, self.member, self.member, self.away, self.ttl, self.another_type)
        kinds += (self.token, self.position, self.restore, self.field_ttl, self.die)
        draw.choice(kinds)()

    def field(self):
        self.write("HSET", KEY, self.draw.choice(NAMES), self.draw.choice(VALUES))

    def mode(self):
        self.write("HSET", KEY, b"mode", self.draw.choice(MODES))

    def scores(self):
        end = self.client.execute_command("PEXPIRETIME", KEY)
        far = 10**15
        scores = (b"-inf", b"inf", 0, -1, 1, 0.5, 1.5, 1e300, -1e300, far, far + 0.5, 2**53, 2**63)
        return (*scores, end, end, end, end + 1)

    def member(self):
        self.write("ZADD", LEASES, self.draw.choice(self.scores()), self.draw.choice(NAMES))

    def die(self):
        """Most leases expire."""
        for member in self.client.execute_command("ZRANGE", LEASES, 0, -2) if self.type(LEASES) == b"zset" else ():
            self.write("ZADD", LEASES, 1, member)

    def away(self):
        words = self.draw.choice(
            (
                ("HDEL", KEY, self.draw.choice(NAMES)),
                ("ZREM", LEASES, self.draw.choice(NAMES)),
                ("DEL", LEASES),
                ("DEL", TOKEN),
                ("ZPOPMIN", LEASES),
                ("ZPOPMAX", LEASES),
            )
        )
        self.write(*words)

    def ttl(self):
        name = self.draw.choice((KEY, KEY, LEASES, TOKEN))
        self.write(*self.draw.choice((("PERSIST", name), ("PEXPIRE", name, LEASE // 2), ("PEXPIRE", name, 2 * LEASE))))

    def type(self, name):
        return self.client.execute_command("TYPE", name)

    def another_type(self):
        if self.draw.random() < 0.5:
            name = self.draw.choice((KEY, LEASES, TOKEN, QUEUE, TIMEOUT))
            command, *words = self.draw.choice(OTHER_TYPES)
            self.write("DEL", name)
            self.write(command, name, *words)

    def token(self):
        self.write("HSET", TOKEN, b"token", self.draw.choice(TOKENS), b"owner", self.draw.choice(NAMES))

    def position(self):
        name = self.draw.choice((QUEUE, TIMEOUT))
        self.write("ZADD", name, self.draw.choice((b"-inf", b"inf", 1, 2**53, 10**15 * 9, -5)), self.draw.choice(NAMES))

    def restore(self):
        """The same value, a part of it, or the value of another key."""
        name, source = self.draw.choice((KEY, LEASES)), self.draw.choice((KEY, LEASES, TOKEN))
        dump = self.client.dump(source)
        if dump is not None:
            if self.draw.random() < 0.3:
                dump = dump[: self.draw.randrange(len(dump))]
            self.write("RESTORE", name, self.draw.choice((0, LEASE)), dump, "REPLACE")

    def field_ttl(self):
        if self.has_field_ttls and self.type(KEY) == b"hash":
            name = self.draw.choice(self.client.hkeys(KEY) or [b"o1"])
            self.write("HPEXPIRE", KEY, 1, "FIELDS", 1, name)
            # In its last millisecond some commands see the field and others do not; when HEXISTS does not, none does.
            wait_for(lambda: not self.client.hexists(KEY, name), what="the field's TTL to pass")

    # The module's commands, whose replies are checked

    def step(self):
        draw = self.draw
        kinds = (self.release, self.renew, self.guard, self.watch, self.info, self.force, self.fair)
        draw.choice((self.acquire,) * 6 + kinds)(Keys.read(self.client))

    def acquire(self, keys):
        draw = self.draw
        mode = draw.choice(tuple(COMMANDS))
        limit = draw.choice((1, 2, 3, MOST))
        once = mode != SEMAPHORE and draw.random() < 0.2
        ask = Ask(draw.choice(OWNERS), mode, draw.choice((1, 1, min(2, limit))), limit, once)
        words = [COMMANDS[mode], KEY, ask.owner]
        words += [limit, "PERMITS", ask.permits] if mode == SEMAPHORE else ["ONCE"] * ask.once
        fenced = mode in (EXCLUSIVE, WRITE) and draw.random() < 0.3
        reply = self.send(*words, "PX", LEASE, *["FENCED"] * fenced)
        expected = may(keys, ask)
        if keys.kind == WRONG_TYPE or self.needs_other_types(keys, mode, fenced):
            assert is_error(reply, "WRONGTYPE"), (reply, keys)
        elif is_error(reply, "ERR hold count would overflow"):
            assert expected is not None and expected > MOST, keys
        elif fenced and reply is not None:
            assert expected is not None, keys
            self.check_token(ask.owner, reply, expected > 1 or ask.once)
        else:
            assert reply == expected, (ask, reply, expected, keys)
        if expected is not None and reply is not None and not isinstance(reply, Exception):
            after = Keys.read(self.client)
            assert after.holds().get((ask.owner, mode)) == expected, (ask, keys, after)

    @staticmethod
    def needs_other_types(keys, mode, fenced):
        leases, token = keys.side_types[LEASES], keys.side_types[TOKEN]
        return (mode != EXCLUSIVE and leases not in (b"none", b"zset")) or (fenced and token not in (b"none", b"hash"))

    def check_token(self, owner, token, is_reentry):
        last = self.tokens.get(KEY, (0, None))
        if is_error(token, "ERR no larger fencing token"):
            return
        assert token > last[0] or (is_reentry and (token, owner) == last), (token, last)
        self.tokens[KEY] = token, owner

    def other_lock_is_untouched(self):
        """The token of a lock whose keys only the module has written is the current time."""
        token = self.attempt("LOCK.ACQUIRE", b"u", b"o", "FENCED")
        seconds, micros = self.client.time()
        self.attempt("LOCK.FORCE", b"u")
        last = self.tokens.get(b"u", 0)
        assert last < token <= seconds * 10**6 + micros + 1000, (last, token)
        self.tokens[b"u"] = token

    def release(self, keys):
        owner = self.draw.choice(OWNERS)
        holds = {mode: count for (holder, mode), count in keys.holds().items() if holder == owner}
        mode = self.draw.choice((READ, WRITE, SEMAPHORE, None))
        options = {READ: ["READ"], WRITE: ["WRITE"], SEMAPHORE: ["PERMITS", 1], None: []}[mode]
        reply = self.send("LOCK.RELEASE", KEY, owner, *options)
        if keys.kind == WRONG_TYPE:
            assert is_error(reply, "WRONGTYPE")
            return
        if mode is None and holds:
            reads_and_writes = keys.mode == WRITE and {READ, WRITE} <= set(holds)
            mode = "both" if reads_and_writes else self.only_mode(keys, holds)
        if mode == "both":
            assert is_error(reply, "ERR the owner holds the lock in both modes"), (reply, keys)
        elif mode in holds:
            assert reply == holds[mode] - 1, (owner, mode, reply, keys)
        else:
            assert is_error(reply, "NOTHELD"), (owner, mode, reply, keys)

    @staticmethod
    def only_mode(keys, holds):
        if keys.kind == READ_WRITE:
            return WRITE if keys.mode == WRITE and WRITE in holds else READ
        return EXCLUSIVE if keys.kind == PLAIN else SEMAPHORE

    def owner_and_holds(self, keys):
        owner = self.draw.choice(OWNERS)
        return owner, sum(count for (holder, _), count in keys.holds().items() if holder == owner)

    def renew(self, keys):
        owner, count = self.owner_and_holds(keys)
        reply = self.send("LOCK.RENEW", KEY, owner, "PX", LEASE)
        self.reply_matches_hold(keys, reply, count, lambda: isinstance(reply, int))

    def guard(self, keys):
        owner, count = self.owner_and_holds(keys)
        reply = self.send("LOCK.GUARD", KEY, owner, "ECHO", b"done")
        self.reply_matches_hold(keys, reply, count, lambda: reply == b"done")

    def reply_matches_hold(self, keys, reply, count, is_done):
        if keys.kind == WRONG_TYPE:
            assert is_error(reply, "WRONGTYPE"), (reply, keys)
        elif count:
            assert is_done(), (reply, keys)
        else:
            assert is_error(reply, "NOTHELD"), (reply, keys)

    def watch(self, keys):
        owner, count = self.owner_and_holds(keys)
        reply = self.send("LOCK.WATCH", KEY, owner)
        if not is_error(reply, "WRONGTYPE"):
            assert reply == (None if count else b"LOST"), (owner, reply, keys)

    def info(self, keys):
        reply = self.send("LOCK.INFO", KEY)
        if keys.kind == WRONG_TYPE:
            assert is_error(reply, "WRONGTYPE"), (reply, keys)
        elif reply is None:
            is_shown = keys.is_foreign() if keys.kind == PERMITS else keys.kind in (FOREIGN, PLAIN)
            assert not keys.holds() and not is_shown, keys
        else:
            shown = {}
            for holder in as_map_of_bytes(reply)[b"holders"]:
                one = as_map_of_bytes(holder)
                shown[one[b"owner"], one[b"mode"].decode()] = one[b"holds"]
            assert shown == keys.holds(), (shown, keys)

    def force(self, keys):
        reply = self.send("LOCK.FORCE", KEY)
        if keys.kind == WRONG_TYPE:
            assert is_error(reply, "WRONGTYPE"), (reply, keys)
        else:
            # If many leases have expired, some holds are still in the key; so are fields whose own TTL has passed.
            is_littered = keys.leftovers() or len(keys.fields) - len(keys.live_fields()) > 64
            assert reply == (not keys.is_free()) or (reply == 1 and is_littered), (reply, keys)
            assert self.client.exists(KEY) == 0

    def fair(self, keys):
        owner = self.draw.choice(OWNERS)
        reply = self.send("LOCK.FAIR", KEY, owner, "PX", LEASE)
        queues = {keys.side_types[QUEUE], keys.side_types[TIMEOUT]} - {b"none", b"zset"}
        if keys.kind == WRONG_TYPE or queues:
            assert is_error(reply, "WRONGTYPE"), (reply, keys)
        elif not is_error(reply, "ERR hold count would overflow"):
            assert reply == may(keys, Ask(owner, EXCLUSIVE)), (owner, reply, keys)


def is_error(reply, text):
    return isinstance(reply, Exception) and str(reply).startswith(text)


def as_map_of_bytes(reply):
    return reply if isinstance(reply, dict) else dict(zip(reply[::2], reply[1::2], strict=True))


def play(world):
    world.begin()
    for _ in range(world.draw.randrange(4)):
        world.interfere()
    for _ in range(world.draw.randint(1, 4)):
        world.step()
        if world.draw.random() < 0.3:
            world.interfere()
    world.other_lock_is_untouched()


@pytest.fixture
def no_positions_kept(server):
    """What another client writes into the fair queue reserves no position: fair/test_foreign_positions.py."""
    server.control.config_set("lock.fair-reserve", 1)


@pytest.mark.usefixtures("no_active_expiry", "no_positions_kept")
@pytest.mark.parametrize("part", range(PARTS))
def test_commands_reply_as_the_table_of_foreign_writes_requires(server, part):
    world = World(server, random.Random(seed_of_run(part)))
    for _ in range(SCENES // PARTS):
        try:
            play(world)
        except AssertionError:
            print(*world.done, sep="\n")
            raise
