"""The table of docs/keys.md, "What other clients write", as code: the contents of a lock's keys, and what they mean.

It is independent of the module: it reads the keys with the server's commands, and decides who holds the lock, and who
may acquire it. Leases here expired long ago, or expire far in the future: no test depends on the moment of a read.
"""

import re
from dataclasses import dataclass, field

KEY, OTHER = b"k", b"u"
LEASES, QUEUE, TIMEOUT, TOKEN = b"lock:lease:{k}", b"lock:queue:{k}", b"lock:timeout:{k}", b"lock:token:{k}"
READ, WRITE, EXCLUSIVE, SEMAPHORE = "read", "write", "exclusive", "semaphore"
MODES = {b"read": READ, b"write": WRITE, b"semaphore": SEMAPHORE}
MOST = 2**31 - 1
EVER = float("inf")
MOVED = 10_000
"""Milliseconds by which the keys of a lock may end after its last lease once MIGRATE has moved them."""

FREE, PLAIN, READ_WRITE, PERMITS, FOREIGN, WRONG_TYPE = "free", "plain", "rw", "semaphore", "foreign", "wrong type"


# In a script: the contents of a key of this type, or nothing.
_IF_TYPE = "return redis.call('TYPE',KEYS[1]).ok=='{0}' and {1} or {2}"


def is_owner(name):
    return 1 <= len(name) <= 512 and name != b"mode" and not name.endswith(b":write")


def count_of(value):
    """The count in a field; None if the value is not a count."""
    is_number = re.fullmatch(rb"[1-9][0-9]{0,9}", value)
    return int(value) if is_number and int(value) <= MOST else None


def hold_of(name, kind):
    """(owner, mode) of the holds in this field; None if the field belongs to no owner."""
    if kind == READ_WRITE and name.endswith(b":write") and is_owner(name[: -len(b":write")]):
        return name[: -len(b":write")], WRITE
    if not is_owner(name) or kind in (FREE, FOREIGN, WRONG_TYPE):
        return None
    return name, {READ_WRITE: READ, PERMITS: SEMAPHORE, PLAIN: EXCLUSIVE}[kind]


@dataclass
class Keys:
    """The contents of the keys of `k`."""

    type: bytes = b"none"
    fields: dict = field(default_factory=dict)
    length: int = 0
    """Of the hash: fields that have expired by a TTL of their own count until the server removes them."""
    end: float = EVER
    side_types: dict = field(default_factory=dict)
    leases: list = field(default_factory=list)
    leases_end: float = EVER
    """When the set of leases itself expires."""
    now: int = 0

    @classmethod
    def read(cls, client):
        pipeline = client.pipeline(transaction=True)
        for name in (KEY, LEASES, QUEUE, TIMEOUT, TOKEN):
            pipeline.type(name)
        pipeline.execute_command("PEXPIRETIME", KEY)
        pipeline.execute_command("PEXPIRETIME", LEASES)
        pipeline.time()
        pipeline.execute_command("EVAL", _IF_TYPE.format("hash", "redis.call('HLEN',KEYS[1])", "0"), 1, KEY)
        pipeline.execute_command("EVAL", _IF_TYPE.format("hash", "redis.call('HGETALL',KEYS[1])", "{}"), 1, KEY)
        scores = "redis.call('ZRANGE',KEYS[1],0,-1,'WITHSCORES')"
        pipeline.execute_command("EVAL", _IF_TYPE.format("zset", scores, "{}"), 1, LEASES)
        *types, end, leases_end, (seconds, _), length, flat, scores = pipeline.execute()
        return cls(
            type=types[0],
            fields=dict(zip(flat[::2], flat[1::2], strict=True)),
            length=length,
            end=EVER if end < 0 else end,
            side_types=dict(zip((LEASES, QUEUE, TIMEOUT, TOKEN), types[1:], strict=True)),
            leases=list(zip(scores[::2], map(float, scores[1::2]), strict=True)),
            leases_end=EVER if leases_end < 0 else leases_end,
            now=seconds * 1000,
        )

    # Kind and mode

    @property
    def kind(self):
        if self.type != b"hash":
            return FREE if self.type == b"none" else WRONG_TYPE
        mode = MODES.get(self.fields.get(b"mode"))
        if self.length == 1:
            return FREE if mode else PLAIN
        if mode is None:
            return FOREIGN
        return PERMITS if mode == SEMAPHORE else READ_WRITE

    @property
    def mode(self):
        return MODES.get(self.fields.get(b"mode"))

    # Leases

    @property
    def set_is_ours(self):
        """Whether the lease set belongs to this lock: then its last end is that of the key, or MIGRATE has moved both."""
        if not self.leases:
            return False
        last = _time(self.leases[-1][1])
        return last == self.end or (last < self.leases_end <= last + MOVED and last <= self.end <= last + MOVED)

    def is_alive(self, name):
        if self.kind not in (READ_WRITE, PERMITS) or not self.set_is_ours:
            return True
        end = dict(self.leases).get(name, self.end)
        return end < 1 or _time(end) >= self.now

    # Holders

    def holds(self):
        """{(owner, mode): count} of the holds."""
        if self.kind in (FREE, FOREIGN, WRONG_TYPE):
            return {}
        found = {}
        for name, value in self.fields.items():
            hold, count = hold_of(name, self.kind), count_of(value)
            if name != b"mode" and hold and count and self.is_alive(name):
                found[hold] = count
        return found

    def live_fields(self):
        """The fields that count: not those of expired holds, whatever their values, but also those without an owner."""
        return [
            name
            for name in self.fields
            if name != b"mode" and (hold_of(name, self.kind) is None or self.is_alive(name))
        ]

    def is_foreign(self):
        """Whether a field has no owner, or its value is not a count."""
        return any(
            hold_of(name, self.kind) is None or count_of(self.fields[name]) is None for name in self.live_fields()
        )

    def is_free(self):
        if self.kind in (FREE, READ_WRITE, PERMITS):
            return self.kind == FREE or not self.live_fields()
        return False

    def leftovers(self):
        """How many fields have expired by a TTL of their own and still exist."""
        return self.length - len(self.fields)


def _time(score):
    return EVER if score >= 2**63 else int(score) if score >= 1 else 0


# Who may acquire it


@dataclass(frozen=True)
class Ask:
    owner: bytes
    mode: str
    permits: int = 1
    limit: int = 1
    once: bool = False


def may(keys, ask):
    """How many holds the owner has in this mode after the grant; None if it is not granted."""
    if keys.is_free() and not (keys.kind == READ_WRITE and keys.mode == WRITE and keys.leftovers()):
        return ask.permits if ask.mode == SEMAPHORE else 1
    if keys.kind == PLAIN:
        return _may_plain(keys, ask)
    if keys.kind == READ_WRITE:
        return _may_read_write(keys, ask)
    if keys.kind == PERMITS:
        return _may_have_permits(keys, ask)
    return None


def _may_plain(keys, ask):
    own = keys.holds().get((ask.owner, EXCLUSIVE))
    if ask.mode != EXCLUSIVE or own is None:
        return None
    return own if ask.once else own + 1


def _is_unreadable(keys, *names):
    return any(name in keys.live_fields() and count_of(keys.fields[name]) is None for name in names)


def _may_read_write(keys, ask):
    owner, holds = ask.owner, keys.holds()
    reads, writes = holds.get((owner, READ), 0), holds.get((owner, WRITE), 0)
    if _is_unreadable(keys, owner, owner + b":write"):
        return None
    fields = len(keys.live_fields()) + keys.leftovers()
    is_alone = fields == bool(reads) + bool(writes)
    closed_to_all = not is_alone and keys.mode == WRITE and not writes
    if not is_alone and not closed_to_all and keys.is_foreign():
        return None
    own = {READ: reads, WRITE: writes}.get(ask.mode, 0)
    if own and ask.once:
        return own
    if closed_to_all or (ask.mode not in (READ, WRITE) and (reads or writes)):
        return None
    others = {mode for holder, mode in holds if holder != owner}
    if WRITE in others or (READ in others and ask.mode != READ):
        return None
    return own + 1


def _may_have_permits(keys, ask):
    own = keys.holds().get((ask.owner, SEMAPHORE), 0)
    if ask.mode != SEMAPHORE or keys.is_foreign():
        return None
    taken = sum(keys.holds().values())
    return own + ask.permits if taken + ask.permits <= ask.limit else None


def conflict(one, other):
    """Whether these modes of two owners exclude each other; for permits the sum decides."""
    return not (one == other and one in (READ, SEMAPHORE))
