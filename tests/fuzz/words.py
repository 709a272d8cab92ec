"""The words that commands are made of. A pool is a list of bytes; what it contains twice is chosen twice as often."""

# Most have the same hash tag, so that they are in one slot of a cluster; `a` and `{a}` have one slot and the same side keys.
LOCKS = [b"{a}", b"{a}", b"a", b"{a}:2"]
READ_WRITE, SEMAPHORES, LATCHES, LISTS = [b"{a}:rw", b"{a}:rw2"], [b"{a}:s", b"{a}:s2"], [b"{a}:latch"], [b"{a}:list"]
STRANGE_KEYS = [b"", b"b", b"mode", b"x:write", b"{a}\0\xff\r\n", b"{a}" + b"k" * 510, b"lock:lease:{lock:lease:{a}}"]
MAIN_KEYS = LOCKS + READ_WRITE + SEMAPHORES + LATCHES + LISTS
SIDE_KEYS = [
    *(b"lock:%s:{%s}" % (kind, key) for kind in (b"lease", b"token", b"queue", b"timeout") for key in (b"a", *MAIN_KEYS)),
    *(b"delay:%s:{%s}" % (kind, key) for kind in (b"due", b"value") for key in (b"a", *LISTS)),
]
KEYS = MAIN_KEYS * 12 + SIDE_KEYS + STRANGE_KEYS
ANY_KEYS = MAIN_KEYS * 4 + SIDE_KEYS + STRANGE_KEYS

# Commands whose names begin like this are mostly sent with these keys, so that they often find a key of their own type.
MOSTLY = {"lock.rw": READ_WRITE, "lock.semaphore": SEMAPHORES, "latch.": LATCHES, "delay.": LISTS}


def keys_of(command):
    """The keys with which a command is sent."""
    own = next((keys for prefix, keys in MOSTLY.items() if command.startswith(prefix)), [])
    return KEYS + own * (5 * len(KEYS) // max(len(own), 1))


OWNERS = [b"o1", b"o2", b"o3"] * 40 + [
    b"",
    b"mode",
    b":write",
    b"o1:write",
    b"token",
    b"{a}",
    b"\0\xff",
    b"o" * 512,
    b"o" * 513,
]
FIELDS = OWNERS + [b"o1:write", b"o2:write", b"mode", b"token", b"owner", b"o1:write:write", b"+inf"]

LIMITS = [
    b"-1",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"4611686018427387903",
    b"4611686018427387904",
    b"1000000000000000",
    b"1000000000000001",
    b"4294967296",
]
NO_NUMBERS = [b"", b"x", b"1.5", b"01", b"+1", b" 1", b"0x10", b"1e3", b"\0", b"-0"]
INTEGERS = [b"1", b"2", b"3", b"1", b"2", b"0", b"10", b"1024"] * 30 + LIMITS + NO_NUMBERS
MILLISECONDS = [b"1", b"5", b"20", b"100", b"1000"] * 60 + [b"0"] * 4 + LIMITS + NO_NUMBERS
BLOCKS = [b"1", b"2", b"3", b"5"] * 60 + [b"20", b"0"] * 6 + LIMITS + NO_NUMBERS
SECONDS = [b"1"] * 80 + [b"0", b"100"] + LIMITS + NO_NUMBERS
UNIX_TIMES = [b"0", b"1", b"1700000000", b"1700000000000", b"99999999999", b"99999999999999"] + LIMITS
SCORES = [b"1", b"0", b"-1", b"inf", b"-inf", b"nan", b"1e308", b"-1e308", b"0.5", b"99999999999999"] * 3 + LIMITS
TIMEOUTS = [b"0.001", b"0.01", b"-1", b"0"]
VALUES = [b"read", b"write", b"semaphore", b"exclusive", b"v", b"*", b"\xff\0"] + INTEGERS
IDS = [b"*", b"i1", b"i2", b"i3", b"i4"] * 4 + [b"", b"\0\xff"]
PATTERNS = [b"*", b"{a}*", b"lock:*", b"[", b"\\"]
ANY_WORDS = KEYS + OWNERS + INTEGERS + [b"PX", b"EX", b"BLOCK", b"SESSION", b"READ", b"WRITE", b"PERMITS", b"COUNT", b"ONCE"]

BY_TOKEN = {"BLOCK": BLOCKS}
BY_NAME = {
    "owner": OWNERS,
    "milliseconds": MILLISECONDS,
    "seconds": SECONDS,
    "n": [b"1"] * 40 + INTEGERS,
    "id": IDS,
    "value": VALUES,
    "element": VALUES,
    "field": FIELDS,
    "member": FIELDS,
    "score": SCORES,
    "timeout": TIMEOUTS,
}
BY_TYPE = {
    "integer": INTEGERS,
    "double": SCORES,
    "unix-time": UNIX_TIMES,
    "pattern": PATTERNS,
    "string": ANY_WORDS,
}


def pool_of(argument):
    """The pool for an argument of COMMAND DOCS."""
    name, kind = argument["name"], argument["type"]
    return BY_TOKEN.get(argument.get("token")) or BY_NAME.get(name) or BY_TYPE[kind]
