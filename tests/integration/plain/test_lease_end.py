"""A lock that ends without a command of the module is handed off too.

The active expiry of the server is switched off here, so that only the module can notice the end of a lease: in such a
small database the expiry cycle would find it within a tenth of a second.
`make bench` measures how soon grants follow; the bounds here only distinguish a grant by the module from chance.
"""

import pytest

from harness import scaled_ms, wait_for
from harness.schedule import error, matches
from model.key_scene import KeyScene

pytestmark = pytest.mark.usefixtures("no_active_expiry")

SOON_MS = 3000
LONG, SHORT = 600_000, scaled_ms(300)


@pytest.fixture
def scene(server, db):
    return Scene(server, db)


class Scene(KeyScene):
    """oa holds k; ob and oc wait for it."""

    SHORT = SHORT

    def __init__(self, server, db=0, lease=("PX", LONG)):
        super().__init__(server, db, "k")
        self.a, self.b, self.c = (server.actor(name, db=db) for name in "abc")
        take = ("LOCK.ACQUIRE", "k", "oa", *lease) if lease else ("HSET", "k", "oa", 1)
        assert self.a.call(*take) == 1
        self.first_end = self.do("PEXPIRETIME k")
        self.waiters = [self.b, self.c]
        for actor, owner in zip(self.waiters, ("ob", "oc"), strict=True):
            actor.send("LOCK.ACQUIRE", "k", owner, "PX", LONG, "BLOCK", 0)
            actor.wait_blocked()

    def is_handed_off(self):
        """Asserts that it is handed off to ob, and to oc when ob releases it."""
        assert self.b.reply(timeout=10) == 1
        assert self.do("HGETALL k") == ["ob", "1"]
        self.server.settle()
        assert not self.c.has_reply() and self.c.is_blocked()
        assert self.b.call("LOCK.RELEASE", "k", "ob") == 0
        assert self.c.reply() == 1
        assert self.do("HGETALL k") == ["oc", "1"]

    def is_handed_off_after(self, end_ms):
        assert end_ms > 0, "the key has no lease"
        assert self.b.reply(timeout=10) == 1
        granted_ms = self.do("PEXPIRETIME k") - LONG
        assert end_ms <= granted_ms <= end_ms + scaled_ms(SOON_MS)
        assert self.b.call("LOCK.RELEASE", "k", "ob") == 0
        assert self.c.reply() == 1

    def until(self, time_ms):
        assert time_ms > 0
        wait_for(lambda: self.server.now_ms() > time_ms, 10, "the old end of a lease to pass")


# ---- the lock is removed ----

REMOVALS = dict(
    DEL=["DEL k"],
    UNLINK=["UNLINK k"],
    RENAME=["RENAME k elsewhere"],
    RENAMENX=["RENAMENX k elsewhere"],
    # Valkey 8.1 leaves the client in the other database.
    MOVE=["MOVE k {other_db}", "SELECT {db}"],
    FLUSHDB=["FLUSHDB"],
    FLUSHDB_SYNC=["FLUSHDB SYNC"],
    FLUSHDB_ASYNC=["FLUSHDB ASYNC"],
    FLUSHALL=["FLUSHALL"],
    FLUSHALL_SYNC=["FLUSHALL SYNC"],
    FLUSHALL_ASYNC=["FLUSHALL ASYNC"],
    SWAPDB=["SWAPDB {db} {other_db}"],
    SWAPDB_named_the_other_way=["SWAPDB {other_db} {db}"],
    HDEL=["HDEL k oa"],
    PEXPIRE_0=["PEXPIRE k 0"],
    EXPIRE_below_0=["EXPIRE k -1"],
    PEXPIREAT_in_the_past=["PEXPIREAT k 1"],
    RESTORE_with_a_time_in_the_past=[lambda scene: scene.restore_over("HSET", "ox", 1, ttl=1, options=["ABSTTL"])],
    MULTI=["MULTI", "DEL k", "EXEC"],
    MULTI_of_many_changes=["MULTI", "HSET k x 1", "RENAME k elsewhere", "SET k v", "DEL k", "EXEC"],
    script=["EVAL return(redis.call('DEL',KEYS[1])) 1 k"],
    script_that_replaces_and_deletes=[
        "EVAL redis.call('SET',KEYS[1],1);return(redis.call('DEL',KEYS[1])) 1 k"
    ],
)


@pytest.mark.parametrize("notify", ["", "KEA"], ids=["no_events", "all_events"])
@pytest.mark.parametrize("commands", REMOVALS.values(), ids=REMOVALS)
def test_lock_that_is_removed_is_handed_off(server, scene, commands, notify):
    server.control.config_set("notify-keyspace-events", notify)
    scene.do(*commands)
    scene.is_handed_off()


def test_lock_that_is_evicted_is_handed_off(server, scene):
    scene.evict()
    scene.is_handed_off()


def test_lock_that_a_reload_does_not_restore_is_handed_off(server, db):
    server.control.execute_command("SAVE")
    scene = Scene(server, db)
    scene.do("DEBUG RELOAD NOSAVE")
    scene.is_handed_off()


def test_owner_field_that_expires_hands_off(server, scene):
    if server.is_valkey and server.version < (9,) or not server.is_valkey and server.version < (7, 4):
        return  # it has no fields with a TTL
    server.control.execute_command("DEBUG", "SET-ACTIVE-EXPIRE", 1)
    scene.do("HPEXPIRE k 50 FIELDS 1 oa")
    scene.is_handed_off()


def test_lock_removed_without_memory_is_handed_off(server, scene):
    """The waiter was accepted before; a new request is refused."""
    server.control.config_set("maxmemory", 1)
    scene.do("DEL k")
    assert scene.b.reply() == 1
    assert matches(error("OOM"), scene.a.attempt("LOCK.ACQUIRE", "l", "oa"))
    assert scene.b.call("LOCK.RELEASE", "k", "ob") == 0
    assert scene.c.reply() == 1


# ---- the lock remains, or another value replaces it ----

REMAINS = dict(
    PERSIST=["PERSIST k"],
    SET=["SET k v"],
    SET_KEEPTTL=["SET k v KEEPTTL"],
    SET_PX=["SET k v PX {HOUR}"],
    GETSET=["SET k v", "GETSET k w"],
    RENAME_onto=["HSET spare ox 1", "RENAME spare k"],
    RENAME_of_another_type_onto=["RPUSH spare x", "RENAME spare k"],
    COPY_onto=["HSET spare ox 1", "COPY spare k REPLACE"],
    RESTORE_over=[lambda scene: scene.restore_over("HSET", "ox", 1)],
    MULTI_DEL_SET=["MULTI", "DEL k", "SET k v", "EXEC"],
    MULTI_DEL_HSET=["MULTI", "DEL k", "HSET k ox 1", "EXEC"],
    MULTI_RENAME_there_and_back=["MULTI", "RENAME k x", "RENAME x k", "EXEC"],
    MULTI_SWAPDB_there_and_back=["MULTI", "SWAPDB {db} {other_db}", "SWAPDB {other_db} {db}", "EXEC"],
    script=["EVAL redis.call('DEL',KEYS[1]);return(redis.call('RPUSH',KEYS[1],'x')) 1 k"],
    HSET_of_another_owner=["HSET k ox 1"],
    HSET_of_an_invalid_count=["HSET k oa none"],
    HINCRBY=["HINCRBY k oa 1"],
    COPY_away=["COPY k elsewhere"],
    DEBUG_RELOAD=["DEBUG RELOAD"],
    FLUSHDB_elsewhere=["SELECT {other_db}", "HSET k x 1", "FLUSHDB", "SELECT {db}"],
    SWAPDB_elsewhere=["SWAPDB {other_db} 8"],
)


@pytest.mark.parametrize("commands", REMAINS.values(), ids=REMAINS)
def test_lock_that_remains_or_is_replaced_is_waited_for_until_removed(scene, commands):
    scene.do(*commands)
    scene.both_still_wait()
    assert scene.do("EXISTS k") == 1
    scene.do("DEL k")
    scene.is_handed_off()


def test_removal_of_a_foreign_field_restores_the_hold(scene):
    scene.do("HSET k ox 1", "HDEL k ox")
    scene.both_still_wait()
    assert scene.a.call("LOCK.RELEASE", "k", "oa") == 0
    scene.is_handed_off()


def test_pop_of_the_last_element_of_a_replacing_list_hands_off(scene):
    scene.do("MULTI", "DEL k", "RPUSH k x y", "EXEC", "LPOP k")
    scene.both_still_wait()
    scene.do("LPOP k")
    scene.is_handed_off()


def test_waiters_stay_in_their_database_when_databases_are_swapped(server, scene, db):
    there = server.actor("there", db=Scene.OTHER_DB)
    assert there.call("LOCK.ACQUIRE", "k", "ox") == 1
    waiter = server.actor("waiter", db=Scene.OTHER_DB)
    waiter.send("LOCK.ACQUIRE", "k", "oy", "BLOCK", 0)
    waiter.wait_blocked()
    scene.do("SWAPDB {db} {other_db}")
    scene.both_still_wait()
    assert waiter.is_blocked() and not waiter.has_reply()
    # What oa holds is now in the other database, and the other way round.
    assert there.call("LOCK.RELEASE", "k", "oa") == 0
    assert waiter.reply() == 1
    scene.both_still_wait()
    assert scene.a.call("LOCK.RELEASE", "k", "ox") == 0
    scene.is_handed_off()


def test_waiters_for_one_key_in_two_databases_are_independent(server):
    one, other = Scene(server, 1), Scene(server, 2)
    other.do("DEL k")
    other.is_handed_off()
    one.both_still_wait()
    one.do("FLUSHDB")
    one.is_handed_off()


# ---- leases ----


def test_lock_is_handed_off_when_the_lease_expires(server, db):
    scene = Scene(server, db, ("PX", scaled_ms(600)))
    scene.is_handed_off_after(scene.first_end)


def test_many_locks_whose_leases_expire_at_once_are_handed_off(server):
    a, waiters = server.actor("a"), [server.actor(str(n)) for n in range(50)]
    for n, waiter in enumerate(waiters):
        a.call("LOCK.ACQUIRE", f"k{n}", "oa")
        waiter.send("LOCK.ACQUIRE", f"k{n}", "ob", "PX", LONG, "BLOCK", 0)
        waiter.wait_blocked()
    end = server.now_ms() + SHORT
    # Together, so that their timers fire together; no command is sent until all are granted.
    a.call("EVAL", "for n = 0, 49 do redis.call('PEXPIREAT', 'k' .. n, ARGV[1]) end", 0, end)
    assert [waiter.reply(timeout=10) for waiter in waiters] == [1] * 50
    for n in range(50):
        assert end <= a.call("PEXPIRETIME", f"k{n}") - LONG <= end + scaled_ms(SOON_MS)


SHORTENED = dict(
    RENEW=["LOCK.RENEW k oa PX {SHORT}"],
    PEXPIRE=["PEXPIRE k {SHORT}"],
    PEXPIRE_twice=["PEXPIRE k 20000", "PEXPIRE k {SHORT}"],
    PERSIST_and_PEXPIRE=["PERSIST k", "PEXPIRE k {SHORT}"],
    RENEW_longer_and_shorter=["LOCK.RENEW k oa EX 9000", "LOCK.RENEW k oa PX {SHORT}"],
    SET_PX=["SET k v PX {SHORT}"],
    SET_KEEPTTL=["PEXPIRE k {SHORT}", "SET k v KEEPTTL"],
    GETEX=["SET k v", "GETEX k PX {SHORT}"],
    RENAME_onto=["HSET spare ox 1", "PEXPIRE spare {SHORT}", "RENAME spare k"],
    COPY_onto=["HSET spare ox 1", "PEXPIRE spare {SHORT}", "COPY spare k REPLACE"],
    RESTORE_over=[lambda scene: scene.restore_over("HSET", "ox", 1, ttl=SHORT)],
    SWAPDB=["SELECT {other_db}", "LOCK.ACQUIRE k ox PX {SHORT}", "SELECT {db}", "SWAPDB {db} {other_db}"],
    script=["EVAL return(redis.call('PEXPIRE',KEYS[1],{SHORT})) 1 k"],
)


@pytest.mark.parametrize("commands", SHORTENED.values(), ids=SHORTENED)
def test_lease_that_was_shortened_hands_off_at_its_new_end(scene, commands):
    scene.do(*commands)
    scene.is_handed_off_after(scene.do("PEXPIRETIME k"))


def test_shortened_lease_hands_off_at_its_new_end_after_a_reload(scene):
    scene.do("PEXPIRE k {SHORT}")
    end = scene.do("PEXPIRETIME k")
    scene.do("DEBUG RELOAD")
    scene.is_handed_off_after(end)


LENGTHENED = dict(
    RENEW=["LOCK.RENEW k oa PX {HOUR}"],
    reentry=["LOCK.ACQUIRE k oa PX {HOUR}"],
    PEXPIRE=["PEXPIRE k {HOUR}"],
    PERSIST=["PERSIST k"],
    SET=["SET k v"],
    COPY_onto=["HSET spare ox 1", "COPY spare k REPLACE"],
)


@pytest.mark.parametrize("commands", LENGTHENED.values(), ids=LENGTHENED)
def test_lease_that_was_extended_does_not_end_at_its_old_end(scene, commands):
    scene.do("PEXPIRE k {SHORT}")
    old_end = scene.do("PEXPIRETIME k")
    scene.do(*commands)
    scene.until(old_end)
    scene.both_still_wait()
    scene.do("PEXPIRE k {SHORT}")
    scene.is_handed_off_after(scene.do("PEXPIRETIME k"))


def test_lock_without_a_lease_is_waited_for_until_it_is_released(server, db):
    scene = Scene(server, db, lease=None)
    scene.both_still_wait()
    assert scene.a.call("LOCK.RELEASE", "k", "oa") == 0
    scene.is_handed_off()


# ---- another client makes the owner of a waiter the holder: rule 2 ----


def test_waiter_whose_owner_was_made_the_holder_reenters(scene):
    scene.do("MULTI", "HSET k ob 1", "HDEL k oa", "EXEC")
    assert scene.b.reply() == 2
    assert scene.do("HGETALL k") == ["ob", "2"]


def test_waiter_behind_others_whose_owner_was_made_holder_reenters(scene):
    scene.do("MULTI", "HSET k oc 1", "HDEL k oa", "EXEC")
    assert scene.c.reply() == 2
    assert scene.b.is_blocked() and not scene.b.has_reply()


def test_waiter_whose_owner_has_the_highest_hold_count_gets_an_error(scene):
    scene.do("MULTI", f"HSET k ob {2**31 - 1}", "HDEL k oa", "EXEC")
    assert matches(error("ERR"), scene.b.outcome())
    assert scene.do("HGETALL k") == ["ob", str(2**31 - 1)]
    scene.do("DEL k")
    assert scene.c.reply() == 1


@pytest.mark.parametrize("names", [("k", "l"), ("l", "k")], ids=" ".join)
def test_lease_of_a_lock_granted_together_with_another_hands_off(server, names):
    """The release of k grants both to b; the lease that l gets is not set by the grant pass of l."""
    a, b, c = (server.actor(name) for name in "abc")
    a.call("LOCK.ACQUIRE", "k", "oa", "PX", LONG)
    b.send("LOCK.MACQUIRE", 2, *names, "ob", "PX", SHORT, "BLOCK", 0)
    b.wait_blocked()
    c.send("LOCK.ACQUIRE", "l", "oc", "PX", LONG, "BLOCK", 0)
    c.wait_blocked()
    a.call("LOCK.RELEASE", "k", "oa")
    assert b.reply() == 2
    assert c.reply() == 1


def test_hold_that_has_expired_is_not_released_with_others(server):
    """Another reader still holds the lock; neither of the two locks is changed."""
    a = server.actor()
    a.call("LOCK.RWREAD", "k", "other", "PX", LONG)
    a.call("LOCK.RWREAD", "k", "o", "PX", SHORT)
    a.call("LOCK.ACQUIRE", "l", "o", "PX", LONG)
    server.let_pass(2 * SHORT)
    assert matches(error("NOTHELD"), a.attempt("LOCK.MRELEASE", 2, "l", "k", "o"))
    assert server.control.hgetall("l") == {"o": "1"}
    assert server.control.hget("k", "other") == "1"


@pytest.mark.timing
def test_long_leases_let_the_server_sleep(server, actor):
    """Redis 7.0 cannot count the time to a timer that is the next one and more than 35 minutes away."""
    hour = 3_600_000  # a multiple that overflows into the past
    assert actor("a").call("LOCK.ACQUIRE", "k", "oa", "PX", hour) == 1
    actor("a").call("LOCK.ACQUIRE", "l", "oa")
    b, c = actor("b"), actor("c")
    b.send("LOCK.ACQUIRE", "k", "ob", "BLOCK", hour)
    c.send("LOCK.ACQUIRE", "l", "oc", "BLOCK", 0)
    b.wait_blocked(), c.wait_blocked()
    server.control.delete("l")  # the module's timer hands off: the next timer is a long one
    assert c.reply() == 1
    actor("c").call("LOCK.RELEASE", "l", "oc")

    def used_ms():
        used = server.info("cpu")
        return 1000 * (used["used_cpu_user"] + used["used_cpu_sys"])

    before, window = used_ms(), 1000
    server.let_pass(window)
    own = server.info("lock")  # the commands of the test cost little
    assert own["lock_waiters"] == 1
    assert used_ms() - before < window / 10  # a server that does not sleep uses all that a busy machine leaves
