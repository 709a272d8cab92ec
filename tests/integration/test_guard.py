"""LOCK.GUARD: a command that runs only under the lock, as the caller itself would have run it."""

import pytest
from redis.exceptions import ResponseError

from harness import code_of, scaled_ms, wait_for, wait_for_sync
from harness.aof import aof_of, commands_in
from harness.schedule import as_map
from test_acquire import HOUR
from test_multi_lua import each_way, in_multi

LEASE = scaled_ms(60)

HOLDS = {
    "plain": ("LOCK.ACQUIRE k o",),
    "fair": ("LOCK.FAIR k o",),
    "read": ("LOCK.RWREAD k o",),
    "one of two readers": ("LOCK.RWREAD k p", "LOCK.RWREAD k o"),
    "write": ("LOCK.RWWRITE k o",),
    "write and read": ("LOCK.RWWRITE k o", "LOCK.RWREAD k o"),
    "downgraded": ("LOCK.RWWRITE k o", "LOCK.RWREAD k o", "LOCK.RELEASE k o WRITE"),
    "one of two left": ("LOCK.ACQUIRE k o", "LOCK.ACQUIRE k o", "LOCK.RELEASE k o"),
    "fenced": ("LOCK.ACQUIRE k o FENCED",),
    "written by hand": ("HSET k o 1",),
    "renewed": ("LOCK.ACQUIRE k o", "LOCK.RENEW k o PX 600000"),
}

NO_HOLDS = {
    "free": (),
    "another's": ("LOCK.ACQUIRE k p",),
    "another's fair": ("LOCK.FAIR k p",),
    "another's read": ("LOCK.RWREAD k p",),
    "another's write": ("LOCK.RWWRITE k p",),
    "given back": ("LOCK.ACQUIRE k o", "LOCK.RELEASE k o"),
    "read given back, another reads": ("LOCK.RWREAD k o", "LOCK.RWREAD k p", "LOCK.RELEASE k o"),
    "forced": ("LOCK.ACQUIRE k o", "LOCK.FORCE k"),
    "deleted": ("LOCK.ACQUIRE k o", "DEL k"),
    "renamed": ("LOCK.ACQUIRE k o", "RENAME k l"),
    "flushed": ("LOCK.ACQUIRE k o", "FLUSHALL"),
    "forced, then another's": ("LOCK.ACQUIRE k o", "LOCK.FORCE k", "LOCK.ACQUIRE k p"),
    "foreign hash": ("HSET k mode read x y",),
    "foreign hash with the owner in it": ("HSET k o 1 x y z 1",),
    "only its token is left": ("LOCK.ACQUIRE k o FENCED", "DEL k"),
}


def say(client, *commands):
    for command in commands:
        client.execute_command(*command.split())


def hold(server, *commands, db=0):
    say(server.client(db=db), *(commands or ("LOCK.ACQUIRE k o PX 600000",)))


def guard(client, *command, owner="o", key="k"):
    return client.execute_command("LOCK.GUARD", key, owner, *command)


# Held or not


@pytest.mark.parametrize("commands", HOLDS.values(), ids=HOLDS)
def test_runs_for_a_holder(client, commands):
    say(client, *commands)
    assert guard(client, "SET", "x", "1") in ("OK", True)
    assert guard(client, "INCR", "x") == 2
    assert client.get("x") == "2"


@pytest.mark.parametrize("commands", NO_HOLDS.values(), ids=NO_HOLDS)
def test_runs_nothing_for_whoever_holds_nothing(client, server, commands):
    say(client, *commands)
    before = server.dump()
    for inner in (("SET", "x", "1"), ("GET", "x"), ("NO.SUCH",), ("LOCK.ACQUIRE", "k", "o"), ("FLUSHALL",)):
        with pytest.raises(ResponseError, match="^NOTHELD "):
            guard(client, *inner)
    assert server.dump() == before


def test_runs_nothing_when_the_lease_has_ended(server, client):
    # Nobody has deleted the key yet: the command itself has to look at the clock.
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    client.execute_command("LOCK.ACQUIRE", "k", "o", "PX", LEASE)
    end = client.execute_command("PEXPIRETIME", "k")
    assert guard(client, "SET", "x", "1")
    wait_for(lambda: server.now_ms() > end, what="the lease to end")
    with pytest.raises(ResponseError, match="^NOTHELD "):
        guard(client, "SET", "x", "2")
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 1)
    assert client.get("x") == "1"


@pytest.mark.parametrize("mode", ["LOCK.RWREAD", "LOCK.RWWRITE"])
def test_runs_nothing_when_its_own_lease_has_ended_and_the_key_lives_on(server, client, mode):
    """A reader's lease is not the key's; a write's own ends, its owner's read stays."""
    client.execute_command("LOCK.RWREAD", "k", "p", "PX", HOUR)
    client.execute_command("LOCK.RWREAD", "k", "o", "PX", LEASE)
    guard(client, "SET", "x", "1")
    end = server.now_ms() + LEASE
    wait_for(lambda: server.now_ms() > end, what="the lease to end")
    with pytest.raises(ResponseError, match="^NOTHELD "):
        guard(client, "SET", "x", "2")
    assert guard(client, "GET", "x", owner="p") == "1"


def test_waiter_that_was_granted_may_and_the_one_before_may_not(server, client, actor):
    client.execute_command("LOCK.ACQUIRE", "k", "o", "PX", LEASE)
    waiter = actor("w")
    waiter.send("LOCK.ACQUIRE", "k", "w", "BLOCK", 0)
    assert waiter.reply() == 1
    assert waiter.call("LOCK.GUARD", "k", "w", "SET", "x", "w") == "OK"
    with pytest.raises(ResponseError, match="^NOTHELD "):
        guard(client, "SET", "x", "o")
    assert client.get("x") == "w"


def test_waiting_is_not_holding(client, actor):
    client.execute_command("LOCK.ACQUIRE", "k", "p")
    waiter = actor()
    waiter.send("LOCK.FAIR", "k", "o", "BLOCK", 0)
    waiter.wait_blocked()
    with pytest.raises(ResponseError, match="^NOTHELD "):
        guard(client, "SET", "x", "1")


@pytest.mark.parametrize("other", ["SET k x", "RPUSH k x", "ZADD k 1 o"])
def test_key_that_is_no_lock(client, server, other):
    client.execute_command(*other.split())
    before = server.dump()
    with pytest.raises(ResponseError, match="^WRONGTYPE "):
        guard(client, "SET", "x", "1")
    assert server.dump() == before


def test_neither_lease_nor_hold_count_nor_watchers_notice(client, server, actor):
    hold(server)
    watcher = actor()
    watcher.call("WATCH", "k")
    before = server.dump()
    guard(client, "GET", "x")
    guard(client, "HGETALL", "k")
    assert server.dump() == before
    assert in_multi(watcher, "ECHO done") == ["done"]


SYNTAX = {
    "no arguments": "LOCK.GUARD",
    "no owner": "LOCK.GUARD k",
    "no command": "LOCK.GUARD k o",
    "reserved owner": "LOCK.GUARD k mode SET x 1",
    "reserved ending": "LOCK.GUARD k o:write SET x 1",
    "owner too long": f"LOCK.GUARD k {'o' * 513} SET x 1",
}


@pytest.mark.parametrize("command", SYNTAX.values(), ids=SYNTAX)
def test_syntax(client, server, command):
    hold(server, "LOCK.RWWRITE k o")
    before = server.dump()
    with pytest.raises(ResponseError, match="^ERR "):
        client.execute_command(*command.split())
    assert server.dump() == before


def test_binary_names_and_arguments(server):
    client = server.client(decode_responses=False)
    key, owner, value = b"\x00k\r\n\xff", b"o\x00\xfe", bytes(range(256))
    client.execute_command("LOCK.ACQUIRE", key, owner)
    assert client.execute_command("LOCK.GUARD", key, owner, "SET", b"x\x00", value) == b"OK"
    assert client.execute_command("LOCK.GUARD", key, owner, "GET", b"x\x00") == value
    assert client.get(b"x\x00") == value


# The inner command's reply

DATA = (
    "SET s v", "SET n 5", "RPUSH l a b c", "HSET h a 1 b 2", "SADD st a", "ZADD z 1.5 a 2 b", "XADD x 1-1 f v",
    "GEOADD g 13.361389 38.115556 p", "PFADD hll a b",
)  # fmt: skip

REPLIES = (
    "GET s", "GET none", "SET s2 v", "SET s v NX", "SET n 7 GET", "INCR n", "INCRBYFLOAT n 0.5", "EXISTS s none",
    "LRANGE l 0 -1", "LRANGE none 0 -1", "LPOP none", "LPOP none 2", "MGET s none n", "HGETALL h", "HGETALL none",
    "HRANDFIELD h 2 WITHVALUES", "SMEMBERS st", "ZSCORE z a", "ZSCORE z none", "ZRANGE z 0 -1 WITHSCORES",
    "ZINCRBY z 0.25 a", "ZMSCORE z a none", "ZRANK z none", "XRANGE x - +", "XINFO STREAM x", "XREAD STREAMS x 0",
    "GEOPOS g p none", "GEODIST g p p", "PFCOUNT hll", "TYPE s", "PTTL none", "DBSIZE", "PING", "PING hello",
    "ECHO a", "COMMAND COUNT", "COMMAND GETKEYS SET a b", "CONFIG GET maxmemory", "OBJECT ENCODING s", "TTL s",
    "MEMORY USAGE none", "LOCK.INFO none", "SORT l ALPHA", "COPY s s3", "SCAN 0 COUNT 100 MATCH s2", "ACL WHOAMI",
    "XPENDING x nogroup", "INCR s", "GET", "GET a b c", "NO.SUCH a", "LPUSH s a", "CONFIG SET none 1", "LOCK.RELEASE none o",
    "HSET h a", "EXPIRE s abc", "XADD x 0-0 f v", "SET s v EX 0", "SINTERCARD 0 a", "RENAME none s", "LPOS l b", "LPOS l zz",
    "LMPOP 1 l LEFT", "LMPOP 1 none LEFT", "ZMPOP 1 z MIN", "HELLO 9", "SPOP none", "DUMP none", "SUBSTR s 0 0",
)  # fmt: skip


def bytes_of(sock, *words):
    """The reply to a command, as it came."""
    sock.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in map(str.encode, words)))
    sock.sendall(b"*2\r\n$4\r\nECHO\r\n$8\r\n--end---\r\n")
    heard = b""
    while not heard.endswith(b"$8\r\n--end---\r\n"):
        more = sock.recv(65536)
        assert more, f"cut off after {heard!r}"
        heard += more
    return heard.removesuffix(b"$8\r\n--end---\r\n")


def prepare(server):
    server.control.flushall()
    say(server.control, *DATA, "LOCK.ACQUIRE k o PX 600000")


NOT_IN_SCRIPTS = ("HELLO 9", "CONFIG GET maxmemory", "CONFIG SET none 1", "ACL WHOAMI")


@pytest.mark.parametrize("inner", [inner for inner in REPLIES if inner not in NOT_IN_SCRIPTS])
def test_reply_is_the_inner_commands_own(server, resp, inner):
    """To the byte: as without the guard, after the same."""
    sock = server.raw_connection()
    bytes_of(sock, "HELLO", str(resp))
    prepare(server)
    plain = bytes_of(sock, *inner.split())
    prepare(server)
    guarded = bytes_of(sock, "LOCK.GUARD", "k", "o", *inner.split())
    if plain.startswith(b"-"):
        assert same_error(guarded, plain), (guarded, plain)
    else:
        assert guarded == plain


def same_error(guarded, plain):
    """The same code. How servers word an unknown command and a wrong arity differs by the caller."""
    return guarded.startswith(b"-") and guarded.split(b" ")[0] == plain.split(b" ")[0] and guarded.count(b"\r\n") == 1


def test_large_replies_pass(client, server):
    hold(server)
    client.set("big", "x" * 5_000_000)
    client.rpush("l", *range(20_000))
    assert guard(client, "GET", "big") == "x" * 5_000_000
    assert guard(client, "LRANGE", "l", 0, -1) == [str(n) for n in range(20_000)]


def test_inner_error_changes_nothing_and_the_lock_stays(client, server):
    hold(server)
    client.set("s", "v")
    before = server.dump()
    with pytest.raises(ResponseError, match="not an integer"):
        guard(client, "INCR", "s")
    with pytest.raises(ResponseError, match="^WRONGTYPE "):
        guard(client, "LPUSH", "s", "a")
    assert server.dump() == before
    assert guard(client, "GET", "s") == "v"


# Commands that are not for scripts

REFUSED = (
    "MULTI", "EXEC", "DISCARD", "WATCH x", "UNWATCH", "SUBSCRIBE c", "PSUBSCRIBE c", "SSUBSCRIBE c", "UNSUBSCRIBE c",
    "MONITOR", "EVAL return{1} 0", "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0", "FCALL f 0", "CLIENT ID",
    "CLIENT REPLY OFF", "CLIENT PAUSE 1000 ALL", "CLIENT KILL TYPE normal SKIPME no", "CONFIG SET maxmemory 1", "AUTH x",
    "HELLO 3", "RESET", "QUIT", "SHUTDOWN NOSAVE", "DEBUG SLEEP 0", "SYNC", "PSYNC ? -1", "REPLCONF listening-port 1",
    "SAVE", "BGSAVE", "BGREWRITEAOF", "REPLICAOF NO ONE", "FAILOVER", "ACL WHOAMI", "SCRIPT FLUSH", "FUNCTION FLUSH",
    "MIGRATE 127.0.0.1 1 x 0 1000", "ASKING", "READONLY", "CLUSTER INFO", "SLOWLOG GET",
    "WAIT 0 0", "WAIT 1 0",
)  # fmt: skip


@pytest.mark.parametrize("inner", REFUSED)
def test_command_that_is_not_for_scripts_is_refused(server, resp, actor, inner):
    # In a script is the measure: what a server lets a script do differs (CLUSTER, SLOWLOG, …).
    hold(server)
    client, other = actor(), actor()
    script = "local r = redis.pcall(unpack(ARGV)) if type(r) == 'table' and r.err then return r end return 1"
    in_script = other.attempt("EVAL", script, 0, *inner.split())
    heard = client.attempt("LOCK.GUARD", "k", "o", *inner.split())
    if isinstance(in_script, ResponseError):
        assert isinstance(heard, ResponseError), f"{inner} was run: {heard!r}"
    else:
        pytest.skip("this server lets a script do it")
    assert client.call("PING") == "PONG"
    assert client.call("LOCK.GUARD", "k", "o", "SET", "x", "1") == "OK"
    assert client.call("GET", "x") == "1"
    assert client.call("CLIENT", "ID") == client.client_id


NESTED = ("LOCK.GUARD", "lock.guard", "Lock.GuarD")


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("key", ["k", "l"])
def test_does_not_run_inside_itself(client, server, name, key):
    hold(server, "LOCK.ACQUIRE k o", "LOCK.ACQUIRE l o")
    before = server.dump()
    with pytest.raises(ResponseError, match="^ERR "):
        guard(client, name, key, "o", "SET", "x", "1")
    with pytest.raises(ResponseError):
        guard(client, name)
    assert server.dump() == before
    assert guard(client, "SET", "x", "1")


# Commands that block act as in MULTI

BLOCKING = (
    "BLPOP none 0", "BRPOP none 0", "BLMOVE none x LEFT LEFT 0", "BLMPOP 0 1 none LEFT", "BZPOPMIN none 0",
    "BZMPOP 0 1 none MIN", "BRPOPLPUSH none x 0", "XREAD BLOCK 0 STREAMS none $", "LOCK.ACQUIRE other me BLOCK 0",
    "LOCK.FAIR other me BLOCK 0", "LOCK.RWREAD other me BLOCK 0", "LOCK.RWWRITE other me BLOCK 100000 FENCED",
    "LOCK.ACQUIRE k me BLOCK 0", "LOCK.FAIR free me BLOCK 0", "LOCK.ACQUIRE free me BLOCK 0",
)  # fmt: skip


@pytest.mark.parametrize("inner", BLOCKING)
def test_command_that_would_block_does_what_it_does_in_multi(server, resp, actor, inner):
    hold(server, "LOCK.ACQUIRE k o PX 600000", "LOCK.ACQUIRE other p PX 600000")
    [in_transaction] = in_multi(actor(), inner)
    server.control.delete("free")
    client = actor()
    heard = client.attempt("LOCK.GUARD", "k", "o", *inner.split())
    assert heard == in_transaction
    assert server.blocked_clients() == 0
    assert server.info("lock")["lock_waiters"] == 0
    assert client.call("PING") == "PONG"


def test_blocking_command_that_finds_something_takes_it(server, resp, actor):
    hold(server)
    server.control.rpush("l", "a")
    assert actor().call("LOCK.GUARD", "k", "o", "BLPOP", "l", 0) == ["l", "a"]
    assert server.control.exists("l") == 0


# The caller's own permissions


@pytest.fixture
def as_user(server, resp):
    """as_user("+get", "~x"): a client of a user with these rules only."""

    def become(*rules):
        server.control.execute_command("ACL", "SETUSER", "u", "reset", "on", "nopass", *rules)
        return server.client(resp, username="u", password="any")

    return become


# Redis 7.0 gives refusals of commands inside modules and scripts another text.
DENIED = "NOPERM|permission|acl verification failed"


def refuses(client, *inner, key="k"):
    with pytest.raises(ResponseError, match=DENIED):
        guard(client, *inner, key=key)
    return True


def test_user_without_the_inner_command(server, as_user):
    hold(server)
    client = as_user("+lock.guard", "+get", "~*")
    assert guard(client, "GET", "x") is None
    assert refuses(client, "SET", "x", "1")
    assert refuses(client, "set", "x", "1")
    assert refuses(client, "FLUSHALL")
    assert refuses(client, "LOCK.FORCE", "k")
    assert server.control.exists("x") == 0
    assert server.control.hgetall("k") == {"o": "1"}


def test_user_without_the_guard(server, as_user):
    hold(server)
    client = as_user("+@all", "-lock.guard", "~*")
    with pytest.raises(ResponseError, match="^NOPERM "):
        guard(client, "SET", "x", "1")
    assert client.set("x", "1")


def test_user_of_other_keys(server, as_user):
    hold(server)
    client = as_user("+lock.guard", "+set", "+mset", "+get", "+zunionstore", "+eval", "~k", "~mine:*")
    assert guard(client, "SET", "mine:x", "1")
    assert refuses(client, "SET", "x", "1")
    assert refuses(client, "GET", "x")
    assert refuses(client, "MSET", "mine:x", "2", "x", "2")
    assert refuses(client, "ZUNIONSTORE", "mine:z", 2, "mine:x", "x")
    assert server.control.mget("mine:x", "x") == ["1", None]


def test_user_of_keys_but_not_of_the_lock(server, as_user):
    hold(server, "LOCK.ACQUIRE k o", "LOCK.ACQUIRE mine:k o")
    client = as_user("+lock.guard", "+set", "~mine:*")
    assert refuses(client, "SET", "mine:x", "1")
    assert server.control.exists("mine:x") == 0
    assert guard(client, "SET", "mine:x", "1", key="mine:k")


def test_user_who_may_only_read_the_lock(server, as_user):
    hold(server)
    client = as_user("+lock.guard", "+set", "+get", "+del", "+lock.acquire", "%R~k", "%W~x")
    assert guard(client, "SET", "x", "1")
    assert refuses(client, "GET", "x")
    assert refuses(client, "DEL", "k")
    assert refuses(client, "LOCK.ACQUIRE", "k", "o")
    assert server.control.get("x") == "1"


def test_user_of_other_channels(server, as_user):
    hold(server)
    client = as_user("+lock.guard", "+publish", "~*", "resetchannels", "&mine")
    assert guard(client, "PUBLISH", "mine", "1") == 0
    assert refuses(client, "PUBLISH", "other", "1")


def test_user_of_a_subcommand(server, as_user):
    hold(server)
    client = as_user("+lock.guard", "+object|encoding", "~*")
    server.control.set("x", "y")
    assert guard(client, "OBJECT", "ENCODING", "x") == "embstr"
    assert refuses(client, "OBJECT", "FREQ", "x")


def test_user_whose_rights_go_loses_them_under_the_guard(server, as_user):
    hold(server)
    client = as_user("+lock.guard", "+set", "~*")
    assert guard(client, "SET", "x", "1")
    server.control.execute_command("ACL", "SETUSER", "u", "-set")
    assert refuses(client, "SET", "x", "2")


def test_in_lua_the_callers_permissions_count_too(server, as_user):
    hold(server)
    client = as_user("+lock.guard", "+eval", "~*")
    with pytest.raises(ResponseError, match=DENIED):
        client.eval("return redis.call('LOCK.GUARD', 'k', 'o', 'SET', 'x', '1')", 1, "k")
    assert server.control.exists("x") == 0


# Which keys

KEYS = {
    "LOCK.GUARD k o SET x 1": ["k", "x"],
    "LOCK.GUARD k o MSET a 1 b 2 c 3": ["k", "a", "b", "c"],
    "LOCK.GUARD k o GET x": ["k", "x"],
    "LOCK.GUARD k o DEL k": ["k", "k"],
    "LOCK.GUARD k o ZUNIONSTORE d 2 a b WEIGHTS 1 2": ["k", "d", "a", "b"],
    "LOCK.GUARD k o EVAL return 2 a b c": ["k", "a", "b"],
    "LOCK.GUARD k o SORT a STORE d": ["k", "a", "d"],
    "LOCK.GUARD k o XREAD COUNT 2 STREAMS a b 0 0": ["k", "a", "b"],
    "LOCK.GUARD k o BITOP AND d a b": ["k", "d", "a", "b"],
    "LOCK.GUARD k o PING": ["k"],
    "LOCK.GUARD k o LOCK.ACQUIRE l o BLOCK 0": ["k", "l"],
    "LOCK.GUARD k o OBJECT ENCODING x": ["k", "x"],
    "LOCK.GUARD k o NO.SUCH x": ["k"],
    "LOCK.GUARD k o GET": ["k"],
    "lock.guard k o set x 1": ["k", "x"],
}


@pytest.mark.parametrize("command", KEYS)
def test_command_getkeys(client, command):
    # Servers name ZUNIONSTORE's keys in their own order.
    assert sorted(client.execute_command("COMMAND GETKEYS", *command.split())) == sorted(KEYS[command])


def test_command_getkeys_with_many_keys(client):
    words = [word for n in range(2000) for word in (f"x{n}", "1")]
    keys = client.execute_command("COMMAND GETKEYS", "LOCK.GUARD", "k", "o", "MSET", *words)
    assert keys == ["k", *words[::2]]


def test_command_getkeysandflags_tells_who_reads_and_who_writes(client):
    found = client.execute_command("COMMAND GETKEYSANDFLAGS", "LOCK.GUARD", "k", "o", "SET", "x", "1")
    assert [key for key, _ in found] == ["k", "x"]
    assert "RO" in found[0][1] and "OW" in found[1][1]


@pytest.fixture
def cluster(make_server):
    server = make_server(cluster_enabled="yes")
    server.control.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    wait_for(lambda: "cluster_state:ok" in server.actor().call("CLUSTER", "INFO"), 20, "the cluster to be up")
    return server


def test_keys_of_one_slot_in_a_cluster(cluster):
    client = cluster.actor()
    client.call("LOCK.ACQUIRE", "{t}k", "o")
    assert client.call("LOCK.GUARD", "{t}k", "o", "SET", "{t}x", "1") == "OK"
    assert client.call("LOCK.GUARD", "{t}k", "o", "PING") == "PONG"
    for inner in (("SET", "{other}x", "1"), ("MSET", "{t}x", "2", "{other}x", "2"), ("GET", "{other}x")):
        assert code_of(client.attempt("LOCK.GUARD", "{t}k", "o", *inner)) == "CROSSSLOT"
    assert client.call("GET", "{t}x") == "1"
    assert client.call("DBSIZE") == 2


def test_key_of_another_nodes_slot_is_moved(cluster):
    client = cluster.actor()
    slot = client.call("CLUSTER", "KEYSLOT", "k")
    client.call("CLUSTER", "DELSLOTS", slot)
    cluster.control.config_set("cluster-require-full-coverage", "no")
    wait_for(lambda: "cluster_state:ok" in client.call("CLUSTER", "INFO"), 20, "the cluster to be up")
    assert code_of(client.attempt("LOCK.GUARD", "k", "o", "PING")) == "CLUSTERDOWN"


# Replication


def test_replicated_as_the_inner_command(make_server):
    server = make_server(appendonly="yes", aof_use_rdb_preamble="no")
    replica = server.start_replica()
    hold(server, "LOCK.ACQUIRE k o PX 600000")
    client = server.client()
    guard(client, "SET", "x", "1")
    guard(client, "SET", "y", "1", "PX", HOUR)
    guard(client, "SPOP", "none")
    guard(client, "GET", "x")
    guard(client, "MSET", "a", 1, "b", 2)
    guard(client, "XADD", "s", "*", "f", "v")
    with pytest.raises(ResponseError):
        guard(client, "SET", "x", "2", owner="p")
    with pytest.raises(ResponseError):
        guard(client, "LPUSH", "x", "2")
    wait_for_sync(server, replica)
    before = server.dump()
    assert replica.dump() == before
    written = commands_in(aof_of(server))
    names = [words[0].upper() for words in written]
    assert not [name for name in names if name.startswith("LOCK.")]
    assert names.count("SET") == 2 and ["SET", "x", "1"] in written and ["MSET", "a", "1", "b", "2"] in written
    assert {"GET", "LPUSH", "SPOP"}.isdisjoint(names)
    server.kill()
    server.start()
    assert server.dump() == before


def test_random_effects_are_the_same_on_the_replica(server):
    replica = server.start_replica()
    hold(server)
    client = server.client()
    client.sadd("st", *range(100))
    popped = {guard(client, "SPOP", "st") for _ in range(50)}
    client.rpush("l", "a")
    guard(client, "EXPIRE", "l", 1000)
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()
    assert popped.isdisjoint(client.smembers("st"))


def test_in_another_database(server, resp):
    hold(server, "LOCK.ACQUIRE k o PX 600000", db=5)
    client = server.client(resp, db=5)
    assert guard(client, "SET", "x", "5") in ("OK", True)
    with pytest.raises(ResponseError, match="^NOTHELD "):
        guard(server.client(resp), "SET", "x", "0")
    assert {key for key in server.dump()} == {(5, b"k"), (5, b"x")}
    replica = server.start_replica()
    guard(client, "SET", "x", "6")
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()


def test_select_inside_does_not_stay(server, actor):
    """As in a module's call; whether it may be said at all is the server's matter."""
    hold(server)
    client = actor()
    client.attempt("LOCK.GUARD", "k", "o", "SELECT", 3)
    assert client.call("LOCK.GUARD", "k", "o", "SET", "x", "1") == "OK"
    assert (0, b"x") in server.dump()


# Refusals of the server


def test_oom_is_passed_on(client, server):
    hold(server)
    client.set("x", "1")
    client.config_set("maxmemory", 1)
    with pytest.raises(ResponseError, match="^OOM "):
        guard(client, "SET", "x", "2")
    assert guard(client, "GET", "x") == "1"
    assert guard(client, "DEL", "x") == 1
    assert guard(client, "LOCK.RELEASE", "k", "o") == 0


def test_readonly_on_a_replica(server, resp):
    hold(server)
    replica = server.start_replica()
    client = replica.client(resp)
    for inner in (("SET", "x", "1"), ("GET", "x")):
        with pytest.raises(ResponseError, match="^READONLY "):
            guard(client, *inner)
    assert replica.dump() == server.dump()


def test_noreplicas_is_passed_on(client, server):
    hold(server)
    client.config_set("min-replicas-to-write", 100)
    with pytest.raises(ResponseError, match="^NOREPLICAS "):
        guard(client, "SET", "x", "1")
    client.config_set("min-replicas-to-write", 0)
    assert client.exists("x") == 0


def test_pause_of_writes_holds_it_back(server, actor):
    hold(server)
    client = actor()
    server.control.execute_command("CLIENT", "PAUSE", 600_000, "WRITE")
    client.send("LOCK.GUARD", "k", "o", "SET", "x", "1")
    wait_for(lambda: server.info("clients")["blocked_clients"] == 1, what="the client to be held back")
    assert server.control.exists("x") == 0
    server.control.execute_command("CLIENT", "UNPAUSE")
    assert client.reply() == "OK"


# Commands of locks, inside


def test_release_of_its_own_lock_hands_it_on(server, client, actor):
    replica = server.start_replica()
    hold(server)
    one, two = actor("a"), actor("b")
    for waiter, owner in ((one, "a"), (two, "b")):
        waiter.send("LOCK.ACQUIRE", "k", owner, "PX", HOUR, "BLOCK", 0)
        waiter.wait_blocked()
    assert guard(client, "LOCK.RELEASE", "k", "o") == 0
    assert one.reply() == 1
    assert guard(client, "LOCK.FORCE", "k", owner="a") == 1
    assert two.reply() == 1
    assert guard(client, "LOCK.ACQUIRE", "k", "b", owner="b") == 2
    assert guard(client, "LOCK.RENEW", "k", "b", "PX", HOUR, owner="b") == 2
    assert guard(client, "DEL", "k", owner="b") == 1
    with pytest.raises(ResponseError, match="^NOTHELD "):
        guard(client, "SET", "x", 1, owner="b")
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()


def test_info_inside_and_fenced_inside(client, server):
    hold(server)
    found = as_map(guard(client, "LOCK.INFO", "k"))
    assert found["mode"] == "exclusive"
    assert guard(client, "LOCK.ACQUIRE", "l", "o", "FENCED") > 10**15


# MULTI and Lua


@each_way
def test_in_multi_and_lua(server, resp, actor, say):
    replica = server.start_replica()
    heard = say(
        actor(), "LOCK.ACQUIRE k o PX 600000", "LOCK.GUARD k o SET x 1", "LOCK.GUARD k o INCR x",
        "LOCK.GUARD k o LOCK.RELEASE k o", "SET behind 1",
    )  # fmt: skip
    assert heard == [1, "OK", 2, 0, "OK"]
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()
    assert server.control.mget("x", "behind") == ["2", "1"]


def test_not_held_in_multi_and_lua(server, resp, actor):
    [heard, rest] = in_multi(actor(), "LOCK.GUARD k o SET x 1", "ECHO rest")
    assert code_of(heard) == "NOTHELD" and rest == "rest"
    heard = actor().attempt("EVAL", "return redis.pcall('LOCK.GUARD', KEYS[1], 'o', 'SET', 'x', '1')", 1, "k")
    assert code_of(heard) == "NOTHELD"
    assert server.control.exists("x") == 0


@pytest.mark.parametrize("inner", ["MULTI", "EXEC", "DISCARD", "SUBSCRIBE c", "LOCK.GUARD k o SET x 1"])
def test_refusal_in_multi_leaves_the_transaction_whole(server, resp, actor, inner):
    hold(server)
    client = actor()
    [heard, rest] = in_multi(client, f"LOCK.GUARD k o {inner}", "SET x rest")
    assert isinstance(heard, ResponseError) and rest == "OK"
    assert client.call("PING") == "PONG"


def test_read_only_script_may_not_write_by_it(server, actor):
    hold(server)
    script = "return redis.call('LOCK.GUARD', KEYS[1], 'o', 'SET', 'x', '1')"
    assert code_of(actor().attempt("EVAL_RO", script, 1, "k")) == "ERR"
    assert server.control.exists("x") == 0


def test_lua_after_a_refusal_may_guard_again(server, resp, actor):
    hold(server)
    script = """
        local bad = redis.pcall('LOCK.GUARD', KEYS[1], 'o', 'LOCK.GUARD', KEYS[1], 'o', 'SET', 'x', '1')
        local good = redis.call('LOCK.GUARD', KEYS[1], 'o', 'SET', 'x', '2')
        return {bad.err and 1 or 0, good.ok}"""
    assert actor().call("EVAL", script, 1, "k") == [1, "OK"]
