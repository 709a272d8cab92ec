"""All commands that are sent: the module's and the server's, as this server describes them, and those of neighbours.py."""

from grammar import Reader, malformed, weighted
from neighbours import GROUPS, left_out, neighbours
from words import keys_of

# Of a hundred commands: how many are the module's own, and how many are from neighbours.py; the rest are the server's others.
OWN, NEIGHBOURS = 70, 24
MALFORMED = 0.07

# The weights of the module's commands, if not 10.
WEIGHTS = {
    "lock.acquire": 25,
    "lock.fair": 20,
    "lock.release": 30,
    "lock.semaphore": 15,
    "lock.macquire": 15,
    "lock.force": 3,
    "lock.top": 1,
    "lock.info": 4,
    "delay.push": 6,
    "delay.cancel": 4,
    "delay.list": 2,
}

# The module's settings that exist for tests.
NOT_SET = {"lock.failpoint", "lock.allow-unload"}

# A key of each type that locks have, and of types that they do not have.
DUMPED = [
    "LOCK.ACQUIRE x o1 PX 1000000",
    "LOCK.RWREAD x o1 PX 1000000",
    "LOCK.SEMAPHORE x o1 3 PERMITS 2 PX 1000000",
    "HSET x mode semaphore o1 -1 o2 9223372036854775807",
    "HSET x mode read o1 1 o2:write 1",
    "ZADD x inf o1 -inf o2 1 mode 1 o1:write",
    "SET x 3",
    "RPUSH x a b",
    "SADD x a b",
    "XADD x 1-1 a b",
]


def commands_of(server):
    """The part that chooses one of all commands of this server."""
    call = server.actor(protocol=3).call
    docs = call("COMMAND", "DOCS")
    own = set(call("COMMAND", "LIST", "FILTERBY", "MODULE", "lock"))
    others = {name for name, entry in docs.items() if entry["group"] in GROUPS and not entry.get("subcommands")}

    def inner(rng, words):
        """A command as arguments of another one: of LOCK.GUARD, EVAL, ..."""
        if len(words) < 20:  # limits the nesting
            nested(rng, words)

    def weighted_commands(names, weights):
        read = {name: Reader(keys_of(name), inner).command(name, docs[name]) for name in sorted(names)}
        return malformed(weighted([(weights.get(name, 10), part) for name, part in read.items()]), MALFORMED)

    mine, theirs = weighted_commands(own, WEIGHTS), weighted_commands(others - own - left_out(server), {})
    hostile = weighted(neighbours(server, _dumps(server), _configs(server), inner))
    nested = weighted([(3, mine), (2, theirs)])
    return weighted([(OWN, mine), (NEIGHBOURS, hostile), (100 - OWN - NEIGHBOURS, theirs)])


def _configs(server):
    return sorted(name.encode() for name in server.control.config_get("lock.*") if name not in NOT_SET)


def _dumps(server):
    """The replies of DUMP for these keys, complete and truncated."""
    client, dumps = server.client(decode_responses=False), []
    for words in DUMPED:
        client.flushall()
        client.execute_command(*words.split())
        dumps.append(client.dump("x"))
    client.flushall()
    return dumps * 3 + [dump[: len(dump) // 2] for dump in dumps]
