"""What opens a latch for its waiters: everything that does, and what does not.

The active expiry of the server is switched off, so that only the module can notice that a key has expired.
"""

import pytest

from harness import scaled_ms, wait_for
from harness.schedule import error
from model.latch_scene import Scene, begins_to_wait, latch_waiters

pytestmark = pytest.mark.usefixtures("no_active_expiry")

SOON_MS = 3000
SHORT = scaled_ms(60)


OPENS = dict(
    DOWN=["LATCH.DOWN l", "LATCH.DOWN l"],
    DOWN_by_all=["LATCH.DOWN l 2"],
    DOWN_by_more=["LATCH.DOWN l 100"],
    SET_0=["LATCH.SET l 0"],
    SET_lower_and_DOWN=["LATCH.SET l 1", "LATCH.DOWN l"],
    DOWN_and_SET_again=["MULTI", "LATCH.DOWN l 2", "LATCH.SET l 5", "EXEC"],
    SET_0_and_SET_again=["MULTI", "LATCH.SET l 0", "LATCH.SET l 5", "EXEC"],
    script=["EVAL return(redis.call('LATCH.DOWN',KEYS[1],2)) 1 l"],
    DEL=["DEL l"],
    UNLINK=["UNLINK l"],
    GETDEL=["GETDEL l"],
    RENAME_away=["RENAME l elsewhere"],
    RENAMENX_away=["RENAMENX l elsewhere"],
    MOVE=["MOVE l {other_db}", "SELECT {db}"],
    FLUSHDB=["FLUSHDB"],
    FLUSHALL=["FLUSHALL"],
    FLUSHALL_ASYNC=["FLUSHALL ASYNC"],
    SWAPDB=["SWAPDB {db} {other_db}"],
    SWAPDB_named_the_other_way=["SWAPDB {other_db} {db}"],
    PEXPIRE_0=["PEXPIRE l 0"],
    PEXPIREAT_in_the_past=["PEXPIREAT l 1"],
    DECRBY=["DECRBY l 2"],
    DECRBY_below_0=["DECRBY l 10"],
    INCRBY=["INCRBY l -2"],
    SET_directly=["SET l 0"],
    GETSET=["GETSET l -1"],
    MSET=["MSET l 0 x 1"],
    SETRANGE=["SETRANGE l 0 0"],
    RENAME_of_an_open_one_onto=["SET spare 0", "RENAME spare l"],
    COPY_of_an_open_one_onto=["SET spare 0", "COPY spare l REPLACE"],
    RESTORE_of_an_open_one=[lambda scene: scene.restore_over("SET", "0")],
    MULTI=["MULTI", "DEL l", "EXEC"],
    after_another_type=["DEL l", "RPUSH l x", "LPOP l"],
    after_a_value_that_is_no_number=["SET l x", "SET l 0"],
)


@pytest.mark.parametrize("commands", OPENS.values(), ids=OPENS)
def test_change_opens_the_latch(server, db, commands):
    scene = Scene(server, db)
    scene.do(*commands)
    scene.both_are_notified()


SHUT = dict(
    DOWN=["LATCH.DOWN l"],
    SET_higher=["LATCH.SET l 100"],
    SET_lower=["LATCH.SET l 1"],
    SET_with_a_TTL=["LATCH.SET l 1 PX {HOUR}"],
    WAIT=["LATCH.WAIT l"],
    SET_directly=["SET l 5"],
    SET_KEEPTTL=["SET l 5 KEEPTTL"],
    INCRBY=["INCRBY l 3"],
    DECR=["DECR l"],
    value_that_is_no_number=["SET l x"],
    long_string=["SETRANGE l 100 x"],
    another_type=["MULTI", "DEL l", "RPUSH l x", "EXEC"],
    overwritten_by_another_type=["SADD s x", "SINTERSTORE l s"],
    RENAME_onto=["SET spare 4", "RENAME spare l"],
    RENAME_there_and_back=["MULTI", "RENAME l x", "RENAME x l", "EXEC"],
    COPY_onto=["SET spare 4", "COPY spare l REPLACE"],
    COPY_away=["COPY l elsewhere"],
    RESTORE_over=[lambda scene: scene.restore_over("SET", "4")],
    deleted_and_set_directly=["MULTI", "DEL l", "SET l 1", "EXEC"],
    PERSIST=["PERSIST l"],
    PEXPIRE=["PEXPIRE l {HOUR}"],
    SWAPDB_there_and_back=["MULTI", "SWAPDB {db} {other_db}", "SWAPDB {other_db} {db}", "EXEC"],
    SWAPDB_elsewhere=["SWAPDB {other_db} 8"],
    FLUSHDB_elsewhere=["SELECT {other_db}", "SET l 1", "FLUSHDB", "SELECT {db}"],
    DEBUG_RELOAD=["DEBUG RELOAD"],
    LOCK_commands=["LOCK.ACQUIRE k o", "LOCK.RELEASE k o", "LOCK.FORCE k"],
)


@pytest.mark.parametrize("commands", SHUT.values(), ids=SHUT)
def test_change_does_not_open_the_latch(server, db, commands):
    scene = Scene(server, db)
    scene.do(*commands)
    scene.both_still_wait()
    assert scene.do("DEL l") == 1
    scene.both_are_notified()


def test_eviction_opens_the_latch(server):
    scene = Scene(server)
    scene.evict()
    scene.both_are_notified()


def test_reload_without_the_latch_opens_it(server, db):
    server.control.execute_command("SAVE")
    scene = Scene(server, db)
    scene.do("DEBUG RELOAD NOSAVE")
    scene.both_are_notified()


def test_waiter_follows_the_latch_that_a_swap_brings(server, db):
    scene = Scene(server, db)
    there = server.actor(db=scene.OTHER_DB)
    there.call("LATCH.SET", "l", 7)
    scene.do("SWAPDB {db} {other_db}")
    scene.both_still_wait()
    assert there.call("LATCH.DOWN", "l", 2) == 0  # the latch that the swap has moved there
    scene.both_still_wait()
    assert scene.do("LATCH.DOWN l 7") == 0
    scene.both_are_notified()


def test_latches_with_the_same_name_in_two_databases_are_independent(server):
    one, other = Scene(server, 1), Scene(server, 2)
    other.do("LATCH.DOWN l 2")
    assert [waiter.reply() for waiter in other.waiters] == [1, 1]
    one.both_still_wait()
    one.do("FLUSHDB")
    one.both_are_notified()


# ---- expiry ----

ENDS = dict(
    PX=[f"LATCH.SET l 2 PX {SHORT}"],
    PX_shorter=["LATCH.SET l 2 PX {HOUR}", f"LATCH.SET l 2 PX {SHORT}"],
    PEXPIRE=[f"PEXPIRE l {SHORT}"],
    PEXPIRE_twice=["PEXPIRE l 20000", f"PEXPIRE l {SHORT}"],
    PERSIST_and_PEXPIRE=["PERSIST l", f"PEXPIRE l {SHORT}"],
    SET_PX=[f"SET l 4 PX {SHORT}"],
    SET_KEEPTTL=["MULTI", f"PEXPIRE l {SHORT}", "SET l 4 KEEPTTL", "EXEC"],
    DOWN=[f"LATCH.SET l 5 PX {SHORT}", "LATCH.DOWN l"],
    GETEX=[f"GETEX l PX {SHORT}"],
    RENAME_onto=["SET spare 4", "MULTI", f"PEXPIRE spare {SHORT}", "RENAME spare l", "EXEC"],
    RESTORE_over=[lambda scene: scene.restore_over("SET", "4", ttl=SHORT)],
    another_type=["DEL s", "SADD s x", "SINTERSTORE l s", f"PEXPIRE l {SHORT}"],
    SWAPDB=["SELECT {other_db}", f"LATCH.SET l 3 PX {SHORT}", "SELECT {db}", "SWAPDB {db} {other_db}"],
    DEBUG_RELOAD=[f"PEXPIRE l {SHORT}", "DEBUG RELOAD"],
)


@pytest.mark.parametrize("commands", ENDS.values(), ids=ENDS)
def test_expiry_of_the_key_opens_the_latch(server, db, commands):
    scene = Scene(server, db)
    scene.do(*commands)
    scene.both_are_notified()
    assert not scene.do("EXISTS l")


def test_expiry_that_was_set_before_the_wait_opens_the_latch(server, db):
    scene = Scene(server, db, px=scaled_ms(600))
    scene.both_are_notified()
    assert scene.end <= server.now_ms() <= scene.end + scaled_ms(SOON_MS)


@pytest.mark.parametrize("later", ["LATCH.SET l 2", "LATCH.SET l 2 PX {HOUR}", "PERSIST l", "PEXPIRE l {HOUR}"])
def test_expiry_that_is_extended_does_not_open_the_latch(server, later):
    scene = Scene(server, px=scaled_ms(600))
    scene.do(later)
    wait_for(lambda: server.now_ms() > scene.end, 10, "the old expiry to pass")
    scene.both_still_wait()


# ---- later waiters ----


def test_waiter_of_a_latch_set_again_is_not_granted_by_the_old_opening(server):
    """Many waiters are notified in time slices; the latch may be set again between the first and the last."""
    server.control.execute_command("LATCH.SET", "l", 1)
    old = [begins_to_wait(server) for _ in range(5)]
    new = server.actor("new")
    sock = server.raw_connection()
    sock.sendall(b"MULTI\r\nLATCH.DOWN l\r\nLATCH.SET l 1\r\nEXEC\r\n")
    assert [waiter.reply() for waiter in old] == [1] * 5
    new.send("LATCH.WAIT", "l", "BLOCK", 0)
    new.wait_blocked()
    server.settle(30)
    assert not new.has_reply()
    server.control.execute_command("LATCH.DOWN", "l")
    assert new.reply() == 1


def test_first_waiter_of_a_server_is_notified_of_direct_writes(make_server):
    server = make_server()
    scene = Scene(server)
    scene.do("DECRBY l 2")
    scene.both_are_notified()


def test_wait_above_max_waiters_is_refused(server, actor):
    server.control.config_set("lock.max-waiters", 2)
    scene = Scene(server)
    third = actor()
    assert error("ERR", "too many waiters")(third.attempt("LATCH.WAIT", "l", "BLOCK", 0))
    assert third.call("LATCH.WAIT", "l") is None
    assert latch_waiters(server) == 2
    scene.do("DEL l")
    scene.both_are_notified()
