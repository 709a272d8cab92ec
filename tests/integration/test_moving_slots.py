"""While a slot moves its keys travel one by one: what needs a side key answers TRYAGAIN, at both ends.

A side key that both nodes had would stop the move: MIGRATE finds it twice, and says BUSYKEY.
"""

from itertools import count, permutations

import pytest
from redis.exceptions import ResponseError

from harness import code_of, scaled_ms, wait_for
from harness.schedule import as_map, error
from test_cluster import HALF, HOST, LONG, begin_move, is_redirection, key, make_nodes, migrate, nodes

__all__ = ["key", "nodes"]  # fixtures

TRY_AGAIN = "TRYAGAIN the slot of this lock is being moved"
SIDES = ("token", "queue", "timeout", "lease")
SHORT = scaled_ms(300)


def side(kind, name):
    return f"lock:{kind}:{{{name}}}"


def has_said(heard):
    return str(heard) if isinstance(heard, ResponseError) else heard


class End:
    """A node at one end of a move. Of what is not there yet the target is asked by ASKING."""

    def __init__(self, node, asks):
        self.node, self.asks, self.actor = node, asks, node.server.actor()

    def attempt(self, *words):
        if self.asks:
            assert self.actor.call("ASKING") == "OK"
        return has_said(self.actor.attempt(*words))


def ends_of(nodes):
    one, two = nodes
    return End(one, asks=False), End(two, asks=True)


def names_of(one):
    """Names of the first node's, of different slots."""
    return (str(number) for number in count() if one.cluster("KEYSLOT", number) <= HALF)


def keys_in(node, slot):
    return set(node.cluster("GETKEYSINSLOT", slot, 1000))


def assert_nothing_twice(nodes, slot):
    twice = set.intersection(*(keys_in(node, slot) for node in nodes))
    assert not twice, f"both nodes have {twice}"


def contents(ends, slot):
    """Of all keys of the slot, at either end."""
    found = {}
    for end in ends:
        for name in keys_in(end.node, slot):
            fields = end.attempt("HGETALL", name)
            found[name] = [fields if isinstance(fields, list) else end.attempt("ZRANGE", name, 0, -1, "WITHSCORES")]
            found[name].append(end.attempt("PEXPIRETIME", name))
    return found


def finish_move(slot, source, target):
    """As redis-cli --cluster reshard does it."""
    for name in keys_in(source, slot):
        assert source.actor.call("MIGRATE", HOST, target.server.port, name, 0, 5000) in ("OK", "NOKEY")
    for node in (target, source):
        node.cluster("SETSLOT", slot, "NODE", target.id)


def call_off(nodes, slot):
    for node in nodes:
        node.cluster("SETSLOT", slot, "STABLE")


# ---- what the commands answer ----

# Each of a lock that oa holds by HELD; the answer while its slot moves.
HELD_PLAINLY = (
    ("LOCK.ACQUIRE {} oa", 2),
    ("LOCK.ACQUIRE {} ob", None),
    ("LOCK.ACQUIRE {} ob FENCED", TRY_AGAIN),
    ("LOCK.ACQUIRE {} oa FENCED", TRY_AGAIN),
    ("LOCK.ACQUIRE {} ob FENCED BLOCK 0", TRY_AGAIN),
    ("LOCK.FAIR {} oa", TRY_AGAIN),
    ("LOCK.FAIR {} ob BLOCK 0", TRY_AGAIN),
    ("LOCK.RWREAD {} ob", TRY_AGAIN),
    ("LOCK.RWREAD {} ob BLOCK 0", TRY_AGAIN),
    ("LOCK.RWWRITE {} ob", TRY_AGAIN),
    ("LOCK.RWWRITE {} ob BLOCK 0 FENCED", TRY_AGAIN),
    ("LOCK.RELEASE {} oa", 0),
    ("LOCK.RELEASE {} ob", "NOTHELD the owner holds no such lock"),
    ("LOCK.RENEW {} oa PX 500000", 1),
    ("LOCK.CANCEL {} ob", TRY_AGAIN),
    ("LOCK.FORCE {}", 1),
    ("LOCK.INFO {}", TRY_AGAIN),
    ("LOCK.GUARD {} oa EXISTS {}", 1),
    ("LOCK.MACQUIRE 1 {} oa", 1),
    ("LOCK.MACQUIRE 1 {} ob", None),
    ("LOCK.MRELEASE 1 {} oa", 1),
)
HELD_TO_READ = tuple(
    (words, TRY_AGAIN)
    for words in (
        "LOCK.ACQUIRE {} oa",
        "LOCK.ACQUIRE {} ob BLOCK 0",
        "LOCK.FAIR {} ob BLOCK 0",
        "LOCK.RWREAD {} oa",
        "LOCK.RWREAD {} ob",
        "LOCK.RWWRITE {} oa",
        "LOCK.RELEASE {} oa",
        "LOCK.RELEASE {} oa READ",
        "LOCK.RELEASE {} ob",
        "LOCK.RENEW {} oa PX 500000",
        "LOCK.CANCEL {} ob",
        "LOCK.FORCE {}",
        "LOCK.INFO {}",
        "LOCK.GUARD {} oa EXISTS {}",
        "LOCK.MACQUIRE 1 {} ob",
        "LOCK.MACQUIRE 1 {} ob BLOCK 0",
        "LOCK.MRELEASE 1 {} oa",
    )
)
HELD = {
    "plainly": ("LOCK.ACQUIRE {} oa PX 600000", HELD_PLAINLY),
    "to read": ("LOCK.RWREAD {} oa PX 600000", HELD_TO_READ),
    "to write": ("LOCK.RWWRITE {} oa PX 600000", HELD_TO_READ),
}


@pytest.mark.parametrize("held, answers", HELD.values(), ids=HELD)
@pytest.mark.parametrize("end", ["source", "target"])
def test_answers_while_a_slot_moves(nodes, held, answers, end):
    one, two = nodes
    source, target = ends_of(nodes)
    names = names_of(one)
    for words, expected in answers:
        name = next(names)
        slot = one.cluster("KEYSLOT", name)
        assert source.attempt(*held.format(name).split()) == 1
        begin_move(slot, one, two)
        if end == "target":
            migrate(name, one, two)
        asked = source if end == "source" else target
        before = contents((source, target), slot)
        assert asked.attempt(*words.replace("{}", name).split()) == expected, words
        if expected == TRY_AGAIN:
            assert contents((source, target), slot) == before, words
        assert_nothing_twice(nodes, slot)
        finish_move(slot, one, two)
        target.attempt("LOCK.FORCE", name)
        assert not keys_in(one, slot)
    assert two.server.info("lock")["lock_waiters"] == 0


def test_script_and_transaction_that_need_side_keys_in_a_moving_slot(nodes, key):
    (one, two), (name, slot) = nodes, key
    source, target = ends_of(nodes)
    assert source.attempt("LOCK.ACQUIRE", name, "oa", "PX", LONG) == 1
    begin_move(slot, one, two)
    for end in source, target:
        script = "return redis.pcall('LOCK.FAIR', KEYS[1], 'oa')"
        assert end.attempt("EVAL", script, 1, name) == TRY_AGAIN
        if end is source:
            migrate(name, one, two)
    target.actor.call("ASKING")
    target.actor.call("MULTI")
    target.actor.call("ASKING")
    target.actor.call("LOCK.RWREAD", name, "oa")
    target.actor.call("ASKING")
    assert has_said(target.actor.call("EXEC")[1]) == TRY_AGAIN


def test_slot_that_does_not_move_is_as_ever(nodes, key):
    """Also after a move that was called off, and one that is over; and other slots are never concerned."""
    (one, two), (name, slot) = nodes, key
    source, target = ends_of(nodes)
    other = next(n for n in names_of(one) if one.cluster("KEYSLOT", n) != slot)
    begin_move(slot, one, two)
    assert source.attempt("LOCK.FAIR", other, "oa") == 1
    call_off(nodes, slot)
    assert source.attempt("LOCK.FAIR", name, "oa") == 1
    assert as_map(source.attempt("LOCK.INFO", name))["mode"] == "exclusive"
    begin_move(slot, one, two)
    finish_move(slot, one, two)
    assert target.attempt("LOCK.FAIR", name, "oa") == 2
    assert as_map(target.attempt("LOCK.INFO", name))["mode"] == "exclusive"


# ---- the keys on their way ----


BARRAGE = (
    "LOCK.ACQUIRE {} oa PX 600000",
    "LOCK.ACQUIRE {} ob PX 600000 FENCED",
    "LOCK.FAIR {} oa PX 600000",
    "LOCK.FAIR {} oc PX 600000 FENCED",
    "LOCK.RWREAD {} or PX 600000",
    "LOCK.RWREAD {} os PX 500000",
    "LOCK.RWWRITE {} ow PX 600000 FENCED",
    "LOCK.RENEW {} oa PX 700000",
    "LOCK.RENEW {} or PX 700000",
    "LOCK.GUARD {} or EXISTS {}",
    "LOCK.CANCEL {} of",
    "LOCK.INFO {}",
    "LOCK.RELEASE {} or",
    "LOCK.RELEASE {} oa",
    "LOCK.MACQUIRE 1 {} oa PX 600000",
    "LOCK.MRELEASE 1 {} oa",
)


def barrage(ends, name):
    """Everything that may be said, at both ends, but what frees the lock."""
    for words in BARRAGE:
        for end in ends:
            end.attempt(*words.replace("{}", name).split())


def fill_plain(one, name):
    """A plain lock with a token, and a fair queue with a client in it. Returns the token and the client."""
    token = one.actor.call("LOCK.FAIR", name, "oa", "PX", LONG, "FENCED")
    waiter = one.server.actor()
    waiter.send("LOCK.FAIR", name, "of", "BLOCK", 0)
    return token, waiter.wait_blocked()


def fill_read(one, name):
    """A read-write lock with a token, and two readers whose leases are their own."""
    token = one.actor.call("LOCK.RWWRITE", name, "oa", "PX", LONG, "FENCED")
    assert one.actor.call("LOCK.RELEASE", name, "oa") == 0
    for owner, lease in ("or", LONG), ("os", LONG // 2):
        assert one.actor.call("LOCK.RWREAD", name, owner, "PX", lease) == 1
    return token, None


KINDS = {"plain": (fill_plain, ("token", "queue", "timeout")), "read": (fill_read, ("token", "lease"))}


@pytest.mark.parametrize("fill, kinds", KINDS.values(), ids=KINDS)
def test_keys_travel_in_every_order_and_meet_nothing(nodes, fill, kinds):
    one, two = nodes
    ends, names = ends_of(nodes), names_of(one)
    for order in permutations(("", *kinds)):
        name = next(names)
        slot = one.cluster("KEYSLOT", name)
        token, waiter = fill(one, name)
        on_the_way = [side(kind, name) if kind else name for kind in order]
        assert keys_in(one, slot) == set(on_the_way)
        begin_move(slot, one, two)
        for travelling in on_the_way:
            barrage(ends, name)
            assert_nothing_twice(nodes, slot)
            assert one.actor.call("MIGRATE", HOST, two.server.port, travelling, 0, 5000) in ("OK", "NOKEY")
        barrage(ends, name)
        for end in ends:
            end.attempt("LOCK.FORCE", name)
        assert_nothing_twice(nodes, slot)
        if waiter:
            assert is_redirection(waiter.outcome())
        finish_move(slot, one, two)
        assert two.actor.attempt("LOCK.FORCE", name) in (0, 1)
        assert two.actor.call("LOCK.ACQUIRE", name, "on", "PX", LONG, "FENCED") > token
        assert two.actor.call("LOCK.RELEASE", name, "on") == 0
    assert [node.server.info("lock")["lock_waiters"] for node in nodes] == [0, 0]


# ---- who waits when the slot begins to move ----

WAITS = {
    "fair": "LOCK.FAIR {} {} BLOCK 0",
    "fenced": "LOCK.ACQUIRE {} {} FENCED BLOCK 0",
    "read": "LOCK.RWREAD {} {} BLOCK 0",
    "write": "LOCK.RWWRITE {} {} BLOCK 0",
    "plain": "LOCK.ACQUIRE {} {} BLOCK 0",
}


def begins_to_wait(node, words, name, owner):
    waiter = node.server.actor(owner)
    waiter.send(*words.format(name, owner).split())
    return waiter.wait_blocked()


def test_release_in_a_moving_slot_passes_the_lock_to_who_needs_no_side_key(nodes, key):
    """The others ask again."""
    (one, two), (name, slot) = nodes, key
    assert one.actor.call("LOCK.ACQUIRE", name, "oa", "PX", LONG) == 1
    waiters = {kind: begins_to_wait(one, words, name, kind) for kind, words in WAITS.items()}
    second = begins_to_wait(one, WAITS["plain"], name, "second")
    begin_move(slot, one, two)
    before = keys_in(one, slot)
    assert one.actor.call("LOCK.RELEASE", name, "oa") == 0
    assert waiters.pop("plain").reply() == 1
    for waiter in waiters.values():
        assert str(waiter.outcome()) == TRY_AGAIN
    assert not second.has_reply()
    assert keys_in(one, slot) == before  # no token, no leases
    assert one.actor.call("HGETALL", name) == ["plain", "1"]
    migrate(name, one, two)
    assert is_redirection(second.outcome())
    finish_move(slot, one, two)
    assert two.actor.call("LOCK.RELEASE", name, "plain") == 0
    for node in nodes:
        assert node.server.info("lock")["lock_waiters"] == 0
    wait_for(lambda: one.server.info("lock")["lock_contended_locks"] == 0, what="the lock to be forgotten")


@pytest.mark.parametrize("cause", ["lease end", "DEL"])
def test_lock_that_goes_in_a_moving_slot_leaves_nobody_hanging(nodes, cause):
    one, two = nodes
    for name, (kind, words) in zip(names_of(one), WAITS.items(), strict=False):
        slot = one.cluster("KEYSLOT", name)
        assert one.actor.call("LOCK.ACQUIRE", name, "oa", "PX", LONG) == 1
        waiter = begins_to_wait(one, words, name, kind)
        begin_move(slot, one, two)
        before = keys_in(one, slot)
        assert one.actor.call(*(("DEL", name) if cause == "DEL" else ("PEXPIRE", name, SHORT))) == 1
        assert is_redirection(waiter.outcome(timeout=10))
        assert keys_in(one, slot) - {name} == before - {name}  # what has expired may still be there
        finish_move(slot, one, two)
        assert two.actor.call("LOCK.FAIR", name, kind) == 1


def test_readers_who_wait_behind_a_writer_are_sent_away(nodes, key):
    (one, two), (name, slot) = nodes, key
    assert one.actor.call("LOCK.RWWRITE", name, "oa", "PX", LONG) == 1
    readers = [begins_to_wait(one, WAITS["read"], name, f"o{number}") for number in range(3)]
    begin_move(slot, one, two)
    migrate(side("lease", name), one, two)
    assert str(one.actor.attempt("LOCK.RELEASE", name, "oa")) == TRY_AGAIN
    one.server.settle(30)
    assert not any(reader.has_reply() for reader in readers)
    finish_move(slot, one, two)
    for reader in readers:
        assert is_redirection(reader.outcome())
    assert two.actor.call("LOCK.RELEASE", name, "oa") == 0


def fair_wait(nodes, key, reserve_ms):
    (one, _), (name, _) = nodes, key
    one.server.control.config_set("lock.fair-reserve", reserve_ms)
    assert one.actor.call("LOCK.ACQUIRE", name, "oa", "PX", LONG) == 1
    return begins_to_wait(one, WAITS["fair"], name, "of")


def test_fair_waiter_that_dies_while_its_slot_moves_writes_nothing(nodes, key):
    """Its place is kept for a while; the key that is to say how long is on the other node."""
    (one, two), (name, slot) = nodes, key
    waiter = fair_wait(nodes, key, LONG)
    begin_move(slot, one, two)
    migrate(side("timeout", name), one, two)
    waiter.kill_socket()
    wait_for(lambda: one.server.info("lock")["lock_waiters"] == 0, what="the waiter to go")
    one.server.settle(30)
    assert one.actor.call("LOCK.RENEW", name, "oa", "PX", LONG) == 1
    assert_nothing_twice(nodes, slot)
    finish_move(slot, one, two)
    wait_for(lambda: one.server.info("lock")["lock_contended_locks"] == 0, 10, "the lock to be forgotten")
    assert not keys_in(one, slot)


def test_place_that_is_over_is_written_down_when_the_move_is_called_off(nodes, key):
    (one, two), (name, slot) = nodes, key
    waiter = fair_wait(nodes, key, 1)
    begin_move(slot, one, two)
    waiter.kill_socket()
    wait_for(lambda: one.server.info("lock")["lock_waiters"] == 0, what="the waiter to go")
    one.server.settle(30)
    assert one.actor.call("ZRANGE", side("queue", name), 0, -1) == ["of"]
    call_off(nodes, slot)
    wait_for(lambda: keys_in(one, slot) == {name}, 10, "the place to be removed")
    wait_for(lambda: one.server.info("lock")["lock_contended_locks"] == 0, 10, "the lock to be forgotten")


def test_places_on_their_way_are_not_read(nodes, key):
    """A plain request just after a start reads what is kept of a fair queue: not while only half of it is here."""
    (one, two), (name, slot) = nodes, key
    two.server.control.config_set("lock.fair-reserve", LONG)
    fair_wait(nodes, key, LONG)
    begin_move(slot, one, two)
    migrate(side("queue", name), one, two)
    migrate(name, one, two)
    assert ends_of(nodes)[1].attempt("LOCK.ACQUIRE", name, "ox") is None
    assert two.server.info("lock")["lock_contended_locks"] == 0
    finish_move(slot, one, two)
    assert two.actor.call("LOCK.RELEASE", name, "oa") == 0
    assert two.actor.call("LOCK.FAIR", name, "ox") is None
    assert two.actor.call("LOCK.FAIR", name, "of") == 1


def test_cancel_in_a_moving_slot(nodes):
    """Of a wait that is in memory only it is done."""
    one, two = nodes
    for name, (kind, words) in zip(names_of(one), WAITS.items(), strict=False):
        slot = one.cluster("KEYSLOT", name)
        assert one.actor.call("LOCK.ACQUIRE", name, "oa", "PX", LONG) == 1
        waiter = begins_to_wait(one, words, name, kind)
        begin_move(slot, one, two)
        heard = has_said(one.actor.attempt("LOCK.CANCEL", name, kind))
        if kind == "fair":
            assert heard == TRY_AGAIN
            assert waiter.is_blocked()
            call_off(nodes, slot)
            assert one.actor.call("LOCK.CANCEL", name, kind) == 1
        else:
            assert heard == 1
        assert waiter.reply() is None


def test_cancelled_wait_for_several_keys_hands_nothing_on_that_the_other_node_has(nodes, key):
    """A lock that was only waited for is missing here, so in a moving slot it may be held there."""
    (one, two), (name, slot) = nodes, key
    x, y = f"{{{name}}}x", f"{{{name}}}y"
    assert one.actor.call("LOCK.ACQUIRE", x, "oa", "PX", LONG) == 1
    both = one.server.actor("both")
    both.send("LOCK.MACQUIRE", 2, x, y, "ob", "BLOCK", 0)
    both.wait_blocked()
    behind = begins_to_wait(one, WAITS["plain"], y, "oc")
    begin_move(slot, one, two)
    two.actor.call("ASKING")
    assert two.actor.call("LOCK.ACQUIRE", y, "od", "PX", LONG) == 1
    assert one.actor.call("LOCK.CANCEL", x, "ob") == 1
    assert both.reply() is None
    assert is_redirection(behind.outcome())
    assert_nothing_twice(nodes, slot)


# ---- sessions ----


@pytest.fixture
def session(nodes, key):
    """A connection that has the key as a read lock, bound to it; renewed every third of SHORT * 3."""
    one, _ = nodes
    one.server.control.config_set("lock.default-lease", 3 * SHORT)
    one.server.control.config_set("lock.session-grace", 1)
    actor = one.server.actor("session")
    assert actor.call("LOCK.RWREAD", key[0], "oa", "SESSION") == 1
    return actor


def test_renewal_of_a_read_lock_waits_for_its_slot(nodes, key, session):
    """The leases are on the other node: nothing is written here, and the binding is kept."""
    (one, two), (name, slot) = nodes, key
    begin_move(slot, one, two)
    migrate(side("lease", name), one, two)
    one.server.let_pass(2 * SHORT)
    assert_nothing_twice(nodes, slot)
    assert one.server.info("lock")["lock_sessions"] == 1
    finish_move(slot, one, two)
    wait_for(lambda: one.server.info("lock")["lock_sessions"] == 0, 10, "the binding to be forgotten")
    assert not keys_in(one, slot)


def test_read_lock_of_a_closed_connection_is_given_back_after_the_move(nodes, key, session):
    (one, two), (name, slot) = nodes, key
    assert one.actor.call("LOCK.RENEW", name, "oa", "PX", LONG) == 1
    assert session.call("LOCK.RENEW", name, "oa", "SESSION") == 1
    assert one.actor.call("LOCK.RWREAD", name, "ob", "PX", LONG) == 1  # the lock outlives the session
    begin_move(slot, one, two)
    session.close()
    wait_for(lambda: one.server.info("clients")["connected_clients"] <= 3, what="the connection to close")
    one.server.settle(50)
    assert one.actor.call("HGETALL", name) == ["mode", "read", "oa", "1", "ob", "1"]
    assert one.server.info("lock")["lock_sessions"] == 1
    call_off(nodes, slot)
    wait_for(lambda: one.actor.call("HGETALL", name) == ["mode", "read", "ob", "1"], 10, "the hold to be given back")
    assert one.server.info("lock")["lock_sessions"] == 0


def test_plain_session_in_a_moving_slot_is_renewed_and_given_back_as_ever(nodes, key, session):
    (one, two), (name, slot) = nodes, key
    plain = f"{{{name}}}plain"
    assert session.call("LOCK.ACQUIRE", plain, "oa", "SESSION") == 1
    end = one.actor.call("PEXPIRETIME", plain)
    begin_move(slot, one, two)
    wait_for(lambda: one.actor.call("PEXPIRETIME", plain) > end, 10, "a renewal")
    waiter = begins_to_wait(one, WAITS["plain"], plain, "ob")
    session.close()
    assert waiter.reply(timeout=10) == 1
