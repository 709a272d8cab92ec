"""A position is reserved for lock.fair-reserve ms after its connection has closed, not longer and not shorter.

The time of a grant is computed from the lease, which counts from the grant, on the server's own clock.
"""

import time

import pytest
from redis.exceptions import ConnectionError, ResponseError

from harness import scaled_ms, wait_for, wait_for_sync
from harness.schedule import as_map
from harness.yardstick import Yardstick
from model.fair_scene import ENDS, HOUR, QUEUE, ask, ask_all, detached, granted_ms, hold, holder, lose, order, release
from model.fair_scene import server, wait_nothing_left, waiters, written, written_is_right  # noqa: F401

RESERVE = scaled_ms(800)
LATEST = scaled_ms(2000)  # how much later than the reserve's end a grant may be on a busy machine


def set_reserve(server, ms):
    server.control.config_set("lock.fair-reserve", ms)


@pytest.fixture
def short(server):
    """The server, with a reserve of RESERVE."""
    set_reserve(server, RESERVE)
    return server


def end_of(server, owner):
    """When the reserved position of this owner ends."""
    return dict((position[0], position[2]) for position in written(server))[owner]


def is_just_after(moment, end):
    return end <= moment <= end + LATEST


def test_reserve_counts_from_the_end_of_the_connection(short):
    hold(short)
    (waiter,) = ask_all(short, "ob")
    before = short.now_ms()
    lose(short, waiter)
    assert before + RESERVE <= end_of(short, "ob") <= short.now_ms() + RESERVE


# A client that has died is skipped exactly when its reserve ends


def test_dead_head_is_skipped_when_its_reserve_has_ended(short):
    hold(short)
    dead, waits = ask_all(short, "ob", "oc")
    lose(short, dead)
    end = end_of(short, "ob")
    release(short, "oa")
    assert waits.reply() == 1
    assert is_just_after(granted_ms(short), end)


@pytest.mark.timing
def test_dead_head_is_skipped_within_milliseconds(short):
    late, machine = [], Yardstick(short)
    for _ in range(11):
        # Long enough for the checks below on a busy machine.
        set_reserve(short, scaled_ms(150))
        hold(short)
        dead, waits = ask_all(short, "ob", "oc")
        lose(short, dead)
        end = end_of(short, "ob")
        release(short, "oa")
        assert waits.reply() == 1
        late.append(granted_ms(short) - end)
        release(short, "oc")
        machine.measure()
    assert min(late) >= 0
    assert machine.allows(late, 5), late


def test_dead_waiter_that_becomes_the_head_before_its_end_is_skipped(short):
    hold(short)
    first, dead, last = ask_all(short, "ob", "oc", "od")
    lose(short, dead)
    end = end_of(short, "oc")
    release(short, "oa")
    assert first.reply() == 1
    release(short, "ob")
    assert last.reply() == 1
    assert is_just_after(granted_ms(short), end)


def test_dead_waiter_whose_reserve_has_ended_delays_no_hand_off(short):
    hold(short)
    first, dead, last = ask_all(short, "ob", "oc", "od")
    lose(short, dead)
    wait_for(lambda: order(short) == ["ob", "od"], what="the reserve to end")
    wait_for(lambda: written_is_right(short), what="the position to be removed from the keys")
    release(short, "oa")
    assert first.reply() == 1
    before = short.now_ms()
    release(short, "ob")
    assert last.reply() == 1
    assert before <= granted_ms(short) <= short.now_ms()


def test_dead_waiters_at_the_head_are_skipped_when_the_last_expires(short):
    hold(short)
    *dead, waits = ask_all(short, "ob", "oc", "od", "oe")
    set_reserve(short, RESERVE // 2)
    lose(short, dead[0], dead[1])
    set_reserve(short, RESERVE)
    lose(short, dead[2])
    end = end_of(short, "od")  # the last one that died, with a longer reserve
    release(short, "oa")
    assert waits.reply() == 1
    assert is_just_after(granted_ms(short), end)


def test_lock_whose_waiters_are_all_dead_can_be_acquired_by_others(short):
    hold(short)
    lose(short, *ask_all(short, "ob", "oc", "od"))
    ends = [end_of(short, owner) for owner in ("ob", "oc", "od")]
    release(short, "oa")
    assert short.control.execute_command("LOCK.FAIR", "k", "try") is None
    newcomer = ask(short, "oz")
    assert newcomer.reply() == 1
    assert is_just_after(granted_ms(short), max(ends))
    release(short, "oz")
    wait_nothing_left(short)


@pytest.mark.parametrize("way", ["wait", "try"])
def test_owner_keeps_its_position_only_if_it_returns_before_the_end(short, way):
    hold(short)
    in_time, late, last = ask_all(short, "ob", "oc", "od")
    lose(short, late)
    set_reserve(short, HOUR)
    lose(short, in_time)
    wait_for(lambda: "oc" not in order(short), what="the shorter reserve to end")
    back = ask(short, "oc")
    assert order(short) == ["ob", "od", "oc"]
    release(short, "oa")
    if way == "try":
        assert short.actor().call("LOCK.FAIR", "k", "ob") == 1
    else:
        assert short.actor().call("LOCK.FAIR", "k", "ob", "BLOCK", 0) == 1
    release(short, "ob")
    assert last.reply() == 1
    release(short, "od")
    assert back.reply() == 1


def test_position_that_is_taken_over_does_not_end_with_the_old_reserve(short):
    hold(short)
    (dead,) = ask_all(short, "ob")
    lose(short, dead)
    end = end_of(short, "ob")
    back = ask(short, "ob")
    wait_for(lambda: short.now_ms() > end + 20, what="the old reserve to end")
    assert order(short) == ["ob"] and back.is_blocked() and not back.has_reply()


def test_each_loss_begins_a_new_reserve(short):
    hold(short)
    (waiter,) = ask_all(short, "ob")
    ends = []
    for _ in range(3):
        lose(short, waiter)
        ends.append(end_of(short, "ob"))
        wait_for(lambda: short.now_ms() > ends[0] - RESERVE + 30 * len(ends), what="some time to pass")
        waiter = ask(short, "ob")
    assert ends == sorted(set(ends))


def test_reserve_may_end_later_than_the_timeout_of_the_wait(short):
    """BLOCK is about the connection; the reserve is about the owner."""
    hold(short)
    dead = ask(short, "ob", "BLOCK", RESERVE // 8)
    ask(short, "oc")
    before = short.now_ms()
    dead.kill_socket()
    wait_for(lambda: "ob" not in order(short) or detached(short) == ["ob"], what="the waiter to be gone")
    if detached(short) == ["ob"]:
        assert before + RESERVE <= end_of(short, "ob")
        wait_for(lambda: order(short) == ["oc"], what="the reserve to end")
        assert short.now_ms() >= before + RESERVE


def test_reserve_of_zero_keeps_no_position(short):
    set_reserve(short, 0)
    hold(short)
    dead, waits = ask_all(short, "ob", "oc")
    dead.kill_socket()
    wait_for(lambda: order(short) == ["oc"], what="the position to be gone")
    back = ask(short, "ob")
    assert order(short) == ["oc", "ob"]
    release(short, "oa")
    assert waits.reply() == 1
    release(short, "oc")
    assert back.reply() == 1


# After a restart or a promotion


def restart(server):
    """Returns the earliest and the latest moment from which the reserve of positions can count now."""
    server.kill()
    before = int(time.time() * 1000)  # the server runs on this machine, with the same clock
    server.start()
    return before, server.now_ms()


@pytest.mark.parametrize("read", ["at once", "when they have expired"])
def test_positions_without_owners_expire_one_reserve_after_the_restart(make_server, read):
    reserve = scaled_ms(1500)
    server = make_server(appendonly="yes", lock_fair_reserve=reserve)
    hold(server)
    ask_all(server, "ob", "oc")
    # Far longer than the reserve before the restart: it counts from then on, not from the crash.
    before, after = restart(server)
    if read == "at once":
        assert all(before + reserve - server.now_ms() <= waiter["left"] <= reserve for waiter in waiters(server))
        newcomer = ask(server, "oz")
        release(server, "oa")
        assert server.actor().call("LOCK.FAIR", "k", "oy") is None
        assert newcomer.reply(10) == 1
        assert before + reserve <= granted_ms(server) <= after + reserve + LATEST
    else:
        wait_for(lambda: order(server) == [], 10, "the positions to expire")
        assert server.now_ms() >= before + reserve
        release(server, "oa")
        assert server.actor().call("LOCK.FAIR", "k", "oz", "PX", HOUR) == 1
    release(server, "oz")
    wait_nothing_left(server)


def test_reserve_of_positions_counts_from_the_promotion(make_server):
    """Not from the replica's start, and not from the loss of the master."""
    reserve = scaled_ms(1000)
    master = make_server(lock_fair_reserve=reserve)
    replica = master.start_replica(lock_fair_reserve=reserve)
    hold(master)
    ask_all(master, "ob", "oc")
    wait_for_sync(master, replica)
    wait_for(lambda: replica.info("server")["uptime_in_seconds"] * 1000 > reserve, 20, "the replica to be older")
    before = replica.now_ms()
    replica.control.replicaof("NO", "ONE")
    after = replica.now_ms()
    newcomer = ask(replica, "oz")
    assert order(replica) == ["ob", "oc", "oz"]
    release(replica, "oa")
    assert newcomer.reply(10) == 1
    assert before + reserve <= granted_ms(replica) <= after + reserve + LATEST


def test_owner_that_returned_keeps_its_position_when_others_expire(make_server):
    server = make_server(appendonly="yes", lock_fair_reserve=scaled_ms(1000))
    hold(server)
    ask_all(server, "ob", "oc", "od")
    restart(server)
    back = ask(server, "oc")
    wait_for(lambda: order(server) == ["oc"], 10, "the other positions to end")
    wait_for(lambda: written_is_right(server), what="the keys to be written")
    release(server, "oa")
    assert back.reply() == 1


def test_keys_of_a_lock_that_is_not_requested_again_expire(make_server):
    server = make_server(appendonly="yes", lock_fair_reserve=RESERVE)
    hold(server)
    ask_all(server, "ob", "oc")
    restart(server)
    assert all(0 < server.control.pttl(name) <= HOUR for name in (QUEUE, ENDS))


# Pauses, roles, unloading


@pytest.mark.parametrize("propagates_to", ["AOF", "replica"])
def test_waiters_that_die_in_a_pause_are_skipped_after_it(make_server, propagates_to):
    server = make_server(appendonly="yes" if propagates_to == "AOF" else "no", lock_fair_reserve=RESERVE)
    replica = server.start_replica() if propagates_to == "replica" else None
    a = hold(server)
    dead, middle = ask_all(server, "ob", "oc")
    short_wait, waits = ask(server, "od", "BLOCK", RESERVE // 2), ask(server, "oe")
    a.send_together(("PEXPIRE", "k", RESERVE // 4), ("CLIENT", "PAUSE", HOUR, "WRITE"))  # it does not end before
    assert (a.reply(), a.reply()) == (1, "OK")
    before = {key: value for key, value in server.dump().items() if key[1].startswith(b"lock:")}
    dead.kill_socket()
    middle.kill_socket()
    assert short_wait.reply() is None
    wait_for(lambda: order(server) == ["oe"], what="the reserves to end")
    server.settle(30)
    assert {key: value for key, value in server.dump().items() if key[1].startswith(b"lock:")} == before
    assert not waits.has_reply()
    server.control.execute_command("CLIENT", "UNPAUSE")
    assert waits.reply() == 1
    wait_nothing_left(server)
    if replica:
        wait_for_sync(server, replica)
        assert replica.dump() == server.dump()
    else:
        before = server.dump()
        server.kill()
        server.start()
        assert server.dump() == before


def becomes_replica(server, master):
    server.control.replicaof("127.0.0.1", master.port)
    wait_for_sync(master, server)


@pytest.mark.parametrize("reserve_ms", [0, HOUR], ids=["no reserve", "a long reserve"])
def test_becoming_a_replica_with_waiters_leaves_nothing_in_memory(make_server, reserve_ms):
    server, master = make_server(lock_fair_reserve=HOUR), make_server()
    hold(server)
    dead, *waiting = ask_all(server, "ob", "oc", "od")
    lose(server, dead)
    set_reserve(server, reserve_ms)
    becomes_replica(server, master)
    for waiter in waiting:
        with pytest.raises((ResponseError, ConnectionError)):
            waiter.reply()
    wait_for(lambda: server.info("lock")["lock_contended_locks"] == 0, what="the positions to be gone from memory")
    assert server.info("lock")["lock_waiters"] == 0
    assert server.dump() == master.dump() == {}
    server.unload()


def test_new_replica_removes_locks_with_only_reserved_positions(make_server):
    """Although its new master never replies: nothing is flushed."""
    server = make_server(lock_fair_reserve=HOUR)
    hold(server)
    lose(server, *ask_all(server, "ob", "oc"))
    server.control.replicaof("127.0.0.1", 1)
    wait_for(lambda: server.info("lock")["lock_contended_locks"] == 0, what="the positions to be gone from memory")


def test_master_that_was_a_replica_has_only_the_positions_in_the_keys(make_server):
    server, master = make_server(lock_fair_reserve=HOUR), make_server(lock_fair_reserve=HOUR)
    hold(server)
    ask_all(server, "ob", "oc")
    hold(master)
    ask_all(master, "ox", "oy")
    becomes_replica(server, master)
    server.control.replicaof("NO", "ONE")
    assert order(server) == detached(server) == ["ox", "oy"]
    assert ask(server, "oy") and order(server) == ["ox", "oy"]


def test_module_unloads_only_after_the_reserves_and_leaves_nothing(make_server):
    server = make_server(lock_fair_reserve=scaled_ms(1500))
    a = hold(server)
    dead, waits = ask_all(server, "ob", "oc")
    lose(server, dead)
    assert not server.unloads()
    a.call("LOCK.CANCEL", "k", "oc")
    assert waits.reply() is None
    assert order(server) == ["ob"]
    assert not server.unloads()
    end = end_of(server, "ob")
    server.unload(timeout=10)
    assert server.now_ms() >= end
    assert set(server.dump()) == {(0, b"k")}
    server.control.module_load(str(server.launch.module))
    assert holder(server) == "oa"
    assert as_map(server.control.execute_command("LOCK.INFO", "k"))["waiting"] == 0


def test_reloaded_module_reserves_the_positions_in_the_keys(make_server):
    """For the module this is a restart."""
    server = make_server(lock_fair_reserve=scaled_ms(600))
    hold(server)
    tickets = {"ob": server.now_ms() * 1000, "oc": server.now_ms() * 1000 + 1}
    server.unload()
    server.control.zadd(QUEUE, tickets)
    server.control.module_load(str(server.launch.module))
    set_reserve(server, scaled_ms(600))
    assert order(server) == ["ob", "oc"]
    back = ask(server, "oc")
    release(server, "oa")
    assert back.reply(10) == 1
    wait_nothing_left(server)
