"""Several keys at once, each to read or to write (MODES), as schedules.

generated/test_modes_random.py compares random schedules with a model; here is what each rule means for one situation,
and what the model leaves out: several connections of one owner, leases, sessions, other kinds of locks.
"""

import pytest

from harness import code_of, scaled_ms, wait_for
from harness.schedule import BLOCKS, DIES, STILL_BLOCKED, answered, as_map, error, granted, has, run_schedule, schedules
from model.multikey_scene import free, one, queue, releases

NOT_HELD = error("NOTHELD")


def each(modes):
    """"k to read" as ["k"], ["READ"]: a word of lower case letters is a key, R or W the mode of the key before it."""
    words = modes.split()
    return words[::2], [{"R": "READ", "W": "WRITE"}[word] for word in words[1::2]]


def takes(name, modes, reply, *options):
    keys, words = each(modes)
    return (name, ("LOCK.MACQUIRE", str(len(keys)), *keys, f"o{name[0]}", "MODES", *words, *options), reply)


def waits(name, modes):
    return takes(name, modes, BLOCKS, "BLOCK", "0")


def gives(name, modes, reply):
    keys, words = each(modes)
    return (name, ("LOCK.MRELEASE", str(len(keys)), *keys, f"o{name[0]}", "MODES", *words), reply)


def reads(name, key, reply=1, *options):
    return (name, ("LOCK.RWREAD", key, f"o{name[0]}", *options), reply)


def writes(name, key, reply=1, *options):
    return (name, ("LOCK.RWWRITE", key, f"o{name[0]}", *options), reply)


def holders(key, *expected):
    """The holders in LOCK.INFO, as "owner mode", in any order."""

    def same(found):
        return sorted(f"{one['owner']} {one['mode']}" for one in map(as_map, found)) == sorted(expected)

    return ("z", f"LOCK.INFO {key}", has(holders=same))


BLOCK = ("BLOCK", "0")

ACQUIRING = dict(
    each_key_has_its_mode=[
        takes("a", "k R l W", 2),
        ("z", "HGETALL k", lambda got: as_map(got) == {"mode": "read", "oa": "1"}),
        ("z", "HGETALL l", lambda got: as_map(got) == {"mode": "write", "oa:write": "1"}),
        gives("a", "k R l W", 2),
        free("k", "l"),
    ],
    readers_share=[
        takes("a", "root R k W", 2),
        takes("b", "root R l W", 2),
        reads("c", "root"),
        holders("root", "oa read", "ob read", "oc read"),
        writes("d", "root", None),
        takes("d", "root W m W", None),
        free("m"),
    ],
    all_or_none=[
        reads("b", "l"),
        takes("a", "k W l W m R", None),
        free("k", "m"),
        writes("b", "n"),
        takes("a", "k W n R", None),
        free("k"),
    ],
    the_single_key_commands_exclude_them_too=[
        takes("a", "k R l W", 2),
        writes("b", "k", BLOCKS, *BLOCK),
        reads("c", "l", BLOCKS, *BLOCK),
        one("d", "k", None),
        gives("a", "k R l W", 2),
        ("b", granted(1)),
        ("c", granted(1)),
    ],
    a_plain_lock_is_in_the_way=[
        one("b", "k", 1),
        takes("a", "l R k R", None),
        waits("a", "l R k R"),
        releases("b", "k"),
        ("a", granted(2)),
    ],
    a_plain_lock_of_its_own_is_a_deadlock=[
        one("a", "k", 1),
        takes("a", "l R k R", error("DEADLOCK", "oa waits for k held by oa"), *BLOCK),
        free("l"),
        takes("b", "m R", 1),
        ("b", "LOCK.MACQUIRE 2 n m ob BLOCK 0", error("DEADLOCK", "ob waits for m held by ob")),
    ],
    a_key_given_twice_is_written_if_one_of_them_is=[
        takes("a", "k R k W k R", 1),
        holders("k", "oa write"),
        gives("a", "k W k R", 1),
        free("k"),
        takes("a", "k R k R", 1),
        holders("k", "oa read"),
    ],
    again=[
        takes("a", "k R l W", 2),
        takes("a", "k R l W", 2),
        gives("a", "k R l W", 0),
        takes("a", "k W l R", 2),
        holders("k", "oa read", "oa write"),
        holders("l", "oa read", "oa write"),
        gives("a", "k W l W", 2),
        gives("a", "k R l R", 2),
        free("k", "l"),
    ],
    what_it_holds_is_not_waited_for_again=[
        # b waits to write k. a holds k to read, and so reads it again, although b is ahead.
        reads("a", "k"),
        writes("b", "k", BLOCKS, *BLOCK),
        takes("a", "k R l W", 2),
        ("b", STILL_BLOCKED),
        gives("a", "k R l W", 1),
        ("b", STILL_BLOCKED),
        releases("a", "k"),
        ("b", granted(1)),
    ],
)

WAITING = dict(
    readers_behind_a_reader_that_waits_elsewhere_go_on=[
        writes("a", "m"),
        writes("x", "k"),
        waits("b", "k R m R"),
        reads("c", "k", BLOCKS, *BLOCK),
        waits("d", "k R l W"),
        releases("x", "k"),
        ("c", granted(1)),
        ("d", granted(2)),
        ("b", STILL_BLOCKED),
        reads("e", "k"),
        releases("a", "m"),
        ("b", granted(2)),
    ],
    a_writer_behind_it_waits=[
        # As for every multi-key wait: what conflicts does not pass it, so it cannot starve.
        writes("a", "m"),
        waits("b", "k R m R"),
        writes("c", "k", BLOCKS, *BLOCK),
        reads("d", "k", BLOCKS, *BLOCK),
        writes("e", "k", None),
        releases("a", "m"),
        ("b", granted(2)),
        ("c", STILL_BLOCKED),
        gives("b", "k R m R", 2),
        ("c", granted(1)),
        ("d", STILL_BLOCKED),
        releases("c", "k"),
        ("d", granted(1)),
    ],
    a_writer_of_the_root_is_not_starved_by_readers=[
        takes("a", "root R k W", 2),
        waits("w", "root W l W"),
        takes("b", "root R m W", None),
        waits("b", "root R m W"),
        reads("c", "root", BLOCKS, *BLOCK),
        gives("a", "root R k W", 2),
        ("w", granted(2)),
        ("b", STILL_BLOCKED),
        gives("w", "root W l W", 2),
        ("b", granted(2)),
        ("c", granted(1)),
    ],
    a_reader_that_leaves_lets_a_writer_in=[
        writes("a", "m"),
        waits("b", "k R m R"),
        writes("c", "k", BLOCKS, *BLOCK),
        ("z", "LOCK.CANCEL m ob", 1),
        ("b", answered(None)),
        ("c", granted(1)),
    ],
    a_writer_that_leaves_lets_readers_in=[
        writes("a", "m"),
        waits("b", "k R m R"),
        writes("c", "k", BLOCKS, *BLOCK),
        reads("d", "k", BLOCKS, *BLOCK),
        waits("e", "k R l R"),
        ("c", DIES),
        ("d", granted(1)),
        ("e", granted(2)),
        ("b", STILL_BLOCKED),
    ],
    the_mode_of_the_queue_is_in_info=[
        writes("a", "m"),
        waits("b", "k R m W"),
        ("z", "LOCK.INFO k", has(mode="free", waiters=lambda found: as_map(found[0])["mode"] == "read")),
        ("z", "LOCK.INFO m", has(mode="write", waiters=lambda found: as_map(found[0])["mode"] == "write")),
    ],
)

UPGRADING = dict(
    waits_for_the_other_readers_only=[
        reads("a", "k"),
        reads("b", "k"),
        writes("c", "k", BLOCKS, *BLOCK),
        waits("a", "k W l W"),
        queue("k", "oc", "oa"),
        queue("l", "oa"),
        releases("b", "k"),
        ("a", granted(2)),
        ("c", STILL_BLOCKED),
        gives("a", "k W l W", 2),
        ("c", STILL_BLOCKED),
        ("a", "LOCK.RELEASE k oa READ", 0),
        ("c", granted(1)),
    ],
    of_two_the_second_is_refused=[
        reads("a", "k"),
        reads("b", "k"),
        waits("a", "k W l R"),
        takes("b", "k W l R", error("DEADLOCK", "ob waits for k held by oa, oa waits for k held by ob"), *BLOCK),
        writes("b", "k", error("DEADLOCK"), *BLOCK),
        releases("b", "k"),
        ("a", granted(2)),
    ],
    a_reader_may_come_while_another_key_is_waited_for=[
        # a is the only reader of k, and waits for l. Then b reads k: a's wait is for b, too.
        reads("a", "k"),
        writes("x", "l"),
        writes("y", "m"),
        waits("b", "k R m R"),
        waits("a", "k W l W"),
        releases("y", "m"),
        ("b", granted(2)),
        releases("x", "l"),
        ("a", STILL_BLOCKED),
        gives("b", "m R k R", 2),
        ("a", granted(2)),
    ],
    by_a_hold_that_comes_later=[
        # On another connection a's owner reads k while its wait to write k and l is behind b's.
        writes("x", "m"),
        reads("c", "k"),
        waits("b", "k R m R"),
        waits("a", "k W l W"),
        queue("k", "ob", "oa"),
        reads("a2", "k"),
        queue("k", "ob", "oa"),
        ("a", STILL_BLOCKED),
        releases("c", "k"),
        ("a", granted(2)),
        ("b", STILL_BLOCKED),
    ],
    downgrade=[
        takes("a", "k W l W", 2),
        takes("a", "k R", 1),
        reads("b", "k", BLOCKS, *BLOCK),
        writes("c", "k", BLOCKS, *BLOCK),
        gives("a", "k W l W", 2),
        ("b", granted(1)),
        ("c", STILL_BLOCKED),
    ],
)

RELEASING = dict(
    each_in_its_mode=[
        takes("a", "k R l W", 2),
        gives("a", "k R l R", NOT_HELD),
        gives("a", "k W l W", NOT_HELD),
        holders("k", "oa read"),
        holders("l", "oa write"),
        gives("a", "k R l W", 2),
        free("k", "l"),
    ],
    without_modes_if_it_has_only_one=[
        takes("a", "k R l W", 2),
        ("a", "LOCK.MRELEASE 2 k l oa", 2),
        takes("a", "k R l W", 2),
        reads("a", "l"),
        ("a", "LOCK.MRELEASE 2 k l oa", error("ERR")),
        gives("a", "k R l R", 2),
        ("a", "LOCK.MRELEASE 1 l oa", 1),
    ],
    a_plain_lock_has_no_mode=[
        one("a", "k", 1),
        gives("a", "k W", NOT_HELD),
        gives("a", "k R", NOT_HELD),
        releases("a", "k"),
    ],
)

WORDS = dict(
    as_many_as_keys=[
        ("a", "LOCK.MACQUIRE 2 k l oa MODES READ", error("ERR", "syntax error")),
        ("a", "LOCK.MACQUIRE 2 k l oa MODES READ PX 10", error("ERR", "each mode must be READ or WRITE")),
        ("a", "LOCK.MACQUIRE 2 k l oa MODES READ WRITE READ", error("ERR", "syntax error")),
        ("a", "LOCK.MACQUIRE 2 k l oa MODES", error("ERR", "syntax error")),
        ("a", "LOCK.MRELEASE 2 k l oa MODES READ", error("ERR", "syntax error")),
        ("a", "LOCK.MRENEW 2 k l oa MODES READ READ", error("ERR", "syntax error")),
        free("k", "l"),
    ],
    read_or_write=[
        ("a", "LOCK.MACQUIRE 2 k l oa MODES READ EXCLUSIVE", error("ERR", "each mode must be READ or WRITE")),
        ("a", "LOCK.MACQUIRE 2 k l oa MODES READ WRITE MODES READ WRITE", error("ERR", "syntax error")),
        ("a", "LOCK.MACQUIRE 2 k l oa PX 60000 modes read Write ONCE", 2),
        holders("k", "oa read"),
        holders("l", "oa write"),
    ],
)


@schedules(**ACQUIRING)
def test_acquiring(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


@schedules(**WAITING)
def test_waiting(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


@schedules(**UPGRADING)
def test_upgrades_and_downgrades(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


@schedules(**RELEASING)
def test_releasing(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


@schedules(**WORDS)
def test_words(server, some_resp, schedule):
    run_schedule(server, schedule, some_resp)


def test_a_move_to_the_head_that_closes_a_cycle_is_noticed(server, actor):
    """The move makes b wait for a, which waits for c, which waits for b: only the moved wait can find that."""
    a, a2, b, c, x = (actor(name) for name in ("a", "a2", "b", "c", "x"))
    x.call("LOCK.RWWRITE", "m", "ox")
    b.call("LOCK.ACQUIRE", "n", "ob")
    c.call("LOCK.RWREAD", "k", "oc")
    b.send("LOCK.MACQUIRE", 2, "k", "m", "ob", "MODES", "READ", "READ", "BLOCK", 0)
    b.wait_blocked()
    a.send("LOCK.RWWRITE", "k", "oa", "BLOCK", 0)
    a.wait_blocked()
    c.send("LOCK.ACQUIRE", "n", "oc", "BLOCK", 0)
    c.wait_blocked()
    server.all_searched()
    assert a2.call("LOCK.RWREAD", "k", "oa") == 1
    wait_for(a.has_reply, what="the cycle to be found")
    assert code_of(a.outcome()) == "DEADLOCK"
    c.wait_blocked()
    b.wait_blocked()


def test_leases_end_one_by_one(server, actor):
    reader, writer = actor("a"), actor("w")
    reader.call("LOCK.MACQUIRE", 2, "k", "l", "oa", "MODES", "READ", "WRITE", "PX", scaled_ms(300))
    writer.send("LOCK.MACQUIRE", 2, "l", "k", "ow", "MODES", "READ", "WRITE", "BLOCK", 0)
    assert writer.reply() == 2
    assert code_of(reader.attempt("LOCK.RELEASE", "k", "oa")) == "NOTHELD"


def test_a_session_ends_all_of_them(server, actor):
    reader, writer = actor("a"), actor("w")
    reader.call("LOCK.MACQUIRE", 2, "k", "l", "oa", "MODES", "READ", "WRITE", "SESSION")
    writer.send("LOCK.MACQUIRE", 2, "l", "k", "ow", "MODES", "READ", "WRITE", "BLOCK", 0)
    writer.wait_blocked()
    reader.close()
    assert writer.reply() == 2


@pytest.mark.parametrize("names", [("k", "{k}"), ("{k}", "k")], ids=["k first", "k last"])
def test_names_that_share_their_leases_may_be_in_one_request(server, actor, names):
    """In the millisecond in which leases expire, opening one lock deletes the leases of the other, or writes them."""
    c = actor("c")
    for _ in range(20):
        pipeline = server.control.pipeline(transaction=True)
        for name in names:
            for owner in ("oa", "ob"):
                pipeline.execute_command("LOCK.RWREAD", name, owner, "PX", 5)
        assert pipeline.execute() == [1] * 4
        for _ in range(50):
            assert c.call("LOCK.MACQUIRE", 2, *names, "oc", "MODES", "READ", "READ") == 2
            assert c.call("LOCK.MRENEW", 2, *names, "oc") == 2
            assert c.call("LOCK.MRELEASE", 2, *names, "oc", "MODES", "READ", "READ") == 2
        for name in names:
            c.call("LOCK.FORCE", name)  # the lease of a reader may have ended, or not
        assert server.control.dbsize() == 0


@pytest.mark.parametrize("first", ["RWREAD", "RWWRITE"])
@pytest.mark.parametrize("modes", ["READ READ", "WRITE WRITE", "WRITE READ", "READ WRITE"])
@pytest.mark.parametrize("keys", ["a lock:lease:{a}", "lock:lease:{a} a"])
def test_leases_of_one_key_cannot_be_another_key(server, actor, keys, modes, first):
    """Acquiring one lock would create the other key, which is open as a free lock."""
    x = actor("x")
    assert x.call(f"LOCK.{first}", "a", "x") == 1
    for block in ((), ("BLOCK", 0)):
        words = ("LOCK.MACQUIRE", 2, *keys.split(), "x", "MODES", *modes.split(), *block)
        assert code_of(x.attempt(*words)) == "WRONGTYPE"
    others = keys.replace("{a}", "{b}").split()
    assert x.call("LOCK.MACQUIRE", 3, *others, "c", "x", "MODES", *modes.split(), "READ") == 3
    assert x.call("LOCK.INFO", "c") is not None


def test_longest_owner_may_read_and_write(server, actor):
    a, owner = actor("a"), "o" * 512
    for _ in range(2):
        assert a.call("LOCK.MACQUIRE", 2, "k", "l", owner, "MODES", "WRITE", "READ") == 2
    assert a.call("LOCK.RWWRITE", "l", owner) == 1
    assert server.control.hgetall("k") == {"mode": "write", f"{owner}:write": "2"}
    assert server.control.hgetall("l") == {"mode": "write", owner: "2", f"{owner}:write": "1"}


# LOCK.MRENEW, LOCK.INFO


@pytest.mark.parametrize("modes", [(), ("MODES", "READ", "WRITE", "READ")], ids=["plain", "modes"])
def test_renewal_gives_each_key_the_new_lease(server, actor, modes):
    a, keys = actor("a"), ("k", "l", "m")
    assert a.call("LOCK.MACQUIRE", 3, *keys, "oa", *modes, "PX", 50_000) == 3
    for option, ms in ((("PX", 500_000), 500_000), (("EX", 20), 20_000), ((), 30_000)):
        assert a.call("LOCK.MRENEW", 3, *keys, "oa", *option) == 3
        assert all(ms - 10_000 < a.call("PTTL", key) <= ms for key in keys), ms
    a.call("LOCK.RELEASE", "l", "oa")
    assert code_of(a.attempt("LOCK.MRENEW", 3, *keys, "oa", "PX", 500_000)) == "NOTHELD"
    assert all(a.call("PTTL", key) <= 30_000 for key in ("k", "m"))


def test_renewal_binds_each_key_to_the_session(server, actor):
    a, keys = actor("a"), ("k", "l", "m")
    assert a.call("LOCK.MACQUIRE", 3, *keys, "oa", "MODES", "READ", "WRITE", "READ", "PX", 600_000) == 3
    assert a.call("LOCK.MRENEW", 3, *keys, "oa", "SESSION") == 3
    a.kill_socket()
    wait_for(lambda: server.control.dbsize() == 0, what="the holds to end with their connection")


@pytest.mark.parametrize("modes", [(), ("MODES", "READ", "WRITE")], ids=["plain", "modes"])
def test_info_shows_all_keys_of_a_waiter(server, actor, resp, modes):
    a, b = actor("a"), actor("b")
    a.call("LOCK.MACQUIRE", 2, "k", "l", "oa", *(modes and ("MODES", "WRITE", "WRITE")))
    b.send("LOCK.MACQUIRE", 2, "k", "l", "ob", *modes, "BLOCK", 0)
    b.wait_blocked()
    wanted = [name.lower() for name in modes[1:]] or ["exclusive"] * 2
    for key, mode in zip(("k", "l"), wanted, strict=True):
        (waiter,) = as_map(server.client(resp).execute_command("LOCK.INFO", key))["waiters"]
        shown = as_map(waiter)
        assert (shown["owner"], shown["mode"]) == ("ob", mode)
        assert [as_map(one) for one in shown["keys"]] == [
            {"key": name, "mode": one} for name, one in zip(("k", "l"), wanted, strict=True)
        ]
