"""While a slot moves, its keys move one by one: commands that need a side key reply TRYAGAIN, at both ends.

A side key on both nodes would stop the move: MIGRATE would fail with BUSYKEY.
"""

from itertools import permutations

import pytest

from harness.schedule import as_map
from model.cluster_scene import HOST, LONG, begin_move, is_redirection, migrate
from model.moving_scene import TRY_AGAIN, assert_nothing_twice, call_off, contents, ends_of, finish_move, as_text
from model.moving_scene import keys_in, names_of, side

# ---- the replies to the commands ----

# Commands on a lock that oa holds according to HELD, and their replies while its slot moves.
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
    ("LOCK.SEMAPHORE {} ob 9", TRY_AGAIN),
    ("LOCK.SEMAPHORE {} ob 9 BLOCK 0", TRY_AGAIN),
    ("LOCK.RELEASE {} oa", 0),
    ("LOCK.RELEASE {} ob", "NOTHELD the owner holds no such lock"),
    ("LOCK.RENEW {} oa PX 500000", 1),
    ("LOCK.CANCEL {} ob", TRY_AGAIN),
    ("LOCK.CANCEL {} oa RELEASE", TRY_AGAIN),
    ("LOCK.FORCE {}", 1),
    ("LOCK.INFO {}", TRY_AGAIN),
    ("LOCK.GUARD {} oa EXISTS {}", 1),
    ("LOCK.MACQUIRE 1 {} oa", 1),
    ("LOCK.MACQUIRE 1 {} ob", None),
    ("LOCK.MRELEASE 1 {} oa", 1),
    ("LOCK.MRENEW 1 {} oa PX 500000", 1),
    ("LOCK.MACQUIRE 1 {} oa MODES READ", TRY_AGAIN),
    ("LOCK.MACQUIRE 1 {} ob MODES WRITE", TRY_AGAIN),
    ("LOCK.MACQUIRE 1 {} ob MODES READ BLOCK 0", TRY_AGAIN),
    ("LOCK.MRELEASE 1 {} oa MODES WRITE", "NOTHELD the owner holds no such lock"),
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
        "LOCK.CANCEL {} oa RELEASE",
        "LOCK.FORCE {}",
        "LOCK.INFO {}",
        "LOCK.GUARD {} oa EXISTS {}",
        "LOCK.MACQUIRE 1 {} ob",
        "LOCK.MACQUIRE 1 {} ob BLOCK 0",
        "LOCK.MACQUIRE 1 {} oa MODES READ",
        "LOCK.MACQUIRE 1 {} oa MODES WRITE",
        "LOCK.MACQUIRE 1 {} ob MODES READ",
        "LOCK.MACQUIRE 1 {} ob MODES WRITE BLOCK 0",
        "LOCK.MRELEASE 1 {} oa",
        "LOCK.MRELEASE 1 {} oa MODES READ",
        "LOCK.MRELEASE 1 {} oa MODES WRITE",
        "LOCK.MRENEW 1 {} oa PX 500000",
    )
)
PERMITS = (
    *HELD_TO_READ,
    ("LOCK.SEMAPHORE {} oa 9", TRY_AGAIN),
    ("LOCK.SEMAPHORE {} ob 9 PERMITS 2 BLOCK 0", TRY_AGAIN),
    ("LOCK.RELEASE {} oa PERMITS 1", TRY_AGAIN),
)
HELD = {
    "plainly": ("LOCK.ACQUIRE {} oa PX 600000", HELD_PLAINLY),
    "to read": ("LOCK.RWREAD {} oa PX 600000", HELD_TO_READ),
    "to write": ("LOCK.RWWRITE {} oa PX 600000", HELD_TO_READ),
    "permits": ("LOCK.SEMAPHORE {} oa 9 PX 600000", PERMITS),
}


@pytest.mark.parametrize("held, replies", HELD.values(), ids=HELD)
@pytest.mark.parametrize("end", ["source", "target"])
def test_replies_while_a_slot_moves(nodes, held, replies, end):
    one, two = nodes
    source, target = ends_of(nodes)
    names = names_of(one)
    for words, expected in replies:
        name = next(names)
        slot = one.cluster("KEYSLOT", name)
        assert source.attempt(*held.format(name).split()) == 1
        begin_move(slot, one, two)
        if end == "target":
            migrate(name, one, two)
        node = source if end == "source" else target
        before = contents((source, target), slot)
        assert node.attempt(*words.replace("{}", name).split()) == expected, words
        if expected == TRY_AGAIN:
            assert contents((source, target), slot) == before, words
        assert_nothing_twice(nodes, slot)
        finish_move(slot, one, two)
        target.attempt("LOCK.FORCE", name)
        assert not keys_in(one, slot)
    assert two.server.info("lock")["lock_waiters"] == 0


@pytest.mark.parametrize("first", [0, 1])
def test_multikey_request_with_a_key_that_needs_side_keys_does_not_wait(nodes, key, first):
    """Another owner holds the other key; also when that is free, the request cannot be granted in a moving slot."""
    (one, two), (name, slot) = nodes, key
    source, _ = ends_of(nodes)
    names = [f"{{{name}}}plain", f"{{{name}}}read"]
    for command, lock in zip(("LOCK.ACQUIRE", "LOCK.RWREAD"), names, strict=True):
        assert source.attempt(command, lock, "oa", "PX", LONG) == 1
    begin_move(slot, one, two)
    order = names if first == 0 else names[::-1]
    for wait in (), ("BLOCK", 0):
        for modes in (), ("MODES", "READ", "READ"), ("MODES", "WRITE", "READ"):
            assert source.attempt("LOCK.MACQUIRE", 2, *order, "ob", *modes, *wait) == TRY_AGAIN
    assert one.server.info("lock")["lock_waiters"] == 0


WRONG_TYPE = "WRONGTYPE Operation against a key holding the wrong kind of value"
NOT_HELD = "NOTHELD the owner holds no such lock"
NO_LOCKS = {
    "a foreign hash": ("HSET {} a 1 b 2", {"ACQUIRE {} oa": None, "RELEASE {} a": NOT_HELD, "RENEW {} a": NOT_HELD}),
    "a string": ("SET {} x", dict.fromkeys(("ACQUIRE {} oa", "RELEASE {} a", "RENEW {} a"), WRONG_TYPE)),
}


@pytest.mark.parametrize("make, replies", NO_LOCKS.values(), ids=NO_LOCKS)
def test_key_that_is_no_lock_has_no_side_keys_to_wait_for(nodes, key, make, replies):
    (one, two), (name, slot) = nodes, key
    source, _ = ends_of(nodes)
    source.attempt(*make.format(name).split())
    begin_move(slot, one, two)
    found = {words: source.attempt(*f"LOCK.{words}".format(name).split()) for words in replies}
    call_off(nodes, slot)
    assert found == replies


def test_script_and_transaction_in_a_moving_slot_reply_TRYAGAIN(nodes, key):
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
    assert as_text(target.actor.call("EXEC")[1]) == TRY_AGAIN


def test_slot_that_does_not_move_works_as_usual(nodes, key):
    """Also after a move that was aborted, and after one that has ended; other slots are never affected."""
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


# ---- keys that move one by one ----


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
    "LOCK.CANCEL {} of RELEASE",
    "LOCK.INFO {}",
    "LOCK.RELEASE {} or",
    "LOCK.RELEASE {} oa",
    "LOCK.MACQUIRE 1 {} oa PX 600000",
    "LOCK.MRELEASE 1 {} oa",
    "LOCK.MACQUIRE 1 {} or MODES READ PX 600000",
    "LOCK.MACQUIRE 1 {} ow MODES WRITE PX 600000",
    "LOCK.MRENEW 1 {} or PX 700000",
    "LOCK.MRELEASE 1 {} or MODES READ",
)


def barrage(ends, name):
    """Sends all commands, at both ends, except those that free the lock."""
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
    """A read-write lock with a token, and two readers with a lease each."""
    token = one.actor.call("LOCK.RWWRITE", name, "oa", "PX", LONG, "FENCED")
    assert one.actor.call("LOCK.RELEASE", name, "oa") == 0
    for owner, lease in ("or", LONG), ("os", LONG // 2):
        assert one.actor.call("LOCK.RWREAD", name, owner, "PX", lease) == 1
    return token, None


KINDS = {"plain": (fill_plain, ("token", "queue", "timeout")), "read": (fill_read, ("token", "lease"))}


@pytest.mark.parametrize("fill, kinds", KINDS.values(), ids=KINDS)
def test_keys_move_in_every_order_and_never_exist_twice(nodes, fill, kinds):
    one, two = nodes
    ends, names = ends_of(nodes), names_of(one)
    for order in permutations(("", *kinds)):
        name = next(names)
        slot = one.cluster("KEYSLOT", name)
        token, waiter = fill(one, name)
        moving = [side(kind, name) if kind else name for kind in order]
        assert keys_in(one, slot) == set(moving)
        begin_move(slot, one, two)
        for key in moving:
            barrage(ends, name)
            assert_nothing_twice(nodes, slot)
            assert one.actor.call("MIGRATE", HOST, two.server.port, key, 0, 5000) in ("OK", "NOKEY")
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
