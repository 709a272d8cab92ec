"""The keys of LOCK.GUARD are those of the inner command, too: for COMMAND GETKEYS, and in a cluster."""

import pytest

from harness import code_of, wait_for

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


@pytest.mark.parametrize("levels", [2, 20_000])
def test_guards_inside_guards_name_the_outer_lock_and_the_inner_one(client, levels):
    """Such a command is refused when it runs; asking for its keys must not use up the stack."""
    words = [word for n in range(levels) for word in ("LOCK.GUARD", f"k{n}", "o")]
    assert client.execute_command("COMMAND GETKEYS", *words, "GET", "x") == ["k0", "k1"]


def test_limited_user_may_not_overflow_the_stack(server, actor):
    server.control.acl_setuser("limited", enabled=True, nopass=True, keys=["k*"], commands=["+lock.guard"])
    limited = actor()
    limited.call("AUTH", "limited", "x")
    words = [word for n in range(20_000) for word in ("LOCK.GUARD", f"k{n}", "o")]
    assert code_of(limited.attempt(*words, "GET", "kx")) == "NOTHELD"
    assert server.control.ping()


@pytest.mark.parametrize("words", ["LOCK.GUARD", "LOCK.GUARD k", "LOCK.GUARD k o"])
def test_permission_for_a_guard_without_a_command_can_be_asked(server, actor, words):
    """A script may ask for any command. Redis 8.6, and 8.0.2 as Debian patches it, look at the arity first; others do not."""
    server.control.acl_setuser("asks", enabled=True, nopass=True, keys=["other*"], commands=["+eval", "+lock.guard"])
    asks = actor()
    asks.call("AUTH", "asks", "x")
    script = "return redis.acl_check_cmd(unpack(ARGV))"
    heard = asks.attempt("EVAL", script, 0, *words.split())
    allowed = 1 if words == "LOCK.GUARD" else None  # without a key there is none that it may not use
    assert heard == allowed or "Wrong number of args" in str(heard), str(heard)
    assert server.control.ping()


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
