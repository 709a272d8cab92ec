"""The two keys of a fair queue: their contents, their expiry, their names.

The table in model/fair_changes.py has every way in which they change.
"""

import math

import pytest

from harness import code_of, scaled_ms, wait_for
from harness.schedule import as_map
from model.fair_changes import Scene, each_change
from model.fair_scene import ENDS, HOUR, QUEUE, ask, ask_all, assert_written, hold, info, lose, release
from model.fair_scene import server, side_keys, written  # noqa: F401

# Contents


def test_position_is_a_ticket_and_a_deadline_in_unix_ms(server):
    hold(server)
    before = server.now_ms()
    ask(server, "ob", "BLOCK", HOUR)
    after = server.now_ms()
    ask(server, "oc", "BLOCK", 0)
    (b, b_ticket, b_end), (c, c_ticket, c_end) = written(server)
    assert (b, c) == ("ob", "oc")
    assert b_ticket < c_ticket
    assert before + HOUR <= b_end <= after + HOUR
    assert c_end == math.inf
    assert server.control.type(QUEUE) == server.control.type(ENDS) == "zset"


def test_reserved_position_ends_when_its_reserve_does(server):
    hold(server)
    waiter = ask(server, "ob", "BLOCK", 10 * HOUR)
    (before,) = written(server)
    earliest = server.now_ms()
    lose(server, waiter)
    (after,) = written(server)
    assert after[:2] == before[:2]
    assert earliest + HOUR <= after[2] <= server.now_ms() + HOUR


def test_plain_waiters_and_tries_write_nothing(server, actor):
    hold(server)
    ask(server, "ob", command="LOCK.ACQUIRE")
    assert actor().call("LOCK.FAIR", "k", "oc") is None
    actor().call("LOCK.FAIR", "free", "oc")
    assert set(server.dump()) == {(0, b"k"), (0, b"free")}


CROWD = [f"o{number:02}" for number in range(9)] + ["o9" + "x" * 500]


@pytest.mark.parametrize("longest, encoding", [(64, "skiplist"), (1000, "listpack")])
def test_keys_of_a_long_queue_have_only_its_positions(server, longest, encoding):
    """From a certain length on the module makes the server use another encoding for the keys, if it can."""
    server.control.config_set("zset-max-listpack-value", longest)
    hold(server)
    for number, owner in enumerate(CROWD, 1):
        ask(server, owner)
        assert [position[0] for position in written(server)] == CROWD[:number]
    encodings = {server.control.object("ENCODING", name) for name in side_keys()}
    assert encodings == {encoding}
    before = written(server)
    for left, owner in enumerate(["oa", *CROWD]):
        assert written(server) == before[left:]
        release(server, owner)
    assert server.dump() == {}


def test_deleted_queue_that_grows_again_has_only_its_positions(server):
    hold(server)
    for _ in range(2):
        server.control.delete(*side_keys())
        for owner in CROWD[:6]:
            ask(server, owner)
        assert [position[0] for position in written(server)] == CROWD[:6]
        for owner in CROWD[:6]:
            server.control.execute_command("LOCK.CANCEL", "k", owner)


def test_positions_written_by_others_in_a_long_queue_are_kept(server):
    hold(server)
    ask(server, "ob")
    strangers = {"\0" * length: length for length in (64, 65, 512, 513, 514)}
    for name in side_keys():
        server.control.zadd(name, strangers)
    ask(server, "oc")
    assert {owner for owner, _, _ in written(server)} == {"ob", "oc", *strangers}
    server.control.delete(*side_keys())


def test_change_of_the_encoding_sends_no_events(server):
    server.control.config_set("notify-keyspace-events", "KEA")
    listener = server.control.pubsub()
    listener.psubscribe("__keyevent@*__:z*")
    hold(server)
    ask_all(server, *CROWD)
    assert listener.get_message(timeout=1)["type"] == "psubscribe"
    assert listener.get_message(timeout=0.05) is None
    listener.close()


def test_tickets_grow_in_order_of_arrival_and_are_never_given_twice(server):
    hold(server)
    seen, last = set(), 0
    for number in range(30):
        owner = f"o{number}"
        ask(server, owner)
        ticket = dict(position[:2] for position in written(server))[owner]
        assert ticket > last and ticket not in seen
        seen, last = seen | {ticket}, ticket
        # The last ones are cancelled, so that the largest ticket in the keys is not the largest one given.
        if number % 3 == 2:
            server.control.execute_command("LOCK.CANCEL", "k", owner)
            server.control.execute_command("LOCK.CANCEL", "k", f"o{number - 1}")
    assert_written(server)


def test_requests_of_one_millisecond_have_different_tickets(server):
    """They are sent before the server reads any: most arrive in one millisecond."""
    hold(server)
    actors = [server.actor(f"o{number}") for number in range(60)]
    for actor in actors:
        actor.send("LOCK.FAIR", "k", actor.name, "BLOCK", 0)
    wait_for(lambda: info(server)["waiting"] == 60, what="all to wait")
    assert_written(server)


@each_change
def test_change_affects_one_owner_and_not_the_scores_of_others(server, change):
    scene = Scene(server)
    change.prepare(scene)
    scene.settled()
    before = [position for position in written(server) if position[0] != change.owner]
    change.act(scene)
    scene.settled()
    assert [position for position in written(server) if position[0] != change.owner] == before


def test_position_keeps_its_ticket_until_it_ends(server):
    """Also with a second request, a lost connection, a return, and other waiters that join and leave."""
    hold(server)
    first, second = ask_all(server, "ob", "oc")
    ticket = written(server)[1][1]

    def same():
        return dict(position[:2] for position in written(server))["oc"] == ticket

    third = ask(server, "oc", "BLOCK", HOUR)
    assert second.reply() is None and same()
    lose(server, third)
    assert same()
    fourth = ask(server, "oc")
    assert same()
    ask(server, "od")
    release(server, "oa")
    assert first.reply() == 1 and same()
    release(server, "ob")
    assert fourth.reply() == 1


# Expiry

BLOCKS = {"no timeout": 0, "some seconds": scaled_ms(5000), "an hour": HOUR, "ten years": 10 * 365 * 24 * HOUR}
RESERVES = {"none": 0, "default": 5000, "an hour": HOUR, "the longest": 10**15}


@pytest.mark.parametrize("reserve_ms", RESERVES.values(), ids=[f"reserve {name}" for name in RESERVES])
@pytest.mark.parametrize("block_ms", BLOCKS.values(), ids=BLOCKS)
def test_both_keys_expire_later_than_their_positions_end(server, block_ms, reserve_ms):
    server.control.config_set("lock.fair-reserve", reserve_ms)
    hold(server)
    for owner in ("ob", "oc"):
        ask(server, owner, "BLOCK", block_ms)
        assert_written(server)
    ask(server, "od", "BLOCK", HOUR // 2)
    assert_written(server)


@pytest.mark.parametrize("reserve_ms", RESERVES.values(), ids=[f"reserve {name}" for name in RESERVES])
def test_longest_wait_is_written_too(server, reserve_ms):
    """It ends near the latest time that 63 bits can represent: nothing can expire after that."""
    server.control.config_set("lock.fair-reserve", reserve_ms)
    hold(server)
    longest = 2**63 - 1 - server.now_ms()
    ask(server, "ob", "BLOCK", longest - 10_000)
    ask(server, "oc", "BLOCK", longest // 2)
    assert [position[0] for position in written(server)] == ["ob", "oc"]
    ten_years = server.now_ms() + 10 * 365 * 24 * HOUR
    assert all(server.control.execute_command("PEXPIRETIME", name) > ten_years for name in (QUEUE, ENDS))


def test_keys_of_a_longer_reserve_expire_later(server):
    hold(server)
    first, second = ask_all(server, "ob", "oc")
    server.control.config_set("lock.fair-reserve", 1000 * HOUR)
    lose(server, first)
    assert_written(server)
    lose(server, second)
    assert_written(server)


@pytest.mark.parametrize("key", [QUEUE, ENDS])
def test_key_that_is_created_again_has_its_expiry(server, key):
    """Another client deleted it; the next request creates it again."""
    hold(server)
    ask(server, "ob")
    server.control.delete(key)
    ask(server, "oc")
    assert all(server.control.pttl(name) > 0 for name in (QUEUE, ENDS))


# Names

NAMES = {
    "plain": "k",
    "tag": "{t}x",
    "tag inside": "x{t}y",
    "two tags": "{t}{u}",
    "empty tag": "{}x",
    "closing brace": "a}b",
    "opening brace": "a{b",
    "braces in the wrong order": "}x{",
    "space and quotes": "a b\"'",
    "colon": "lock:queue:{k}:x",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("db", [0, 3])
def test_names_of_the_side_keys(server, name, db):
    hold(server, key=name, db=db)
    waiter = ask(server, "ob", key=name, db=db)
    queue, ends = side_keys(name)
    client = server.client(db=db)
    assert set(client.keys()) == {name, queue, ends}
    assert [position[0] for position in written(server, name, db)] == ["ob"]
    assert client.execute_command("LOCK.RELEASE", name, "oa") == 0
    assert waiter.reply() == 1
    assert client.keys() == [name]


def test_names_and_owners_are_bytes(server):
    name, owner = b"k\0\r\n\xff", b"o\0\r\n\xfe" + b"x" * 507
    client = server.client(decode_responses=False)
    client.execute_command("LOCK.ACQUIRE", name, b"a")
    server.actor().send("LOCK.FAIR", name, owner, "BLOCK", 0)
    wait_for(lambda: as_map(client.execute_command("LOCK.INFO", name))[b"waiting"] == 1, what="it to wait")
    assert client.zrange(b"lock:queue:{" + name + b"}", 0, -1) == [owner]
    assert client.zrange(b"lock:timeout:{" + name + b"}", 0, -1) == [owner]
    assert client.execute_command("LOCK.CANCEL", name, owner) == 1
    assert client.keys() == [name]


@pytest.fixture
def cluster_node(make_server):
    """A cluster of one node, which has all slots."""
    node = make_server(cluster_enabled="yes", cluster_require_full_coverage="no")
    node.control.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    wait_for(lambda: _cluster_state(node) == "ok", 20, "the cluster to be whole")
    return node


def _cluster_state(node):
    answer = node.control.execute_command("CLUSTER", "INFO")
    text = answer if isinstance(answer, str) else "\n".join(f"{name}:{value}" for name, value in answer.items())
    return dict(line.split(":", 1) for line in text.split())["cluster_state"]


def refuse_in_cluster(node, name):
    for more in ((), ("BLOCK", 0)):
        before = node.dump()
        reply = node.actor().attempt("LOCK.FAIR", name, "ob", *more)
        assert code_of(reply) == "ERR" and "hash tag" in str(reply)
        assert node.dump() == before


def test_name_without_side_keys_in_its_slot_is_refused_in_a_cluster(cluster_node):
    """LOCK.ACQUIRE needs no side keys, and accepts it."""
    for name in ("a}b", "{}x", "}", ""):
        refuse_in_cluster(cluster_node, name)
        hold(cluster_node, key=name)
        refuse_in_cluster(cluster_node, name)
        waits = ask(cluster_node, "oc", key=name, command="LOCK.ACQUIRE")
        release(cluster_node, "oa", name)
        assert waits.reply() == 1


def test_side_keys_are_in_the_slot_of_the_lock(cluster_node):
    for name in ("k", "{t}x", "x{t}y", "a{b", "{"):
        slots = [cluster_node.control.execute_command("CLUSTER", "KEYSLOT", key) for key in (name, *side_keys(name))]
        assert len(set(slots)) == 1
        hold(cluster_node, key=name)
        waiter = ask(cluster_node, "ob", key=name)
        assert_written(cluster_node, name)
        release(cluster_node, "oa", name)
        assert waiter.reply() == 1
        assert set(cluster_node.dump()) == {(0, name.encode())}
        release(cluster_node, "ob", name)
