"""What other clients may do. A line is a weight and a command; words in <> are chosen at random.

Left out, because they make a server itself fail, with or without a module:

- CLIENT NO-TOUCH while a client is blocked crashes Redis 8.0 and Valkey 8.1.
- MOVE and COPY to another database on Valkey 8.1, which then replicates from the wrong database: left out only there.
- RESTORE with a TTL whose end overflows: Valkey 8.1 aborts when it looks for expired keys. So TTLs are small here.
- MODULE UNLOAD: a server keeps pointers to the commands of a module that was unloaded.

Also left out: MIGRATE, SHUTDOWN, MONITOR, SUBSCRIBE and DEBUG, which would end the run or its replies. director.py does
what corresponds to them.
"""

import words as pools
from grammar import sequence, token, word

# Groups of the server's own commands, which are sent as COMMAND DOCS describes them.
GROUPS = {"generic", "string", "hash", "list", "set", "sorted-set"}
EXCLUDED = {"migrate", "wait", "waitaof", "restore", "restore-asking", "sort", "sort_ro"}

SCRIPT = "return redis.call(unpack(ARGV))"
TWICE = "redis.pcall(unpack(ARGV)); return redis.pcall(unpack(ARGV))"
LIBRARY = """#!lua name=fuzz
redis.register_function('call', function(keys, words) return redis.call(unpack(words)) end)"""

# Users with few permissions, to which connections switch by AUTH. All may use the commands that end a batch (batches.py).
NEEDED = "+auth +echo +client +discard +unwatch +select +reset +hello"
USERS = {
    "keys": f"on >secret resetkeys ~{{a}}* %R~lock:* +@all -@admin -@dangerous {NEEDED}",
    "reader": f"on >secret allkeys -@all +@read {NEEDED}",
    "locks": f"on >secret resetkeys ~a ~lock:* -@all +lock.acquire +lock.release +lock.guard +lock.watch +get {NEEDED}",
}

# Required by the commands below.
PREPARATIONS = [
    *(["ACL", "SETUSER", name, *rules.split()] for name, rules in USERS.items()),
    ["FUNCTION", "LOAD", "REPLACE", LIBRARY],
]

COMMANDS = """
15 SET <key> <value>
10 SET <any> <value> PX <ms>
60 DEL <any>
10 UNLINK <key> <any>
30 HSET <key> <field> <number>
10 HSET <any> <field> <number>
10 HSET <key> mode <mode>
20 HDEL <any> <field>
20 HINCRBY <any> <field> <number>
20 HPEXPIRE <key> <ms> FIELDS 1 <field>
10 HPERSIST <key> FIELDS 1 <field>
30 ZADD <side> <score> <field>
10 ZADD <any> <score> <field> <score> <field>
20 ZREM <side> <field>
10 ZINCRBY <side> <score> <field>
20 RENAME <any> <any>
20 COPY <any> <any> REPLACE
10 COPY <any> <any> DB <db> REPLACE
10 MOVE <any> <db>
20 RESTORE <any> <ttl> <dump> REPLACE
10 RESTORE <any> <unix-ms> <dump> REPLACE ABSTTL
20 PERSIST <any>
30 PEXPIRE <any> <ms>
10 PEXPIREAT <any> <unix-ms>
10 EXPIREAT <any> 1
10 LPUSH <any> <value>
10 LTRIM <any> 0 3
10 BLPOP <any> 0.01
2 FLUSHDB
1 FLUSHALL
1 FLUSHALL ASYNC
10 SWAPDB <db> <db>
15 SELECT <db>
60 SELECT 0
30 EVAL {script} 0 <command>
10 EVAL {twice} 0 <command>
10 EVAL_RO {script} 0 <command>
10 FCALL call 0 <command>
5 FUNCTION LOAD REPLACE {library}
2 FUNCTION FLUSH
2 SCRIPT FLUSH
40 LOCK.GUARD <lock> <owner> <command>
10 HELLO 3
10 HELLO 2
10 RESET
20 CLIENT TRACKING ON
5 CLIENT TRACKING ON BCAST
5 CLIENT TRACKING ON OPTIN
10 CLIENT CACHING YES
20 CLIENT TRACKING OFF
5 CLIENT NO-EVICT <on>
10 CLIENT REPLY OFF
10 CLIENT REPLY SKIP
20 CLIENT REPLY ON
3 CLIENT KILL USER <user>
2 CLIENT LIST
10 AUTH <user> secret
60 AUTH default secret
2 ACL DELUSER <user>
2 ACL SETUSER <user> resetkeys ~a
15 CONFIG SET <config> <setting>
1 CONFIG SET maxmemory <bytes>
3 CONFIG SET maxmemory-policy <policy>
3 CONFIG SET hz <hz>
1 CONFIG SET min-replicas-to-write <few>
3 CONFIG SET notify-keyspace-events <events>
3 CONFIG SET appendfsync <fsync>
5 COMMAND GETKEYS <command>
5 ACL DRYRUN <user> <command>
5 MEMORY USAGE <any>
1 INFO everything
"""


def _pools(dumps, configs):
    return {
        "key": pools.KEYS,
        "lock": pools.MAIN_KEYS,
        "side": pools.SIDE_KEYS,
        "any": pools.ANY_KEYS,
        "owner": pools.OWNERS,
        "field": pools.FIELDS,
        "number": pools.INTEGERS,
        "score": pools.SCORES,
        "ms": pools.MILLISECONDS,
        "unix-ms": pools.UNIX_TIMES,
        "value": pools.VALUES,
        "mode": [b"read", b"write", b"semaphore", b"exclusive", b""],
        "db": [b"0", b"1", b"2", b"15", b"16"],
        "on": [b"ON", b"OFF"],
        "user": [name.encode() for name in USERS],
        "config": configs,
        "setting": [b"yes", b"no"] * 20 + pools.MILLISECONDS,
        "bytes": [b"0", b"0", b"1", b"1mb", b"100mb"],
        "policy": [b"noeviction", b"allkeys-random", b"volatile-ttl", b"allkeys-lru"],
        "hz": [b"10", b"100", b"500"],
        "few": [b"0", b"1", b"1", b"2"],
        "events": [b"", b"KEA", b"KExg"],
        "fsync": [b"no", b"everysec", b"always"],
        "ttl": [b"0", b"1", b"1000", b"x"],
        "dump": dumps,
    }


def _wrong_on(server):
    return {"move", "copy"} if server.is_valkey and server.version < (9,) else set()


def left_out(server):
    """Commands of COMMAND DOCS that are not sent to this server."""
    return EXCLUDED | _wrong_on(server)


def neighbours(server, dumps, configs, inner):
    """[(weight, part)]: the commands above. `dumps` are replies of DUMP, `configs` the module's settings; `inner` chooses
    a command as arguments."""
    of_name = _pools(dumps, configs)
    scripts = {"{script}": SCRIPT, "{twice}": TWICE, "{library}": LIBRARY}

    def part_of(text):
        if text == "<command>":
            return inner
        return word(of_name[text[1:-1]]) if text.startswith("<") else token(scripts.get(text, text))

    lines = [line.split() for line in COMMANDS.strip().splitlines()]
    sent = [texts for texts in lines if texts[1].lower() not in _wrong_on(server)]
    return [(int(weight), sequence([part_of(text) for text in texts])) for weight, *texts in sent]
