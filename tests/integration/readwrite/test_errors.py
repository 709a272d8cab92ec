"""Readers and writers that are refused: bad arguments, other types, no memory, replicas, MULTI, Lua, a cluster; and
LOCK.INFO of read-write locks, on replicas too."""

import pytest
from redis.exceptions import ResponseError

from harness import code_of, scaled_ms, wait_for, wait_for_sync
from harness.schedule import as_map

HOUR = 3_600_000
COMMANDS = ("LOCK.RWREAD", "LOCK.RWWRITE")
each_command = pytest.mark.parametrize("command", COMMANDS)


def assert_refused(server, client, words, code, text=""):
    before = server.dump()
    with pytest.raises(ResponseError, match=f"^{code} .*{text}"):
        client.execute_command(*words)
    assert server.dump() == before


# Arguments

BAD = {
    "no owner": ("k",),
    "empty owner": ("k", ""),
    "owner too long": ("k", "x" * 513),
    "owner mode": ("k", "mode"),
    "owner of a write field": ("k", "a:write"),
    "unknown option": ("k", "a", "PY", "1"),
    "an option of RELEASE": ("k", "a", "READ"),
    "lease 0": ("k", "a", "PX", "0"),
    "lease below 0": ("k", "a", "EX", "-1"),
    "lease that overflows": ("k", "a", "PX", str(2**63 - 1)),
    "seconds that overflow": ("k", "a", "EX", str(2**63 // 1000)),
    "no lease": ("k", "a", "PX"),
    "lease twice": ("k", "a", "PX", "1", "EX", "1"),
    "no number": ("k", "a", "PX", "1x"),
    "block below 0": ("k", "a", "BLOCK", "-1"),
    "block twice": ("k", "a", "BLOCK", "0", "BLOCK", "0"),
    "block that overflows": ("k", "a", "BLOCK", str(2**63 - 1)),
}


@pytest.mark.parametrize("held", [False, True], ids=["free", "held"])
@pytest.mark.parametrize("words", BAD.values(), ids=BAD)
@each_command
def test_bad_arguments_are_refused(server, some_client, command, words, held):
    if held:
        some_client.execute_command(command, "k", "a", "PX", HOUR)
    assert_refused(server, some_client, (command, *words), "ERR")


def test_readers_have_no_token(server, client):
    assert_refused(server, client, ("LOCK.RWREAD", "k", "a", "FENCED"), "ERR")


@each_command
def test_options_may_be_in_any_order_and_case(client, command):
    assert client.execute_command(command.lower(), "k", "a", "bLock", 0, "eX", 60) == 1
    assert 50_000 < client.pttl("k") <= 60_000


NAMES = {
    "zeros": b"\0\0",
    "line ends": b"\r\n",
    "all bytes": bytes(range(256)),
    "like the field": b"mode:",
    "long": b"x" * 512,
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_names_may_be_any_bytes(server, name):
    client = server.client(decode_responses=False)
    assert client.execute_command("LOCK.RWWRITE", name, name) == 1
    assert client.execute_command("LOCK.RWREAD", name, name) == 1
    assert client.hgetall(name) == {b"mode": b"write", name + b":write": b"1", name: b"1"}
    assert client.execute_command("LOCK.RENEW", name, name) == 2
    assert client.execute_command("LOCK.RELEASE", name, name, "WRITE") == 0
    assert client.execute_command("LOCK.RELEASE", name, name) == 0
    assert client.dbsize() == 0


# States in which nothing may be written


@each_command
@pytest.mark.parametrize("make", ["SET k x", "RPUSH k x", "ZADD k 1 x", "SADD k x"])
def test_key_of_another_type_is_refused(server, some_client, command, make):
    some_client.execute_command(*make.split())
    for words in ((command, "k", "a"), (command, "k", "a", "BLOCK", 0), ("LOCK.RELEASE", "k", "a", "READ")):
        assert_refused(server, some_client, words, "WRONGTYPE")


@each_command
def test_without_memory_acquiring_is_refused_and_releasing_is_not(server, actor, command):
    server.control.execute_command(command, "k", "a", "PX", HOUR)
    a, waiter = actor("a"), actor("waiter")
    if command == "LOCK.RWWRITE":
        waiter.send("LOCK.RWREAD", "k", "w", "BLOCK", 0)
        waiter.wait_blocked()
    server.control.config_set("maxmemory-policy", "noeviction")
    server.control.config_set("maxmemory", 1)
    for words in ((command, "free", "a"), (command, "k", "a"), (command, "k", "b", "BLOCK", 0)):
        assert code_of(a.attempt(*words)) == "OOM"
    assert a.call("LOCK.RENEW", "k", "a", "PX", HOUR) == 1
    assert a.call("LOCK.RELEASE", "k", "a") == 0
    if command == "LOCK.RWWRITE":
        assert waiter.reply() == 1


@each_command
def test_replica_refuses_requests(server, command):
    replica = server.start_replica()
    assert_refused(replica, replica.client(), (command, "k", "a"), "READONLY")
    assert_refused(replica, replica.client(), (command, "k", "a", "BLOCK", 0), "READONLY")
    replica.stop()


def test_waiting_readers_and_writers_are_unblocked_by_demotion(make_server):
    master, server = make_server(), make_server()
    server.control.execute_command("LOCK.RWREAD", "k", "a")
    waiters = [server.actor(name) for name in "wr"]
    for waiter, command in zip(waiters, ("LOCK.RWWRITE", "LOCK.RWREAD"), strict=True):
        waiter.send(command, "k", waiter.name, "BLOCK", 0)
        waiter.wait_blocked()
    server.control.execute_command("REPLICAOF", "127.0.0.1", master.port)
    for waiter in waiters:
        assert code_of(waiter.outcome()) == "UNBLOCKED"
    wait_for(lambda: server.info("lock")["lock_waiters"] == 0, what="the waits to end")


# MULTI and Lua: BLOCK is ignored


@each_command
@pytest.mark.parametrize("way", ["MULTI", "Lua"])
def test_requests_do_not_block_in_multi_and_lua(server, actor, command, way):
    server.control.execute_command("LOCK.RWWRITE", "k", "a", "PX", HOUR)
    client = actor()

    def in_one_step(*commands):
        if way == "MULTI":
            assert client.call("MULTI") == "OK"
            for words in commands:
                assert client.call(*words) == "QUEUED"
            return client.call("EXEC")
        return [client.call("EVAL", "return redis.call(unpack(ARGV))", 1, "k", *words) for words in commands]

    request = (command, "k", "b", "BLOCK", 0)
    replies = in_one_step(request, ("LOCK.RELEASE", "k", "a"), request, request, ("LOCK.RELEASE", "k", "b"))
    assert replies == [None, 0, 1, 2, 1]
    assert server.info("lock")["lock_waiters"] == 0


def test_deadlocks_are_null_where_requests_may_not_block(server, actor):
    client = actor()
    script = "return redis.call(unpack(ARGV))"
    client.call("LOCK.RWREAD", "k", "a")
    client.call("LOCK.RWREAD", "k", "b")
    upgrade = actor()
    upgrade.send("LOCK.RWWRITE", "k", "a", "BLOCK", 0)
    upgrade.wait_blocked()
    assert client.call("EVAL", script, 1, "k", "LOCK.RWWRITE", "k", "b", "BLOCK", 0) is None
    assert client.call("EVAL", script, 1, "k", "LOCK.ACQUIRE", "k", "b", "BLOCK", 0) is None


def test_script_that_releases_grants_waiting_readers(server, actor):
    server.control.execute_command("LOCK.RWWRITE", "k", "a")
    readers = [actor(name) for name in "bc"]
    for reader in readers:
        reader.send("LOCK.RWREAD", "k", reader.name, "BLOCK", 0)
        reader.wait_blocked()
    assert server.control.eval("return redis.call('LOCK.RELEASE', KEYS[1], 'a')", 1, "k") == 0
    assert [reader.reply() for reader in readers] == [1, 1]


# A cluster


def test_cluster_refuses_names_that_cannot_have_a_side_key(make_server):
    server = make_server(cluster_enabled="yes")
    server.control.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    wait_for(lambda: "cluster_state:ok" in server.actor().call("CLUSTER", "INFO"), 20, "the cluster")
    client = server.actor()
    for name in ("a}b", "}", "{}a", ""):
        for command in COMMANDS:
            for words in ((command, name, "o"), (command, name, "o", "BLOCK", 0)):
                refused = client.attempt(*words)
                assert code_of(refused) == "ERR" and "hash tag" in str(refused)
        assert client.call("LOCK.ACQUIRE", name, "o") == 1
        assert client.call("LOCK.RELEASE", name, "o") == 0
    for name in ("a", "a{b", "a{t}b", "{a}", "a{b}}"):
        side = f"lock:lease:{name}" if "}" in name else f"lock:lease:{{{name}}}"
        for command in COMMANDS:
            assert client.call(command, name, "o") == 1
            assert client.call("LOCK.RWREAD", name, "p" if command == "LOCK.RWREAD" else "o") == 1
            assert client.call("EXISTS", side) == 1
            assert client.call("CLUSTER", "KEYSLOT", side) == client.call("CLUSTER", "KEYSLOT", name)
            assert client.call("LOCK.FORCE", name) == 1
    assert server.control.dbsize() == 0


# LOCK.INFO

STATES = {
    "readers": (("RWREAD a", "RWREAD a", "RWREAD b"), "read", {"a read": 2, "b read": 1}),
    "writer": (("RWWRITE a", "RWWRITE a"), "write", {"a write": 2}),
    "writer that reads": (("RWWRITE a", "RWREAD a"), "write", {"a write": 1, "a read": 1}),
    "upgraded": (("RWREAD a", "RWWRITE a"), "write", {"a write": 1, "a read": 1}),
    "downgraded": (
        ("RWWRITE a", "RWREAD a", "RELEASE a WRITE", "RWREAD b"),
        "read",
        {"a read": 1, "b read": 1},
    ),
}
HOLDER = ["owner", "mode", "holds", "pttl", "session", "unconfirmed"]


def shown(client, key="k"):
    reply = client.execute_command("LOCK.INFO", key)
    if reply is None:
        return None
    info = as_map(reply)
    entries = [as_map(entry) for entry in info["holders"]]
    assert all(list(entry) == HOLDER and entry["session"] is None for entry in entries)
    assert info["token"] is None
    return info["mode"], {f"{one['owner']} {one['mode']}": (one["holds"], one["pttl"]) for one in entries}


@pytest.mark.parametrize("commands, mode, holders", STATES.values(), ids=STATES)
def test_info_is_the_same_on_master_and_replica(server, resp, commands, mode, holders):
    client = server.client(resp)
    for number, command in enumerate(commands, 1):
        word, owner, *rest = command.split()
        lease = () if rest else ("PX", number * 100_000)
        client.execute_command(f"LOCK.{word}", "k", owner, *rest, *lease)
    replica = server.start_replica()
    for one in (server, replica):
        found_mode, found = shown(one.client(resp))
        assert found_mode == mode
        assert {holder: count for holder, (count, _) in found.items()} == holders
        now = one.now_ms()
        for owner_mode, (_, pttl) in found.items():
            field = owner_mode.replace(" read", "").replace(" ", ":")
            end = one.control.zscore("lock:lease:{k}", field) or one.control.execute_command("PEXPIRETIME", "k")
            assert pttl == pytest.approx(end - now, abs=scaled_ms(1000))
    replica.stop()


def test_info_on_a_replica_omits_expired_holds(server):
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    server.control.execute_command("LOCK.RWWRITE", "k", "a", "PX", scaled_ms(150))
    server.control.execute_command("LOCK.RWREAD", "k", "a", "PX", HOUR)
    replica = server.start_replica()
    end = int(server.control.zscore("lock:lease:{k}", "a:write"))
    wait_for(lambda: replica.now_ms() > end, what="the writer's lease to expire")
    for one in (server, replica):
        mode, found = shown(one.client())
        assert (mode, list(found)) == ("read", ["a read"])
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 1)
    replica.stop()


def test_info_shows_waiting_readers_and_writers(server, resp, actor):
    client = server.client(resp)
    client.execute_command("LOCK.RWREAD", "k", "a")
    waiting, requests = [], (("w", "RWWRITE", "write"), ("r", "RWREAD", "read"), ("p", "ACQUIRE", "exclusive"))
    for name, command, mode in requests:
        waiter = actor(name)
        waiter.send(f"LOCK.{command}", "k", name, "BLOCK", HOUR)
        waiter.wait_blocked()
        waiting.append({"owner": name, "mode": mode, "fair": 0, "client": waiter.client_id})
    info = as_map(client.execute_command("LOCK.INFO", "k"))
    assert info["mode"] == "read" and info["waiting"] == 3
    for entry, expected in zip(map(as_map, info["waiters"]), waiting, strict=True):
        assert entry.pop("waited") >= 0 and 0 < entry.pop("left") <= HOUR
        assert entry == expected
    client.execute_command("SET", "k", "x")
    with pytest.raises(ResponseError, match="^WRONGTYPE "):
        client.execute_command("LOCK.INFO", "k")
