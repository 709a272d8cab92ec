"""MODULE UNLOAD is refused unless it is allowed; an upgrade as the README describes it works without it."""

import shutil

import pytest

from harness import wait_for, wait_for_sync
from harness.schedule import as_map
from model.server_scene import is_loaded

REFUSED = "MODULE UNLOAD is refused: a server may crash when the commands of a module go."
HOUR = 3_600_000


def test_unload_is_refused_and_the_log_explains_what_to_do(server):
    reply = server.actor().attempt("MODULE", "UNLOAD", "lock")
    assert str(reply).startswith("ERR Error unloading module")
    assert is_loaded(server.control)
    line = next(line for line in server.log().splitlines() if REFUSED in line)
    assert " # <lock> " in line  # a warning
    for word in ("next to the old one", "loadmodule", "restart", "replica", "CONFIG SET lock.allow-unload yes"):
        assert word in line


def test_unload_can_be_allowed_at_run_time(make_server):
    server = make_server()
    client = server.control
    client.config_set("lock.allow-unload", "yes")
    client.config_set("lock.allow-unload", "no")
    assert "ERR" in str(server.actor().attempt("MODULE", "UNLOAD", "lock"))
    logged = server.log().count(REFUSED)
    client.config_set("lock.allow-unload", "yes")
    assert client.module_unload("lock")
    assert not is_loaded(client) and server.log().count(REFUSED) == logged


def test_queued_command_works_after_a_refused_unload(server, actor):
    a = actor()
    a.call("MULTI")
    a.call("LOCK.ACQUIRE", "k", "oa")
    assert "ERR" in str(actor().attempt("MODULE", "UNLOAD", "lock"))
    assert a.call("EXEC") == [1]
    assert server.control.hgetall("k") == {"oa": "1"}


def test_shutdown_logs_no_refused_unload(make_server):
    """Valkey 9.1 unloads all modules when it shuts down."""
    server = make_server()
    server.control.execute_command("LOCK.ACQUIRE", "k", "o")
    server.stop()
    log = server.log().lower()
    assert not any(words in log for words in ("unload is refused", "unload canceled", "failed to unload"))


# ---- "Upgrading" in the README ----


@pytest.fixture
def copy_of_module(tmp_path, launch):
    """copy_of_module("lock-1.so"): a copy of the module under this name, like another version next to the first."""

    def put(name):
        return shutil.copy2(launch.module, tmp_path / name)

    return put


def runs(server, path):
    """Whether the process has this file mapped: Redis 7.0 does not show the path of a module."""
    with open(f"/proc/{server.pid}/maps") as maps:
        return str(path) in maps.read()


def fill(server):
    """Makes a hold, a token, readers, and a waiter with a position; returns the token."""
    client = server.control
    assert client.execute_command("LOCK.ACQUIRE", "plain", "oa", "PX", HOUR) == 1
    token = client.execute_command("LOCK.ACQUIRE", "fenced", "oa", "PX", HOUR, "FENCED")
    assert client.execute_command("LOCK.RWREAD", "read", "oa", "PX", HOUR) == 1
    assert client.execute_command("LOCK.RWREAD", "read", "ob", "PX", HOUR) == 1
    assert client.execute_command("LOCK.FAIR", "fair", "oa", "PX", HOUR) == 1
    waiter = server.actor("ob")
    waiter.send("LOCK.FAIR", "fair", "ob", "BLOCK", 0)
    waiter.wait_blocked()
    return token


def survived(client, token):
    assert client.execute_command("LOCK.RELEASE", "plain", "oa") == 0
    assert client.execute_command("LOCK.RELEASE", "read", "ob") == 0
    assert client.execute_command("LOCK.GUARD", "read", "oa", "PING") in (b"PONG", "PONG", True)
    assert [w["owner"] for w in map(as_map, as_map(client.execute_command("LOCK.INFO", "fair"))["waiters"])] == ["ob"]
    client.execute_command("LOCK.RELEASE", "fenced", "oa")
    assert client.execute_command("LOCK.ACQUIRE", "fenced", "oc", "FENCED") > token
    return True


def test_upgrade_by_a_new_file_and_a_restart(make_server, copy_of_module):
    old, new = copy_of_module("lock-1.so"), copy_of_module("lock-2.so")
    server = make_server(load_module=False, loadmodule=str(old), appendonly="yes", lock_fair_reserve=HOUR)
    assert runs(server, old)
    token = fill(server)
    server.restart(loadmodule=str(new))
    assert runs(server, new) and not runs(server, old)
    assert survived(server.control, token)


def test_upgrade_by_a_failover_to_a_replica_with_the_new_file(make_server, copy_of_module):
    old, new = copy_of_module("lock-1.so"), copy_of_module("lock-2.so")
    master = make_server(load_module=False, loadmodule=str(old), lock_fair_reserve=HOUR)
    replica = master.start_replica(loadmodule=str(old), lock_fair_reserve=HOUR)
    token = fill(master)
    replica.restart(loadmodule=str(new))
    wait_for_sync(master, replica)
    assert runs(replica, new) and runs(master, old)
    master.control.execute_command("FAILOVER", "TO", "127.0.0.1", replica.port)
    wait_for(lambda: replica.info("replication")["role"] == "master", 20, "the failover")
    assert survived(replica.control, token)
    master.restart(loadmodule=str(new), replicaof=("127.0.0.1", replica.port))
    wait_for_sync(replica, master)
    assert runs(master, new)
    assert master.dump() == replica.dump()


def test_config_rewrite_writes_the_name_of_the_loaded_file(make_server, copy_of_module):
    """This is why the README requires a restart right after the edit."""
    old, new = copy_of_module("lock-1.so"), copy_of_module("lock-2.so")
    server = make_server(load_module=False, loadmodule=str(old))
    conf = server.folder / "redis.conf"
    conf.write_text(conf.read_text().replace(str(old), str(new)))
    server.control.config_rewrite()
    assert str(old) in conf.read_text() and str(new) not in conf.read_text()
