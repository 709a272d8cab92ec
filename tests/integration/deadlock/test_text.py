"""How the text of DEADLOCK shows long cycles, long names, and binary names."""

import pytest

from harness import wait_for
from model.deadlock_scene import deadlock


def cycle_of(server, names, keys):
    """Each of the names holds its key and waits for the key of the next one; returns the reply to the last one."""
    actors = [server.actor(decode_responses=False) for _ in names]
    for actor, name, key in zip(actors, names, keys, strict=True):
        assert actor.call("LOCK.ACQUIRE", key, name) == 1
    for actor, name, key in list(zip(actors, names, keys[1:] + keys[:1], strict=True))[:-1]:
        actor.send("LOCK.ACQUIRE", key, name, "BLOCK", 0)
        wait_for(actor.is_blocked, what=f"{name} to wait")
    return actors[-1].attempt("LOCK.ACQUIRE", keys[0], names[-1], "BLOCK", 0)


def sentences(names, keys):
    """The waits of such a cycle, beginning with that of the last name."""
    count = len(names)
    order = [count - 1, *range(count - 1)]
    return [f"{names[i]} waits for {keys[(i + 1) % count]} held by {names[(i + 1) % count]}" for i in order]


@pytest.mark.parametrize("length", [2, 3, 7, 8])
def test_short_cycle_is_shown_completely(server, length):
    names, keys = [f"o{i}" for i in range(length)], [f"k{i}" for i in range(length)]
    assert deadlock(", ".join(sentences(names, keys)))(cycle_of(server, names, keys))


@pytest.mark.parametrize("length", [9, 12, 30])
def test_middle_of_a_long_cycle_is_left_out(server, length):
    names, keys = [f"o{i}" for i in range(length)], [f"k{i}" for i in range(length)]
    shown = sentences(names, keys)
    shown[4:-4] = [f"... {length - 8} more waits ..."]
    assert deadlock(", ".join(shown))(cycle_of(server, names, keys))


def test_only_the_beginning_of_a_long_name_is_shown(server):
    names, keys = ["a" * 64, "b" * 65], ["k" * 64, "l" * 500]
    shown = sentences(["a" * 64, "b" * 64 + "..."], ["k" * 64, "l" * 64 + "..."])
    assert deadlock(", ".join(shown))(cycle_of(server, names, keys))


def test_names_of_any_bytes_make_one_line(server):
    """Control characters are shown as dots, other bytes unchanged, in a cycle of twelve as in one of two."""
    names = [b"a\r\n%d\x00%%s" % i for i in range(12)]
    keys = [b"\n+OK\r\n-ERR \x7f%d\xff" % i for i in range(12)]
    seen, seen_keys = [f"a..{i}.%s" for i in range(12)], [f".+OK..-ERR .{i}\xff" for i in range(12)]
    for count in (2, 12):
        server.disconnect_clients()
        wait_for(lambda: server.info("lock")["lock_waiters"] == 0, what="the last cycle to be gone")
        server.control.flushall()
        shown = sentences(seen[:count], seen_keys[:count])
        shown[4:-4] = ["... 4 more waits ..."] if count == 12 else []
        sock = server.raw_connection()
        cycle_of(server, names[:count], keys[:count])
        key, owner = keys[0], names[count - 1]
        sock.sendall(b"*5\r\n$12\r\nLOCK.ACQUIRE\r\n" + bulk(key) + bulk(owner) + bulk(b"BLOCK") + bulk(b"0"))
        sock.sendall(b"PING\r\n")
        expected = f"-DEADLOCK {', '.join(shown)}\r\n+PONG\r\n".encode("latin-1")
        assert sock.makefile("rb").read(len(expected)) == expected


def bulk(word):
    return b"$%d\r\n%s\r\n" % (len(word), word)
