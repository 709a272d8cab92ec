"""What replicas, AOF and RDB have of a fair queue's changes: plain commands, together with the change of the lock.

The table in model/fair_changes.py has every way in which a queue changes.
"""

import pytest

from harness import wait_for, wait_for_sync
from harness.aof import aof_of, commands_in, rewrite_aof
from model.fair_changes import A_WHILE, CHANGES, Scene, each_change
from model.fair_scene import ENDS, HOUR, LONG_RESERVE, QUEUE, ask, ask_all, hold, lose, order, release
from model.fair_scene import server, wait_nothing_left  # noqa: F401

SIDE_KEYS = (QUEUE, ENDS)


def perform(server, change):
    scene = Scene(server)
    change.prepare(scene)
    scene.settled()
    change.act(scene)
    scene.settled()
    return scene


# Replicas


@pytest.fixture(scope="module")
def chain(_shared):
    """A master, its replica, and a replica of that replica; the master is the file's `server`."""
    master = _shared.get()
    replica = master.start_replica()
    return master, replica, replica.start_replica()


def assert_in_sync(chain):
    master, replica, sub = chain
    wait_for_sync(master, replica)
    wait_for_sync(replica, sub)
    assert replica.dump() == master.dump()
    assert sub.dump() == master.dump()


@each_change
def test_replicas_have_the_same_data_before_and_after_each_change(chain, server, change):
    scene = Scene(server)
    assert_in_sync(chain)
    change.prepare(scene)
    scene.settled()
    assert_in_sync(chain)
    change.act(scene)
    scene.settled()
    assert_in_sync(chain)
    for owner in order(server):
        server.control.execute_command("LOCK.CANCEL", "k", owner)
    wait_nothing_left(server)
    assert_in_sync(chain)


def test_replicas_have_the_same_data_of_the_longest_wait(chain, server):
    server.control.config_set("lock.fair-reserve", 10**15)
    hold(server)
    ask(server, "ob", "BLOCK", 2**63 - 1 - server.now_ms() - 10_000)
    ask(server, "oc", "BLOCK", HOUR)
    assert_in_sync(chain)


def test_replicas_have_the_same_queue_after_it_grew_long_and_shrank(chain, server):
    owners = [f"o{number}" for number in range(9)]
    hold(server)
    for owner in owners:
        ask(server, owner)
        assert_in_sync(chain)
    for owner in ["oa", *owners]:
        release(server, owner)
        assert_in_sync(chain)


def test_replica_shows_the_positions_in_order_with_their_deadlines(chain, server):
    hold(server)
    for owner in ("ob", "oc"):
        ask(server, owner, "BLOCK", HOUR)
    lose(server, ask(server, "od"))
    release(server, "oa")
    assert_in_sync(chain)
    for replica in chain[1:]:
        answer = replica.client(3).execute_command("LOCK.INFO", "k")
        assert answer["holders"][0]["owner"] == "ob"
        assert [waiter["owner"] for waiter in answer["waiters"]] == order(server)
        assert all(waiter["fair"] == 1 and waiter["client"] is None for waiter in answer["waiters"])
        assert all(HOUR - 60_000 < waiter["left"] <= HOUR for waiter in answer["waiters"])
        assert replica.info("lock")["lock_contended_locks"] == 0


def test_replica_shows_a_wait_without_a_timeout(chain, server):
    hold(server)
    ask(server, "ob", "BLOCK", 0)
    assert_in_sync(chain)
    (waiter,) = chain[1].client(3).execute_command("LOCK.INFO", "k")["waiters"]
    assert waiter["left"] is None


def test_replica_shows_no_queue_whose_keys_have_expired(chain, server):
    hold(server)
    lose(server, ask(server, "ob"))
    for name in SIDE_KEYS:
        server.control.pexpire(name, A_WHILE)
    wait_for(lambda: chain[1].client(3).execute_command("LOCK.INFO", "k")["waiting"] == 0, what="the keys to expire")


# AOF and RDB


@each_change
def test_aof_restores_the_queue_after_a_crash(make_server, change):
    server = make_server(appendonly="yes", appendfsync="always", lock_fair_reserve=LONG_RESERVE)
    perform(server, change)
    before = server.dump()
    server.kill()
    server.start()
    assert server.dump() == before


@pytest.mark.parametrize("how", ["rewritten AOF", "RDB", "DEBUG RELOAD"])
def test_snapshot_restores_the_queue(make_server, how):
    server = make_server(appendonly="yes", aof_use_rdb_preamble="no", lock_fair_reserve=LONG_RESERVE)
    perform(server, CHANGES["returns"])
    if how == "rewritten AOF":
        rewrite_aof(server)
    before = server.dump()
    if how == "DEBUG RELOAD":
        server.control.execute_command("DEBUG", "RELOAD")
    elif how == "RDB":
        server.control.config_set("appendonly", "no")
        server.restart(save=True, appendonly="no")
    else:
        server.kill()
        server.start()
    assert server.dump() == before


def test_server_without_the_module_loads_the_same_data(make_server):
    server = make_server(appendonly="yes", lock_fair_reserve=LONG_RESERVE)
    perform(server, CHANGES["returns"])
    before = server.dump()
    server.stop()
    plain = make_server(load_module=False)
    plain.stop()
    (server.folder / "appendonlydir").rename(plain.folder / "appendonlydir")
    plain.start(appendonly="yes")
    assert plain.dump() == before


# What is written


def transactions_in(commands):
    """The transactions, as lists of commands."""
    found, inside = [], False
    for words in commands:
        if words[0] in ("MULTI", "EXEC"):
            inside = words[0] == "MULTI"
            found += [[]] if inside else []
        elif inside:
            found[-1].append(words)
        else:
            found.append([words])
    return found


def plainly(words):
    """A command with T for its ticket and END for its time; UNLINK, with which Valkey expires keys, becomes DEL."""
    if words[0] == "UNLINK":
        return ("DEL", *words[1:])
    if words[0] == "ZADD" and words[2] != "+inf":
        return (words[0], words[1], "T" if words[1] == QUEUE else "END", words[3])
    return tuple(words[:2] + ["END"]) if words[0] == "PEXPIREAT" else tuple(words)


@each_change
def test_change_is_plain_commands_in_the_transaction_of_its_cause(make_server, change):
    server = make_server(appendonly="yes", lock_fair_reserve=LONG_RESERVE)
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    scene = Scene(server)
    change.prepare(scene)
    scene.settled()
    start = len(aof_of(server))
    change.act(scene)
    scene.settled()
    found = [
        [plainly(words) for words in transaction if not (words[0] == "PEXPIREAT" and words[1] in SIDE_KEYS)]
        for transaction in transactions_in(commands_in(aof_of(server)[start:]))
    ]
    assert found == [list(transaction) for transaction in change.writes]


def test_long_queue_is_written_only_as_its_positions(make_server):
    server = make_server(appendonly="yes")
    owners = [f"o{number}" for number in range(9)]
    hold(server)
    ask_all(server, *owners)
    added = [tuple(words[1::2]) for words in commands_in(aof_of(server)) if words[0] == "ZADD"]
    assert added == [(name, owner) for owner in owners for name in SIDE_KEYS]


def test_aof_never_has_a_command_of_the_module(make_server):
    server = make_server(appendonly="yes", lock_fair_reserve=LONG_RESERVE)
    for name, change in CHANGES.items():
        if name != "CLIENT UNBLOCK":
            perform(server, change)
            server.control.config_set("lock.fair-reserve", LONG_RESERVE)
            for owner in order(server):
                server.control.execute_command("LOCK.CANCEL", "k", owner)
            server.control.flushall()
            server.settle()
            server.control.flushall()
    assert b"LOCK." not in aof_of(server).upper()


def test_keys_get_their_expiry_in_the_transaction_that_creates_them(make_server):
    server = make_server(appendonly="yes", lock_fair_reserve=LONG_RESERVE)
    hold(server)
    start = len(aof_of(server))
    ask(server, "ob")
    (transaction,) = transactions_in(commands_in(aof_of(server)[start:]))
    for name in SIDE_KEYS:
        about = [words[0] for words in transaction if words[1] == name]
        assert about[:2] == ["ZADD", "PEXPIREAT"]


def test_several_hand_offs_in_MULTI_are_one_transaction(make_server):
    server = make_server(appendonly="yes")
    hold(server)
    ask_all(server, "ob", "oc", "od")
    start, client = len(aof_of(server)), server.actor()
    client.call("MULTI")
    for owner in ("oa", "ob", "oc"):
        client.call("LOCK.RELEASE", "k", owner)
    assert client.call("EXEC") == [0, 0, 0]
    (transaction,) = transactions_in(commands_in(aof_of(server)[start:]))
    removed = [words for words in transaction if words[0] == "ZREM"]
    assert removed == [["ZREM", name, owner] for owner in ("ob", "oc", "od") for name in SIDE_KEYS]


def test_script_that_hands_off_is_one_transaction(make_server):
    server = make_server(appendonly="yes")
    hold(server)
    waiter = ask(server, "ob")
    start = len(aof_of(server))
    server.control.eval("redis.call('SET', 'x', 1) return redis.call('LOCK.RELEASE', KEYS[1], 'oa')", 1, "k")
    assert waiter.reply() == 1
    (transaction,) = transactions_in(commands_in(aof_of(server)[start:]))
    assert [words[0] for words in transaction] == ["SET", "DEL", "HSET", "PEXPIREAT", "ZREM", "ZREM"]


@each_change
def test_save_points_count_the_change(server, change):
    scene = Scene(server)
    change.prepare(scene)
    scene.settled()
    before = server.info("persistence")["rdb_changes_since_last_save"]
    change.act(scene)
    scene.settled()
    assert (server.info("persistence")["rdb_changes_since_last_save"] > before) == bool(change.writes)


@each_change
def test_WATCH_of_the_queue_sees_each_change(server, actor, change):
    scene = Scene(server)
    change.prepare(scene)
    scene.settled()
    watcher = actor("watcher")
    watcher.call("WATCH", *SIDE_KEYS)
    change.act(scene)
    scene.settled()
    watcher.call("MULTI")
    watcher.call("ECHO", "done")
    touched = any(words[1] in SIDE_KEYS for transaction in change.writes for words in transaction)
    assert watcher.call("EXEC") == (None if touched else ["done"])


def test_queries_change_nothing(server):
    hold(server)
    lose(server, ask(server, "ob"))
    ask(server, "oc")
    before, changes = server.dump(), server.info("persistence")["rdb_changes_since_last_save"]
    assert order(server) == ["ob", "oc"]
    assert server.actor().call("LOCK.FAIR", "k", "oz") is None
    assert (server.dump(), server.info("persistence")["rdb_changes_since_last_save"]) == (before, changes)
