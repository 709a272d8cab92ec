"""ONCE: the reply to a request whose hold exists already, and what the request does not change."""

import pytest

from harness import scaled_ms, wait_for, wait_for_sync
from harness.schedule import BLOCKS, STILL_BLOCKED, error, granted, run_schedule, schedules
from model.once_scene import KINDS, LONG, OF_TWO, answer, asks, assert_held_once, each_kind


@each_kind()
def test_repeated_request_replies_like_the_first(server, client, kind):
    for _ in range(3):
        assert client.execute_command(*asks(kind)) == answer(kind)
    assert_held_once(server, kind)


@each_kind()
@pytest.mark.parametrize("block", [0, 1000])
def test_repeated_request_with_block_replies_like_the_first(server, client, kind, block):
    for _ in range(2):
        assert client.execute_command(*asks(kind, "BLOCK", block)) == answer(kind)
    assert_held_once(server, kind)


@each_kind()
def test_bad_and_doubled_options_change_nothing(server, client, kind):
    words = KINDS[kind][0].split()
    for options in ("ONCE ONCE", "ONCE 1", "once Once", "ONCE PX 0"):
        with pytest.raises(Exception, match="^ERR "):
            client.execute_command(*words, *options.split())
    assert not server.dump()
    assert client.execute_command(*words, "oNcE") == answer(kind)


@pytest.mark.parametrize("command", ["LOCK.RENEW k o", "LOCK.RELEASE k o", "LOCK.MRELEASE 1 k o", "LOCK.WATCH k o"])
def test_once_is_an_option_of_acquiring_commands_only(client, command):
    assert client.execute_command("LOCK.ACQUIRE", "k", "o") == 1
    with pytest.raises(Exception, match="^ERR syntax error"):
        client.execute_command(*command.split(), "ONCE")


COUNTS = dict(
    a_hold_count_is_not_changed=[
        ("a", "LOCK.ACQUIRE k o", 1),
        ("a", "LOCK.ACQUIRE k o", 2),
        ("a", "LOCK.ACQUIRE k o ONCE", 2),
        ("a", "LOCK.FAIR k o ONCE", 2),
        ("a", "HGET k o", "2"),
    ],
    without_once_a_reentry_counts=[
        ("a", "LOCK.ACQUIRE k o ONCE", 1),
        ("a", "LOCK.ACQUIRE k o", 2),
        ("a", "LOCK.ACQUIRE k o ONCE", 2),
        ("a", "LOCK.RELEASE k o", 1),
        ("a", "LOCK.RELEASE k o", 0),
    ],
    a_hold_count_at_its_limit_is_no_error=[
        ("a", "HSET k o 2147483647", 1),
        ("a", "LOCK.ACQUIRE k o", error("ERR")),
        ("a", "LOCK.ACQUIRE k o ONCE", 2147483647),
        ("a", "LOCK.MACQUIRE 2 k l o", error("ERR")),
        ("a", "LOCK.MACQUIRE 2 k l o ONCE", 2),
    ],
    read_and_write_are_two_holds=[
        ("a", "LOCK.RWWRITE k o ONCE", 1),
        ("a", "LOCK.RWREAD k o ONCE", 1),
        ("a", "LOCK.RWREAD k o ONCE", 1),
        ("a", "LOCK.RWWRITE k o ONCE", 1),
        ("a", "LOCK.RELEASE k o WRITE", 0),
        ("a", "LOCK.RWREAD k o ONCE", 1),
        ("b", "LOCK.RWREAD k p ONCE", 1),
        ("a", "LOCK.RWWRITE k o ONCE", None),
        ("a", "HGETALL k", {"mode": "read", "o": "1", "p": "1"}),
    ],
    another_kind_of_lock_is_refused=[
        ("a", "LOCK.ACQUIRE k o ONCE", 1),
        ("a", "LOCK.RWREAD k o ONCE", None),
        ("a", "LOCK.SEMAPHORE k o 1 ONCE BLOCK 0", error("DEADLOCK")),
        ("b", "LOCK.ACQUIRE k p ONCE", None),
    ],
    repeated_request_waits_behind_no_waiter=[
        ("a", "LOCK.RWREAD k o ONCE", 1),
        ("b", "LOCK.RWWRITE k p ONCE BLOCK 0", BLOCKS),
        ("c", "LOCK.RWREAD k q ONCE", None),
        ("a", "LOCK.RWREAD k o ONCE", 1),
        ("a", "LOCK.RELEASE k o", 0),
        ("b", granted(1)),
    ],
    multi_key_request_counts_keys_already_held=[
        ("a", "LOCK.ACQUIRE k o ONCE", 1),
        ("x", "LOCK.ACQUIRE l p", 1),
        ("a", "LOCK.MACQUIRE 3 k l m o ONCE", None),
        ("a", "EXISTS m", 0),
        ("x", "LOCK.RELEASE l p", 0),
        ("a", "LOCK.MACQUIRE 3 k l m o ONCE", 3),
        ("a", "LOCK.MACQUIRE 3 m l k o ONCE", 3),
        ("a", "LOCK.MACQUIRE 4 m l k m o ONCE", 3),
        ("a", "LOCK.MRELEASE 3 k l m o", 3),
        ("a", "EXISTS k l m", 0),
    ],
    in_MULTI_it_does_not_block=[
        ("x", "LOCK.ACQUIRE k p", 1),
        ("a", "MULTI", "OK"),
        ("a", "LOCK.ACQUIRE k o ONCE BLOCK 0", "QUEUED"),
        ("a", "LOCK.ACQUIRE l o ONCE BLOCK 0", "QUEUED"),
        ("a", "LOCK.ACQUIRE l o ONCE BLOCK 0", "QUEUED"),
        ("a", "EXEC", [None, 1, 1]),
        ("a", ("EVAL", "return redis.call('LOCK.ACQUIRE', 'l', 'o', 'ONCE', 'BLOCK', 0)", 1, "l"), 1),
        ("a", "HGET l o", "1"),
    ],
)

PERMITS = dict(
    the_requested_number_is_not_added_again=[
        ("a", "LOCK.SEMAPHORE k o 5 PERMITS 2 ONCE", 2),
        ("a", "LOCK.SEMAPHORE k o 5 PERMITS 2 ONCE", 2),
        ("a", "LOCK.SEMAPHORE k o 5 ONCE", 2),
    ],
    the_missing_permits_are_added=[
        ("a", "LOCK.SEMAPHORE k o 5 PERMITS 2 ONCE", 2),
        ("a", "LOCK.SEMAPHORE k o 5 PERMITS 5 ONCE", 5),
        ("a", "LOCK.SEMAPHORE k o 5 PERMITS 5 ONCE", 5),
        ("a", "LOCK.RELEASE k o PERMITS 5", 0),
        ("a", "EXISTS k", 0),
    ],
    the_limit_applies_to_the_permits_that_are_added=[
        ("x", "LOCK.SEMAPHORE k p 5 PERMITS 2", 2),
        ("a", "LOCK.SEMAPHORE k o 5 PERMITS 2 ONCE", 2),
        ("a", "LOCK.SEMAPHORE k o 5 PERMITS 4 ONCE", None),
        ("a", "LOCK.SEMAPHORE k o 5 PERMITS 3 ONCE", 3),
        ("a", "LOCK.SEMAPHORE k o 2 PERMITS 2 ONCE", 3),
        ("a", "LOCK.SEMAPHORE k o 2 PERMITS 3 ONCE", error("ERR")),
        ("a", "HGETALL k", {"mode": "semaphore", "o": "3", "p": "2"}),
    ],
    permits_to_be_added_wait_in_the_queue=[
        ("a", "LOCK.SEMAPHORE k o 3 ONCE", 1),
        ("x", "LOCK.SEMAPHORE k p 3", 1),
        ("b", "LOCK.SEMAPHORE k q 3 PERMITS 2 BLOCK 0", BLOCKS),
        ("a", "LOCK.SEMAPHORE k o 3 ONCE", 1),
        ("a", "LOCK.SEMAPHORE k o 3 PERMITS 2 ONCE BLOCK 0", BLOCKS),
        ("x", "LOCK.RELEASE k p", 0),
        ("b", granted(2)),
        ("a", STILL_BLOCKED),
        ("b", "LOCK.RELEASE k q PERMITS 2", 0),
        ("a", granted(2)),
    ],
)


@schedules(**COUNTS, **PERMITS)
def test_repeated_requests_add_no_hold(server, schedule):
    run_schedule(server, schedule, 3)


# Leases


@each_kind()
def test_repeated_request_extends_the_lease(server, client, kind):
    words = KINDS[kind][0].split()
    assert client.execute_command(*words, "ONCE", "PX", LONG) == answer(kind)
    before = client.pexpiretime("k")
    wait_for(lambda: server.now_ms() > before - LONG, what="a millisecond to pass")
    assert client.execute_command(*words, "ONCE", "PX", LONG) == answer(kind)
    assert client.pexpiretime("k") > before


@each_kind()
def test_repeated_request_never_shortens_a_lease(client, kind):
    """A request that arrives late must not shorten the lease that a later LOCK.RENEW has set."""
    words = KINDS[kind][0].split()
    assert client.execute_command(*words, "ONCE", "PX", LONG) == answer(kind)
    before = client.pexpiretime("k")
    assert client.execute_command(*words, "ONCE", "PX", 1000) == answer(kind)
    assert client.pexpiretime("k") == before


@pytest.mark.parametrize("longer", ["LOCK.RWREAD k o", "LOCK.SEMAPHORE k o 9"])
def test_repeated_request_extends_only_the_lease_of_its_owner(client, longer):
    words = longer.split()
    other = [word.replace("o", "p") for word in words]
    assert client.execute_command(*words, "ONCE", "PX", LONG) == 1
    assert client.execute_command(*other, "PX", 2 * LONG) == 1
    p_end = client.zscore("lock:lease:{k}", "p")
    assert client.execute_command(*words, "ONCE", "PX", 3 * LONG) == 1
    assert client.zscore("lock:lease:{k}", "p") == p_end
    assert client.zscore("lock:lease:{k}", "o") == client.pexpiretime("k") > p_end


def test_lock_without_a_lease_gets_none(client):
    client.hset("k", "o", 1)
    assert client.execute_command("LOCK.ACQUIRE", "k", "o", "ONCE") == 1
    assert client.ttl("k") == -1


@each_kind()
def test_request_after_the_lease_has_expired_acquires_again(server, client, kind):
    words = KINDS[kind][0].split()
    assert client.execute_command(*words, "ONCE", "PX", scaled_ms(30)) == answer(kind)
    wait_for(lambda: not client.exists("k"), what="the lease to expire")
    assert client.execute_command(*words, "ONCE", "PX", LONG) == answer(kind)
    assert_held_once(server, kind)


def test_permits_whose_lease_has_expired_do_not_count(server, client):
    assert client.execute_command("LOCK.SEMAPHORE", "k", "p", 2, "PX", LONG) == 1
    assert client.execute_command("LOCK.SEMAPHORE", "k", "o", 2, "ONCE", "PX", scaled_ms(30)) == 1
    end = client.zscore("lock:lease:{k}", "o")
    wait_for(lambda: server.now_ms() > end, what="the lease to expire")
    before = server.info("lock")["lock_repeats"]
    assert client.execute_command("LOCK.SEMAPHORE", "k", "o", 2, "ONCE", "PX", LONG) == 1
    assert server.info("lock")["lock_repeats"] == before
    assert client.hgetall("k") == {"mode": "semaphore", "o": "1", "p": "1"}


# Tokens


@pytest.mark.parametrize("command", ["LOCK.ACQUIRE", "LOCK.FAIR", "LOCK.RWWRITE"])
def test_repeated_fenced_request_replies_the_same_token(client, command):
    token = client.execute_command(command, "k", "o", "ONCE", "FENCED")
    assert client.execute_command(command, "k", "o", "FENCED", "ONCE") == token
    assert client.execute_command(command, "k", "o", "ONCE") == 1
    assert client.execute_command("LOCK.RELEASE", "k", "o", *(["WRITE"] * (command == "LOCK.RWWRITE"))) == 0
    assert client.execute_command(command, "k", "o", "ONCE", "FENCED") > token


# Replicas, AOF, INFO and events


@each_kind()
def test_replicas_and_the_aof_have_one_hold(make_server, kind):
    server = make_server(appendonly="yes", appendfsync="always")
    replica = server.start_replica()
    for _ in range(2):
        assert server.control.execute_command(*asks(kind)) == answer(kind)
    wait_for_sync(server, replica)
    before = server.dump()
    assert replica.dump() == before
    server.kill()
    server.start()
    assert server.dump() == before
    assert server.control.execute_command(*asks(kind)) == answer(kind)
    assert_held_once(server, kind)


@each_kind()
def test_info_counts_repeats_and_they_send_no_event(server, client, kind):
    assert client.execute_command(*asks(kind)) == answer(kind)
    client.config_set("notify-keyspace-events", "KA")
    pubsub = client.pubsub()
    pubsub.psubscribe("__keyspace@0__:k")
    pubsub.get_message(timeout=5)
    before = server.info("lock")
    assert client.execute_command(*asks(kind)) == answer(kind)
    assert client.execute_command(*KINDS[kind][0].split()) > 0
    events = []
    wait_for(lambda: events.append(pubsub.get_message()) or any(e and e["data"] == "lock.granted" for e in events))
    after = server.info("lock")
    keys = 2 if kind in OF_TWO else 1
    assert after["lock_repeats"] - before["lock_repeats"] == keys
    # Without ONCE the same request is a grant; only this grant sent an event.
    assert [e["data"] for e in events if e].count("lock.granted") == 1
