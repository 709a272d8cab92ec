"""Bad arguments, and the error messages for them."""


# The error messages.
SYNTAX = "ERR syntax error"
LEASE = "ERR lease is not a positive integer or out of range"
BLOCK = "ERR timeout is not an integer, is negative or out of range"
REPLICAS = "ERR replicas is not an integer from 1 to 2147483647"
REPLICAS_TIME = "ERR the time for replicas is not a positive integer or out of range"
FEW_REPLICAS = "NOREPLICAS fewer replicas are connected than REPLICAS asks for"
NUMKEYS = "ERR numkeys is not an integer from 1 to 1024"
COUNT = "ERR count is not an integer or is negative"
DELAY = "ERR delay is not an integer, is negative or out of range"
EMPTY_ID = "ERR id is empty"
BY = "ERR by is not a positive integer or out of range"
NO_NUMBER = "ERR value is not an integer or out of range"
OWNER_LENGTH = "ERR owner must be 1 to 512 bytes long"
OWNER_RESERVED = "ERR owner is reserved: it may not be 'mode' and may not end in ':write'"
WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
# Each command with valid arguments, for the lock `k` that `o` holds. Add a row for a new command.
ACQUIRING = ["LOCK.ACQUIRE k o", "LOCK.FAIR k o", "LOCK.MACQUIRE 1 k o"]
WITH_BLOCK = [*ACQUIRING, "LOCK.WATCH k o"]
WITH_LEASE = [*ACQUIRING, "LOCK.RENEW k o", "LOCK.MRENEW 1 k o"]
WITH_OWNER = [*WITH_LEASE, "LOCK.WATCH k o", "LOCK.RELEASE k o", "LOCK.CANCEL k o", "LOCK.MRELEASE 1 k o"]
SEVERAL = ["LOCK.MACQUIRE 1 k o", "LOCK.MRELEASE 1 k o", "LOCK.MRENEW 1 k o"]
FIXED_LENGTH = ["LOCK.FORCE k"]
ALL = [*WITH_OWNER, "LOCK.FORCE k", "LOCK.INFO k"]
# The commands of the delayed queue in front of the list `k`, in which `i` is pending.
DELAYS = ["DELAY.PUSH k i 1 v", "DELAY.CANCEL k i", "DELAY.LIST k"]
# The commands of the latch `k`.
LATCHES = ["LATCH.SET k 1", "LATCH.DOWN k", "LATCH.WAIT k"]
NO_LEASE = {
    "zero": "0",
    "negative": "-1",
    "lowest": str(-(2**63)),
    "overflows": str(2**63 - 1),
    "too long": str(2**63),
    "much too long": "9" * 40,
    "fraction": "1.5",
    "exponent": "1e3",
    "hexadecimal": "0x10",
    "plus": "+1",
    "leading zero": "01",
    "junk": "x",
    "junk behind": "1000x",
    "unit behind": "10ms",
    "space before": " 1000",
    "space behind": "1000 ",
    "zero byte behind": "1000\0",
    "empty": "",
    "infinite": "inf",
}
NO_BLOCK = {name: value for name, value in NO_LEASE.items() if name != "zero"}
CONTRADICTORY = ["PX 1000 PX 1000", "EX 1 EX 1", "PX 1000 EX 1", "EX 1 PX 1000", "PX 1000 px 2000"]
CUT_SHORT = ["PX", "EX", "PX 1000 EX", "PX EX", "PX PX 1000"]
UNKNOWN = ["NX", "more", "1000", "PXX 1000", "P 1000", "PX\0 1000", "PX 1000 more", "COUNT 1", ""]
# Of REPLICAS n ms, before or after other options.
CUT_SHORT_REPLICAS = ["REPLICAS", "REPLICAS 1", "REPLICAS 1 5 5", "5 REPLICAS 1", "PX 1000 REPLICAS 1"]
TWICE_REPLICAS = ["REPLICAS 1 5 REPLICAS 1 5", "REPLICAS 1 5 PX 1000 replicas 2 5", "REPLICAS 0 5 REPLICAS 1 5"]
# The first error is replied: the option words are checked first, then their values from left to right.
BAD_BESIDE_REPLICAS = {
    "PX 0 REPLICAS 1 5": LEASE, "REPLICAS 1 5 PX 0": LEASE, "REPLICAS PX 5": REPLICAS, "REPLICAS 1 PX": REPLICAS_TIME,
    "REPLICAS 1 REPLICAS 5": REPLICAS_TIME, "REPLICAS 0 0": REPLICAS,
}  # fmt: skip
NO_OWNER = {
    "empty": (b"", OWNER_LENGTH),
    "513 bytes": (b"o" * 513, OWNER_LENGTH),
    "a megabyte": (b"o" * 2**20, OWNER_LENGTH),
    "mode": (b"mode", OWNER_RESERVED),
    "write field": (b"a:write", OWNER_RESERVED),
    "write field of nobody": (b":write", OWNER_RESERVED),
    "write field, binary": (b"\0:write", OWNER_RESERVED),
    "write field, longest": (b"o" * 506 + b":write", OWNER_RESERVED),
}
OTHER_TYPES = {
    "string": "SET k 1",
    "list": "RPUSH k o",
    "set": "SADD k o",
    "sorted set": "ZADD k 1 o",
    "stream": "XADD k 1-1 o 1",
}
