"""lockctl ls: all locks that are held, and nothing else."""

import pytest

from harness import wait_for
from scene import HOUR, ask, ask_json, contend, hold, url_of, wait


def names(locks):
    return [lock["lock"] for lock in locks]


def test_nothing(make_server):
    url = url_of(make_server())
    assert ask("ls", url=url).stdout == ""
    assert ask_json("ls", url=url) == []


def test_each_kind(make_server):
    server = make_server()
    say = server.actor("session").call
    say("LOCK.ACQUIRE", "plain", "p", "SESSION")
    say("LOCK.ACQUIRE", "plain", "p")
    say("LOCK.FAIR", "fair", "f", "PX", HOUR, "FENCED")
    say("LOCK.RWREAD", "read", "r1", "PX", HOUR)
    say("LOCK.RWREAD", "read", "r2", "PX", HOUR)
    say("LOCK.RWWRITE", "write", "w", "PX", HOUR)
    say("LOCK.SEMAPHORE", "semaphore", "s", 5, "PERMITS", 3, "PX", HOUR)
    wait(server, "plain", "x")
    found = {lock["lock"]: lock for lock in ask_json("ls", url=url_of(server))}
    assert list(found) == ["fair", "plain", "read", "semaphore", "write"]
    shown = {key: (lock["mode"], lock["owner"], lock["holders"], lock["holds"]) for key, lock in found.items()}
    assert shown == {
        "fair": ("exclusive", "f", 1, 1),
        "plain": ("exclusive", "p", 1, 2),
        "read": ("read", "r1", 2, 1),
        "semaphore": ("semaphore", "s", 1, 3),
        "write": ("write", "w", 1, 1),
    }
    assert [lock["waiting"] for lock in found.values()] == [0, 1, 0, 0, 0]
    assert found["plain"]["session"] and not found["fair"]["session"]
    assert 0 < found["fair"]["pttl"] <= HOUR


def test_other_keys_are_no_locks(make_server):
    server = make_server()
    control = server.control
    control.set("string", 1)
    control.rpush("list", 1)
    control.hset("hash", mapping={"a": 1, "b": 2})
    control.execute_command("LOCK.ACQUIRE", "gone", "o", "FENCED")
    control.execute_command("LOCK.RELEASE", "gone", "o")  # its token remains
    hold(server, "lock")
    assert names(ask_json("ls", url=url_of(server))) == ["lock"]


def test_text(make_server):
    server = make_server()
    contend(server, "a", 2)
    server.control.execute_command("LOCK.RWREAD", "much-longer-name", "r1", "PX", HOUR)
    server.control.execute_command("LOCK.RWREAD", "much-longer-name", "r2", "PX", HOUR)
    head, first, second = ask("ls", url=url_of(server)).stdout.splitlines()
    assert head.split() == ["LOCK", "MODE", "WAITING", "LEASE", "OWNER"]
    assert [first.split()[i] for i in (0, 1, 2, -1)] == ["a", "exclusive", "2", "a-holder"]
    assert second.split()[:3] == ["much-longer-name", "read", "0"]
    assert second.endswith("r1 and 1 more")
    assert first.index("exclusive") == second.index("read")


@pytest.mark.parametrize(
    "name, shown, is_text",
    [
        (b"with blank", "with blank", True),
        ("käse".encode(), "käse", True),
        (b"new\nline", "new\\x0aline", True),
        (b"\xff\x00z", "\\xff\\x00z", False),
        (b"back\\slash", "back\\\\slash", True),
    ],
)
def test_names_of_any_bytes(make_server, name, shown, is_text):
    server = make_server()
    hold(server, name, owner=name)
    url = url_of(server)
    row = ask("ls", url=url).stdout.splitlines()[1]
    assert row.startswith(shown + "  ") and row.endswith("  " + shown)
    (lock,) = ask_json("ls", url=url)
    if is_text:
        assert lock["lock"] == lock["owner"] == name.decode()
    else:
        assert lock["lock"] == lock["owner"] == shown
        assert bytes.fromhex(lock["lock_hex"]) == bytes.fromhex(lock["owner_hex"]) == name


def test_pattern_and_database(make_server):
    server = make_server()
    for key, db in (("a:1", 0), ("a:2", 0), ("b:1", 0), ("a:3", 5)):
        hold(server, key, db=db)
    assert names(ask_json("ls", "a:*", url=url_of(server))) == ["a:1", "a:2"]
    assert names(ask_json("ls", "-u", url_of(server) + "/5")) == ["a:3"]


def test_several_servers(make_server):
    one, other = make_server(), make_server()
    hold(one, "one")
    hold(other, "other")
    assert names(ask_json("ls", "-u", url_of(one), "-u", url_of(other))) == ["one", "other"]


def test_a_whole_cluster(make_cluster):
    cluster = make_cluster()
    wanted = [f"lock-{i}" for i in range(30)]
    for name in wanted:
        hold(cluster.node_of(name), name)
    url = f"redis+cluster://127.0.0.1:{cluster.node_of('x').port}"
    assert sorted(names(ask_json("ls", url=url))) == sorted(wanted)


def test_ten_thousand(make_server):
    server = make_server()
    pipe = server.control.pipeline(transaction=False)
    wanted = [f"lock-{i:05}" for i in range(10_000)]
    for name in wanted:
        pipe.execute_command("LOCK.ACQUIRE", name, "o", "PX", HOUR)
    pipe.execute()
    assert names(ask_json("ls", url=url_of(server))) == wanted


def test_a_replica(make_server):
    server = make_server()
    replica = server.start_replica()
    hold(server, "k")
    wait_for(lambda: replica.control.exists("k"), what="the replica to have it")
    assert names(ask_json("ls", url=url_of(replica))) == ["k"]


def test_nobody_answers():
    done = ask("ls", "--timeout", "0.5", url="redis://127.0.0.1:1")
    assert (done.returncode, done.stdout) == (69, "")
    assert "127.0.0.1:1: Connection refused" in done.stderr


def test_who_may_not_is_told_so(make_server):
    server = make_server()
    hold(server, "k")
    server.control.execute_command("ACL", "SETUSER", "u", "on", ">p", "allkeys", "+@all", "-lock.info")
    done = ask("ls", url=f"redis://u:p@127.0.0.1:{server.port}")
    assert done.returncode == 69
    assert "NOPERM" in done.stderr
