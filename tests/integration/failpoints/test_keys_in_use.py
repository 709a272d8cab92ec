"""A key that is opened for writing is in use by the server, as in a snapshot without a fork: commands are refused and
change nothing; other events are handled later.
"""

import pytest
from redis.exceptions import ResponseError

from harness import failpoint, scaled_ms, wait_for
from model.failpoint_invariants import locks_in, torn
from model.failpoint_play import Play
from model.failpoint_scene import CONFIG, LONG, SCENES, Scene

pytestmark = pytest.mark.usefixtures("checking_build")

IN_USE = "TRYAGAIN the key is being written to a snapshot"


@pytest.fixture(scope="module")
def new_server():
    return lambda make: make(**CONFIG)


# ---- commands without waiters ----

COMMANDS = dict(
    acquire=((), "LOCK.ACQUIRE k a", 1),
    acquire_again=(("LOCK.ACQUIRE k a",), "LOCK.ACQUIRE k a", 1),
    acquire_once=(("LOCK.ACQUIRE k a",), "LOCK.ACQUIRE k a ONCE", 1),
    acquire_with_token=((), "LOCK.ACQUIRE k a FENCED", 2),
    acquire_again_with_token=(("LOCK.ACQUIRE k a FENCED",), "LOCK.ACQUIRE k a FENCED", 2),
    fair=((), "LOCK.FAIR k a", 3),
    fair_with_token=((), "LOCK.FAIR k a FENCED", 4),
    read=((), "LOCK.RWREAD k a", 2),
    read_too=(("LOCK.RWREAD k b",), "LOCK.RWREAD k a", 2),
    write=((), "LOCK.RWWRITE k a", 2),
    write_with_token=((), "LOCK.RWWRITE k a FENCED", 3),
    write_while_reading=(("LOCK.RWREAD k a",), "LOCK.RWWRITE k a", 2),
    permits=((), "LOCK.SEMAPHORE k a 3 PERMITS 2", 2),
    permits_too=(("LOCK.SEMAPHORE k b 3",), "LOCK.SEMAPHORE k a 3 PERMITS 2", 2),
    multikey=((), "LOCK.MACQUIRE 3 k l m a", 3),
    multikey_again=(("LOCK.ACQUIRE l a",), "LOCK.MACQUIRE 3 k l m a", 3),
    busy=(("LOCK.ACQUIRE k b",), "LOCK.ACQUIRE k a", 1),
    release=(("LOCK.ACQUIRE k a",), "LOCK.RELEASE k a", 1),
    release_read=(("LOCK.RWREAD k a", "LOCK.RWREAD k b"), "LOCK.RELEASE k a", 2),
    release_last_read=(("LOCK.RWREAD k a",), "LOCK.RELEASE k a", 2),
    release_write=(("LOCK.RWREAD k a", "LOCK.RWWRITE k a"), "LOCK.RELEASE k a WRITE", 2),
    release_permits=(("LOCK.SEMAPHORE k a 3 PERMITS 2", "LOCK.SEMAPHORE k b 3"), "LOCK.RELEASE k a PERMITS 1", 2),
    release_multikey=(("LOCK.MACQUIRE 2 k l a", "LOCK.RWREAD m a"), "LOCK.MRELEASE 3 k l m a", 4),
    renew=(("LOCK.ACQUIRE k a",), f"LOCK.RENEW k a PX {2 * LONG}", 1),
    renew_write=(("LOCK.RWWRITE k a",), f"LOCK.RENEW k a PX {2 * LONG}", 2),
    renew_permits=(("LOCK.SEMAPHORE k a 3", "LOCK.SEMAPHORE k b 3"), f"LOCK.RENEW k a PX {2 * LONG}", 2),
    force=(("LOCK.ACQUIRE k a",), "LOCK.FORCE k", 1),
    force_readers=(("LOCK.RWREAD k a", "LOCK.RWREAD k b"), "LOCK.FORCE k", 2),
    cancel_or_release=(("LOCK.ACQUIRE k a",), "LOCK.CANCEL k a RELEASE", 3),
    guard=(("LOCK.ACQUIRE k a",), "LOCK.GUARD k a SET other 1", 1),
    guard_by_read=(("LOCK.RWREAD k a", "LOCK.RWREAD k b"), "LOCK.GUARD k a SET other 1", 2),
    latch_set=((), "LATCH.SET l 3", 1),
    latch_set_again=(("LATCH.SET l 2",), "LATCH.SET l 3", 1),
    latch_open=(("LATCH.SET l 2",), "LATCH.SET l 0", 1),
    latch_down=(("LATCH.SET l 2",), "LATCH.DOWN l", 1),
    latch_down_to_0=(("LATCH.SET l 1",), "LATCH.DOWN l", 1),
    delay_push=((), f"DELAY.PUSH q id {LONG} value", 2),
    delay_push_again=((f"DELAY.PUSH q id {LONG} value",), f"DELAY.PUSH q id {LONG} other", 2),
    delay_cancel=((f"DELAY.PUSH q id {LONG} value",), "DELAY.CANCEL q id", 2),
)  # fmt: skip
"""The commands before, the command, and how many keys it opens for writing."""


@pytest.fixture
def later(server):
    """The server, when it does not look for positions from before its start any more."""

    client = server.actor()

    def opens_one_key():
        with failpoint.key_in_use(server, 2) as is_in_use:
            client.attempt("LOCK.ACQUIRE", "k", "a")
            return not is_in_use()

    wait_for(opens_one_key, what="the reserves from before the start to end")
    server.control.flushall()
    return server


def state_of(server):
    info = server.info("lock")
    counts = [info[field] for field in ("lock_waiters", "lock_contended_locks", "lock_sessions")]
    return server.dump(), counts, server.blocked_clients()


def check_refused(server, before, command, keys):
    """Sends the command with each of its keys in use, one after the other."""
    client = server.actor()
    for line in before:
        assert not isinstance(client.attempt(*line.split()), ResponseError)
    state = state_of(server)
    for count in range(1, keys + 1):
        with failpoint.key_in_use(server, count) as is_in_use:
            reply = client.attempt(*command.split())
            assert is_in_use(), f"it opens {count - 1} keys"
            assert str(reply) == IN_USE, f"key {count}: {reply}"
            assert state_of(server) == state, f"key {count}"
    return client


@pytest.mark.parametrize("before, command, keys", COMMANDS.values(), ids=COMMANDS)
def test_command_on_a_key_in_use_is_refused_and_changes_nothing(later, before, command, keys):
    server = later
    client = check_refused(server, before, command, keys)
    # It opens no other key, and then it works as usual.
    with failpoint.key_in_use(server, keys + 1) as is_in_use:
        reply = client.attempt(*command.split())
        assert not is_in_use(), f"it opens more than {keys} keys"
    assert not isinstance(reply, ResponseError), reply
    server.control.flushall()
    for line in before:
        client.call(*line.split())
    again = client.attempt(*command.split())
    assert reply == again or "FENCED" in command


@pytest.mark.parametrize("command", ["LOCK.ACQUIRE k b", "LOCK.RWREAD k b", "LOCK.SEMAPHORE k b 1", "LOCK.FAIR k b"])
def test_request_that_would_wait_is_refused_too(later, command):
    server = later
    client = server.actor()
    client.call("LOCK.ACQUIRE", "k", "a")
    state = state_of(server)
    with failpoint.key_in_use(server, 1):
        assert str(client.attempt(*command.split(), "BLOCK", 0)) == IN_USE
        assert state_of(server) == state


@pytest.mark.parametrize("command", ["LOCK.INFO k", "LATCH.WAIT k", "DELAY.LIST k", "LOCK.WATCH k a"])
def test_read_only_command_opens_no_key_for_writing(server, command):
    with failpoint.key_in_use(server, 1) as is_in_use:
        assert not isinstance(server.actor().attempt(*command.split()), ResponseError)
        assert not is_in_use()


# ---- waiters, the drain, sessions ----


def play_with(server, scene, count):
    """Runs the scene with the `count`th key in use; returns whether that many keys were opened."""
    play = Play(server, scene).begin()
    with failpoint.key_in_use(server, count) as is_in_use:
        play.connect(*(line.split()[0] for line in scene.then if not line.startswith("at_once ")))
        for party in play.parties.values():
            party.refused = []
        play.go()
        if any(line.endswith(" DIES") for line in scene.then):
            gone = lambda: is_in_use() or server.info("lock")["lock_sessions"] == 0
            wait_for(gone, what="the session to end")
        server.settle()
        play.receive()
        reached = is_in_use()
        assert not torn(server.dump(), play.multikey, play.fenced)
    for party in play.parties.values():
        party.resend()
    play.finish()
    for key in locks_in(server.dump()) if "PERMITS" in str(scene) else ():
        server.control.execute_command("LOCK.FORCE", key)  # a release only releases one permit
    play.check_nothing_left()
    server.control.flushall()
    return reached


PLAYED = {name: scene for name, scene in SCENES.items() if "REPLICAS" not in str(scene) and "at_once" not in str(scene)}


@pytest.mark.parametrize("scene", PLAYED.values(), ids=PLAYED)
def test_key_in_use_delays_a_scene_and_loses_nothing(server, scene):
    count = 1
    while play_with(server, scene, count):
        count += 1
    assert count > 1


def lost(name, count):
    """The client of a grant dies, and then the `count`th key that is opened is in use."""
    scene, arms = SCENES[name], f'at_once CONFIG SET lock.failpoint "open fail {count}"'
    first, *others = scene.then
    return Scene(scene.before, (first, arms, *others), moved=scene.moved)


def each_key(**opened):
    """Parameters: for each name its keys, one after the other, with their numbers in the order in which they are
    opened."""
    return [
        pytest.param(what, number, id=f"{what}-{key}")
        for what, keys in opened.items()
        for number, key in enumerate(keys, 1)
    ]


LOST = each_key(
    loses_a_grant=["k"],
    loses_two_multikey_waits=["k", "l"],
    loses_a_multikey_grant=["k", "l", "m", "queue_of_m", "timeout_of_m"],
)


@pytest.mark.parametrize("name, count", LOST)
def test_grant_of_a_dead_client_is_released_later(server, name, count):
    play = Play(server, lost(name, count)).begin()
    play.go()
    wait_for(lambda: failpoint.armed(server) == "open in-use", what="the key to be in use")
    server.settle()
    server.control.config_set(failpoint.CONFIG, "")
    play.finish()
    play.check_nothing_left()


def test_lost_grant_whose_key_is_in_use_delays_no_other_release(server):
    """Two clients die right after their grants; the key of the first grant is in use."""
    scene = Scene(
        ("a LOCK.MACQUIRE 2 k l a", *(f"{name} LOCK.ACQUIRE {key} {name} BLOCK 0" for name, key in ("bk", "cl", "dk", "el"))),
        (
            "at_once LOCK.MRELEASE 2 k l a",
            'at_once CONFIG SET lock.failpoint "open fail 1"',
            "at_once CLIENT KILL ID {b}",
            "at_once CLIENT KILL ID {c}",
        ),
    )
    play = Play(server, scene).begin()
    play.go()
    wait_for(lambda: failpoint.armed(server) == "open in-use", what="the key to be in use")
    play.parties["e"].actor.reply()
    assert not play.parties["d"].actor.has_reply()
    server.control.config_set(failpoint.CONFIG, "")
    play.parties["d"].actor.reply()


def test_lease_end_hands_off_when_the_key_is_no_longer_in_use(server):
    a, b = server.actor("a"), server.actor("b")
    a.call("LOCK.ACQUIRE", "k", "a", "PX", scaled_ms(50))
    b.send("LOCK.ACQUIRE", "k", "b", "BLOCK", 0)
    b.wait_blocked()
    with failpoint.key_in_use(server, 1) as is_in_use:
        wait_for(is_in_use, what="the drain to open the key")
        server.settle()
        assert not b.has_reply()
    assert b.reply() == 1


def test_positions_are_written_when_the_keys_are_no_longer_in_use(server):
    """No other event of the lock makes the module open its keys."""
    a = server.actor("a")
    a.call("LOCK.FAIR", "k", "a", "PX", LONG)
    waiting = {name: server.actor(name) for name in "bcd"}
    for name, actor in waiting.items():
        actor.send("LOCK.FAIR", "k", name, "BLOCK", 0)
        actor.wait_blocked()

    def positions():
        return [set(server.control.zrange(f"lock:{which}:{{k}}", 0, -1)) for which in ("queue", "timeout")]

    for count, name in enumerate("bcd", 1):  # the lock itself, the queue, the ends
        before = positions()
        with failpoint.key_in_use(server, count) as is_in_use:
            assert a.call("LOCK.CANCEL", "k", name) == 1
            assert waiting[name].reply() is None
            assert is_in_use()
            server.settle()
            assert positions() == before or count == 1
        wait_for(lambda: positions() == [before[0] - {name}] * 2, what=f"the position of {name} to be removed")


@pytest.mark.parametrize("count", [1, 2], ids=["due", "value"])
def test_delivery_waits_until_the_keys_are_no_longer_in_use(server, count):
    client = server.actor()
    client.call("DELAY.PUSH", "q", "id", scaled_ms(50), "value")
    with failpoint.key_in_use(server, count) as is_in_use:
        wait_for(is_in_use, what="the module to open the queue's keys")
        server.settle()
        assert not server.control.exists("q")
    wait_for(lambda: server.control.lrange("q", 0, -1) == ["value"], what="the delivery")
    assert not server.control.exists("delay:due:{q}", "delay:value:{q}")
    server.settle()
    assert server.control.llen("q") == 1


SESSION_KEYS = pytest.mark.parametrize(
    "command, count", each_key(**{"LOCK.ACQUIRE": ["k"], "LOCK.RWWRITE": ["k", "lease_of_k"]})
)


@SESSION_KEYS
def test_session_ends_when_the_keys_are_no_longer_in_use(server, command, count):
    a, b = server.actor("a"), server.actor("b")
    a.call(command, "k", "a", "SESSION")
    b.send(command, "k", "b", "BLOCK", 0)
    b.wait_blocked()
    with failpoint.key_in_use(server, count) as is_in_use:
        a.kill_socket()
        wait_for(is_in_use, what="the session to end")
        server.settle()
        assert not b.has_reply()
    assert b.reply() == 1
    assert b.call("LOCK.RELEASE", "k", "b") == 0


@SESSION_KEYS
def test_renewal_is_skipped_while_the_keys_are_in_use_and_repeated(server, command, count):
    server.control.config_set("lock.default-lease", scaled_ms(600))
    a = server.actor("a")
    a.call(command, "k", "a", "SESSION")
    end_ms = server.control.pexpiretime("k")
    with failpoint.key_in_use(server, count) as is_in_use:
        wait_for(is_in_use, what="the renewal")
    assert server.control.pexpiretime("k") == end_ms
    wait_for(lambda: server.control.pexpiretime("k") > end_ms, what="the next renewal")
    assert not torn(server.dump())


@pytest.mark.parametrize("count", [2, 3], ids=["k", "m"])
def test_multikey_wait_is_granted_when_no_key_is_in_use_any_more(server, count):
    """The last lock is released while another one, which is free, is in use: no grant pass for that one is due."""
    a, b = server.actor("a"), server.actor("b")
    a.call("LOCK.ACQUIRE", "l", "a")
    b.send("LOCK.MACQUIRE", 3, "k", "l", "m", "b", "BLOCK", 0)
    b.wait_blocked()
    with failpoint.key_in_use(server, count) as is_in_use:
        assert a.call("LOCK.RELEASE", "l", "a") == 0
        assert is_in_use()
        server.settle()
        assert not b.has_reply()
        assert not server.control.exists("k", "l", "m")
    assert b.reply() == 3
    assert b.call("LOCK.MRELEASE", 3, "k", "l", "m", "b") == 3


@pytest.mark.parametrize("line", ["LOCK.ACQUIRE k b FENCED", "LOCK.RWWRITE k b", "LOCK.SEMAPHORE k b 2", "LOCK.FAIR k b FENCED"])
def test_waiter_is_granted_when_its_side_keys_are_no_longer_in_use(server, line):
    """The key of its leases or of its token is the second key that the release opens."""
    a, b = server.actor("a"), server.actor("b")
    a.call("LOCK.ACQUIRE", "k", "a")
    b.send(*line.split(), "BLOCK", 0)
    b.wait_blocked()
    with failpoint.key_in_use(server, 2) as is_in_use:
        assert a.call("LOCK.RELEASE", "k", "a") == 0
        assert is_in_use()
        server.settle()
        assert not b.has_reply()
        assert not server.control.exists("k")
    assert b.reply() > 0
    assert not torn(server.dump(), fenced=[("b", "k")] if "FENCED" in line else [])


def test_holder_in_the_middle_of_the_queue_is_granted_later(server):
    """It holds the lock already, as another client has written, and its token cannot be written when the drain runs."""
    a, b, c = (server.actor(name) for name in "abc")
    a.call("LOCK.ACQUIRE", "k", "a")
    for who in (c, b):
        who.send("LOCK.ACQUIRE", "k", who.name, "FENCED", "BLOCK", 0)
        who.wait_blocked()
    other = server.actor("b2")
    with failpoint.key_in_use(server, 2) as is_in_use:
        server.control.hset("k", "b", 1)
        server.control.hdel("k", "a")
        wait_for(is_in_use, what="the drain to open the keys")
        server.settle()
        assert not b.has_reply() and not c.has_reply()
    assert b.reply() > 0
    assert other.call("LOCK.RELEASE", "k", "b") == 1
    assert other.call("LOCK.RELEASE", "k", "b") == 0
    assert c.reply() > 0
