"""A watch receives LOST, whatever ended the hold; and nothing as long as a hold is left.

The active expiry of the server is switched off, so that only the module can notice the end of a lease; no client waits.
"""

import pytest

from harness import scaled_ms, wait_for
from model.watch_scene import HOLDS, HOUR, Scene, watchers, watchers_of, watches

pytestmark = pytest.mark.usefixtures("no_active_expiry")

SOON_MS = 3000
SHORT = scaled_ms(60)


LOSSES = dict(
    RELEASE=["LOCK.RELEASE k o"],
    CANCEL_RELEASE=["LOCK.CANCEL k o RELEASE"],
    RELEASE_in_MULTI=["MULTI", "LOCK.RELEASE k o", "EXEC"],
    RELEASE_by_a_script=["EVAL return(redis.call('LOCK.RELEASE',KEYS[1],'o')) 1 k"],
    RELEASE_and_ACQUIRE_by_another=["MULTI", "LOCK.RELEASE k o", "LOCK.ACQUIRE k p", "EXEC"],
    MRELEASE=["LOCK.MRELEASE 1 k o"],
    FORCE=["LOCK.FORCE k"],
    FORCE_and_ACQUIRE_by_another=["MULTI", "LOCK.FORCE k", "LOCK.ACQUIRE k p", "EXEC"],
    DEL=["DEL k"],
    UNLINK=["UNLINK k"],
    RENAME_away=["RENAME k elsewhere"],
    MOVE=["MOVE k {other_db}", "SELECT {db}"],
    HDEL=["HDEL k o"],
    HSET_of_an_invalid_count=["HSET k o none"],
    FLUSHDB=["FLUSHDB"],
    FLUSHALL=["FLUSHALL"],
    FLUSHALL_ASYNC=["FLUSHALL ASYNC"],
    SWAPDB=["SWAPDB {db} {other_db}"],
    PEXPIRE_0=["PEXPIRE k 0"],
    SET=["SET k v"],
    SET_KEEPTTL=["SET k v KEEPTTL"],
    MSET=["MSET x 1 k v"],
    BITOP=["SET x a", "BITOP NOT k x"],
    SINTERSTORE=["SADD x a", "SINTERSTORE k x"],
    ZUNIONSTORE=["ZADD x 1 a", "ZUNIONSTORE k 1 x"],
    SORT_STORE=["RPUSH x 1 2", "SORT x STORE k"],
    GEOSEARCHSTORE=["GEOADD x 1 1 a", "GEOSEARCHSTORE k x FROMMEMBER a BYRADIUS 1 km"],
    RENAME_onto=["HSET spare p 1", "RENAME spare k"],
    RENAME_of_another_type_onto=["RPUSH spare x", "RENAME spare k"],
    COPY_onto=["HSET spare p 1", "COPY spare k REPLACE"],
    RESTORE_over=[lambda scene: scene.restore_over("HSET", "p", 1)],
    LATCH_SET_after_DEL=["MULTI", "DEL k", "LATCH.SET k 1", "EXEC"],
)


@pytest.mark.parametrize("commands", LOSSES.values(), ids=LOSSES)
def test_watch_receives_lost_when_the_hold_ends(server, db, commands):
    scene = Scene(server, db)
    scene.do(*commands)
    scene.both_receive("LOST")


MODES = {name: hold for name, hold in HOLDS.items() if name != "plain"}


@pytest.mark.parametrize("hold", MODES.values(), ids=MODES)
@pytest.mark.parametrize("how", ["LOCK.RELEASE k o", "LOCK.FORCE k", "DEL k", f"PEXPIRE k {SHORT}", "SET k v",
                                 f"LOCK.RENEW k o PX {SHORT}"])  # fmt: skip
def test_watch_receives_lost_in_every_mode(server, hold, how):
    scene = Scene(server, hold=hold)
    scene.do(how)
    scene.both_receive("LOST")


KEEPS = dict(
    RENEW=["LOCK.RENEW k o PX {HOUR}"],
    ACQUIRE_again=["LOCK.ACQUIRE k o"],
    RELEASE_of_one_of_two=["LOCK.ACQUIRE k o", "LOCK.RELEASE k o"],
    try_by_another=["LOCK.ACQUIRE k p"],
    PERSIST=["PERSIST k"],
    PEXPIRE=["PEXPIRE k {HOUR}"],
    HINCRBY=["HINCRBY k o 1"],
    COPY_away=["COPY k elsewhere"],
    RENAME_there_and_back=["MULTI", "RENAME k x", "RENAME x k", "EXEC"],
    RELEASE_and_ACQUIRE_at_once=["MULTI", "LOCK.RELEASE k o", "LOCK.ACQUIRE k o PX {HOUR}", "EXEC"],
    DEL_and_ACQUIRE_at_once=["MULTI", "DEL k", "LOCK.ACQUIRE k o PX {HOUR}", "EXEC"],
    SWAPDB_there_and_back=["MULTI", "SWAPDB {db} {other_db}", "SWAPDB {other_db} {db}", "EXEC"],
    FLUSHDB_elsewhere=["SELECT {other_db}", "SET k 1", "FLUSHDB", "SELECT {db}"],
    DEBUG_RELOAD=["DEBUG RELOAD"],
    RESTORE_of_the_same=[lambda scene: scene.restore_over("HSET", "o", 1)],
    CANCEL=["LOCK.CANCEL k o"],
    CANCEL_RELEASE_of_one_of_two=["LOCK.ACQUIRE k o", "LOCK.CANCEL k o RELEASE"],
    other_lock=["LOCK.ACQUIRE l o", "LOCK.RELEASE l o", "DEL l"],
)


@pytest.mark.parametrize("commands", KEEPS.values(), ids=KEEPS)
def test_watch_receives_nothing_while_a_hold_is_left(server, db, commands):
    scene = Scene(server, db)
    scene.do(*commands)
    scene.both_still_wait()
    assert watchers_of(server, db=db) == 2
    scene.do("LOCK.FORCE k")
    scene.both_receive("LOST")


def test_eviction_is_a_loss(server):
    scene = Scene(server)
    scene.evict()
    scene.both_receive("LOST")


def test_reload_without_the_lock_is_a_loss(server, db):
    server.control.execute_command("SAVE")
    scene = Scene(server, db)
    scene.do("DEBUG RELOAD NOSAVE")
    scene.both_receive("LOST")


# ---- leases ----

ENDS = dict(
    PX=["LOCK.RENEW k o PX {SHORT}"],
    RENEW_longer_and_shorter=["LOCK.RENEW k o EX 9000", "LOCK.RENEW k o PX {SHORT}"],
    PEXPIRE=["PEXPIRE k {SHORT}"],
    PEXPIRE_twice=["PEXPIRE k 20000", "PEXPIRE k {SHORT}"],
    PERSIST_and_PEXPIRE=["PERSIST k", "PEXPIRE k {SHORT}"],
    script=["EVAL return(redis.call('PEXPIRE',KEYS[1],{SHORT})) 1 k"],
    DEBUG_RELOAD=["PEXPIRE k {SHORT}", "DEBUG RELOAD"],
)


@pytest.mark.parametrize("commands", ENDS.values(), ids=ENDS)
def test_watch_receives_lost_when_the_lease_expires(server, db, commands):
    scene = Scene(server, db)
    scene.do(*commands)
    scene.both_receive("LOST")
    assert not scene.do("EXISTS k")


@pytest.mark.parametrize("hold", HOLDS.values(), ids=HOLDS)
def test_watch_receives_lost_at_the_end_known_at_its_beginning(server, hold):
    scene = Scene(server, hold=hold.replace("{HOUR}", str(scaled_ms(600))))
    scene.both_receive("LOST")
    assert scene.end <= server.now_ms() <= scene.end + scaled_ms(SOON_MS)


@pytest.mark.parametrize("later", [
    "LOCK.RENEW k o PX {HOUR}", "LOCK.ACQUIRE k o PX {HOUR}", "PEXPIRE k {HOUR}", "PERSIST k",
])  # fmt: skip
def test_watch_follows_a_lease_that_is_extended(server, later):
    scene = Scene(server, hold=f"LOCK.ACQUIRE k o PX {scaled_ms(600)}")
    scene.do(later)
    wait_for(lambda: server.now_ms() > scene.end, 10, "the old end to pass")
    scene.both_still_wait()
    scene.do("LOCK.RENEW k o PX 1")
    scene.both_receive("LOST")


def test_only_the_watch_of_the_reader_that_expired_receives_lost(server, actor):
    """The lock is still held by another reader; only the first watch is notified."""
    client = actor()
    for owner, ms in (("o", scaled_ms(600)), ("p", HOUR)):
        client.call("LOCK.RWREAD", "k", owner, "PX", ms)
    first, second = watches(server, "o"), watches(server, "p")
    assert first.reply(timeout=10) == "LOST"
    server.settle()
    assert not second.has_reply()
    assert client.call("LOCK.RELEASE", "k", "p") == 0
    assert second.reply() == "LOST"


def test_writer_whose_read_remains_has_not_lost_the_lock(server, actor):
    client = actor()
    client.call("LOCK.RWWRITE", "k", "o", "PX", scaled_ms(600))
    client.call("LOCK.RWREAD", "k", "o", "PX", HOUR)
    end = server.now_ms() + scaled_ms(650)
    watcher = watches(server)
    wait_for(lambda: server.now_ms() > end, what="the write hold to expire")
    server.settle()
    assert not watcher.has_reply()
    client.call("LOCK.FORCE", "k")
    assert watcher.reply() == "LOST"


def test_expired_lease_with_waiters_is_notified_and_handed_off(server, actor):
    scene = Scene(server, hold=f"LOCK.ACQUIRE k o PX {scaled_ms(1500)}")
    waiter = actor()
    waiter.send("LOCK.ACQUIRE", "k", "p", "PX", HOUR, "BLOCK", 0)
    waiter.wait_blocked()
    assert waiter.reply(timeout=10) == 1
    scene.both_receive("LOST")
    assert server.info("lock")["lock_lease_ends"] >= 1


def test_expired_lease_is_notified_while_writes_are_refused(server):
    """Above all the holder on a master that has lost its replicas needs this notification."""
    scene = Scene(server, hold=f"LOCK.ACQUIRE k o PX {scaled_ms(600)}")
    server.control.config_set("min-replicas-to-write", 1)
    scene.both_receive("LOST")
    server.control.config_set("min-replicas-to-write", 0)


def test_lease_end_without_a_waiter_is_not_counted(server):
    before = server.info("lock")["lock_lease_ends"]
    scene = Scene(server)
    scene.do(f"PEXPIRE k {SHORT}")
    scene.both_receive("LOST")
    assert server.info("lock")["lock_lease_ends"] == before


# ---- sessions ----

LEASE = scaled_ms(1500)


@pytest.fixture
def session(server):
    server.control.config_set("lock.session-grace", 1)
    server.control.config_set("lock.default-lease", LEASE)
    return server.actor("session")


@pytest.mark.parametrize("command", ["LOCK.ACQUIRE", "LOCK.RWREAD", "LOCK.FAIR"])
def test_end_of_a_session_is_a_loss(server, session, command):
    assert session.call(command, "k", "o", "SESSION") == 1
    end = server.control.execute_command("PEXPIRETIME", "k")
    watcher = watches(server)
    wait_for(lambda: server.control.execute_command("PEXPIRETIME", "k") > end, 10, "a renewal")
    assert not watcher.has_reply()
    session.kill_socket()
    assert watcher.reply() == "LOST"


@pytest.mark.parametrize("command", ["LOCK.ACQUIRE", "LOCK.RWREAD", "LOCK.FAIR"])
def test_end_of_a_session_long_before_its_lease_is_a_loss(server, session, command):
    server.control.config_set("lock.default-lease", HOUR)
    assert session.call(command, "k", "o", "SESSION") == 1
    watcher = watches(server)
    session.kill_socket()
    assert watcher.reply() == "LOST"


def test_lease_of_a_session_that_is_not_renewed_any_more_is_a_loss(server, session):
    """Its last renewal made the lease shorter than it was when the watch began."""
    session.call("LOCK.ACQUIRE", "k", "o", "PX", HOUR)
    session.call("LOCK.RENEW", "k", "o", "SESSION")
    session.call("LOCK.ACQUIRE", "k", "o", "PX", HOUR)
    watcher = watches(server)
    wait_for(lambda: 0 < server.control.pttl("k") <= LEASE, 10, "a renewal")
    server.control.config_set("lock.session-grace", HOUR)
    session.kill_socket()
    assert watcher.reply(timeout=10) == "LOST"


# ---- which watches are notified ----


def test_only_watches_of_the_owner_that_lost_receive_lost(server, actor):
    client = actor()
    for owner in ("o", "p", "q"):
        client.call("LOCK.RWREAD", "k", owner, "PX", HOUR)
    watching = {owner: watches(server, owner) for owner in ("o", "p", "q")}
    client.call("LOCK.RELEASE", "k", "p")
    assert watching.pop("p").reply() == "LOST"
    server.settle()
    assert not any(watcher.has_reply() for watcher in watching.values())
    client.call("HDEL", "k", "q")
    assert watching.pop("q").reply() == "LOST"
    client.call("DEL", "k")
    assert watching.pop("o").reply() == "LOST"


def test_watch_of_a_client_dead_between_grant_and_reply_is_lost(server, actor):
    holder, waiter = actor("a"), actor("b")
    holder.call("LOCK.ACQUIRE", "k", "oa")
    waiter.send("LOCK.ACQUIRE", "k", "ob", "BLOCK", 0)
    waiter.wait_blocked()
    server.raw_connection().sendall(f"LOCK.RELEASE k oa\r\nCLIENT KILL ID {waiter.client_id}\r\n".encode())
    wait_for(lambda: server.control.execute_command("LOCK.WATCH", "k", "ob") == "LOST", what="the grant to be revoked")


def test_watches_in_two_databases_are_independent(server):
    one, other = Scene(server, 1), Scene(server, 2)
    one.do("LOCK.RELEASE k o")
    assert [watcher.reply() for watcher in one.waiters] == ["LOST", "LOST"]
    other.both_still_wait()
    other.do("FLUSHDB")
    other.both_receive("LOST")
    assert watchers(server) == 0


@pytest.mark.parametrize("loss", [
    "SET k v", "SORT x STORE k", "DEL k", "PEXPIRE k 1", "LOCK.RELEASE k o", "SWAPDB 0 1",
])  # fmt: skip
def test_first_watch_of_a_server_receives_lost(make_server, loss):
    server = make_server()
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 0)
    server.control.rpush("x", 1)
    scene = Scene(server)
    scene.do(loss)
    scene.both_receive("LOST")
