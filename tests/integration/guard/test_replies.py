"""The reply of LOCK.GUARD is the reply of the inner command, byte by byte."""

import pytest
from redis.exceptions import ResponseError

from model.guard_scene import guard, hold, say

DATA = (
    "SET s v", "SET n 5", "RPUSH l a b c", "HSET h a 1 b 2", "SADD st a", "ZADD z 1.5 a 2 b", "XADD x 1-1 f v",
    "GEOADD g 13.361389 38.115556 p", "PFADD hll a b",
)  # fmt: skip

REPLIES = (
    "GET s", "GET none", "SET s2 v", "SET s v NX", "SET n 7 GET", "INCR n", "INCRBYFLOAT n 0.5", "EXISTS s none",
    "LRANGE l 0 -1", "LRANGE none 0 -1", "LPOP none", "LPOP none 2", "MGET s none n", "HGETALL h", "HGETALL none",
    "HRANDFIELD h 2 WITHVALUES", "SMEMBERS st", "ZSCORE z a", "ZSCORE z none", "ZRANGE z 0 -1 WITHSCORES",
    "ZINCRBY z 0.25 a", "ZMSCORE z a none", "ZRANK z none", "XRANGE x - +", "XINFO STREAM x", "XREAD STREAMS x 0",
    "GEOPOS g p none", "GEODIST g p p", "PFCOUNT hll", "TYPE s", "PTTL none", "DBSIZE", "PING", "PING hello",
    "ECHO a", "COMMAND COUNT", "COMMAND GETKEYS SET a b", "CONFIG GET maxmemory", "OBJECT ENCODING s", "TTL s",
    "MEMORY USAGE none", "LOCK.INFO none", "SORT l ALPHA", "COPY s s3", "SCAN 0 COUNT 100 MATCH s2", "ACL WHOAMI",
    "XPENDING x nogroup", "INCR s", "GET", "GET a b c", "NO.SUCH a", "LPUSH s a", "CONFIG SET none 1", "LOCK.RELEASE none o",
    "HSET h a", "EXPIRE s abc", "XADD x 0-0 f v", "SET s v EX 0", "SINTERCARD 0 a", "RENAME none s", "LPOS l b", "LPOS l zz",
    "LMPOP 1 l LEFT", "LMPOP 1 none LEFT", "ZMPOP 1 z MIN", "HELLO 9", "SPOP none", "DUMP none", "SUBSTR s 0 0",
)  # fmt: skip


def bytes_of(sock, *words):
    """The bytes of the reply to a command."""
    sock.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in map(str.encode, words)))
    sock.sendall(b"*2\r\n$4\r\nECHO\r\n$8\r\n--end---\r\n")
    received = b""
    while not received.endswith(b"$8\r\n--end---\r\n"):
        more = sock.recv(65536)
        assert more, f"cut off after {received!r}"
        received += more
    return received.removesuffix(b"$8\r\n--end---\r\n")


def prepare(server):
    server.control.flushall()
    say(server.control, *DATA, "LOCK.ACQUIRE k o PX 600000")


NOT_IN_SCRIPTS = ("HELLO 9", "CONFIG GET maxmemory", "CONFIG SET none 1", "ACL WHOAMI")


@pytest.mark.parametrize("inner", [inner for inner in REPLIES if inner not in NOT_IN_SCRIPTS])
def test_reply_is_that_of_the_inner_command(server, resp, inner):
    """Byte by byte the same as without the guard, with the same data."""
    sock = server.raw_connection()
    bytes_of(sock, "HELLO", str(resp))
    prepare(server)
    direct = bytes_of(sock, *inner.split())
    prepare(server)
    guarded = bytes_of(sock, "LOCK.GUARD", "k", "o", *inner.split())
    if direct.startswith(b"-"):
        assert same_error(guarded, direct), (guarded, direct)
    else:
        assert guarded == direct


def same_error(guarded, direct):
    """Whether both have the same code. The text for an unknown command and a wrong arity depends on the caller."""
    return guarded.startswith(b"-") and guarded.split(b" ")[0] == direct.split(b" ")[0] and guarded.count(b"\r\n") == 1


def test_large_replies_are_passed_on(client, server):
    hold(server)
    client.set("big", "x" * 5_000_000)
    client.rpush("l", *range(20_000))
    assert guard(client, "GET", "big") == "x" * 5_000_000
    assert guard(client, "LRANGE", "l", 0, -1) == [str(n) for n in range(20_000)]


def test_inner_error_changes_no_key_and_keeps_the_lock(client, server):
    hold(server)
    client.set("s", "v")
    before = server.dump()
    with pytest.raises(ResponseError, match="not an integer"):
        guard(client, "INCR", "s")
    with pytest.raises(ResponseError, match="^WRONGTYPE "):
        guard(client, "LPUSH", "s", "a")
    assert server.dump() == before
    assert guard(client, "GET", "s") == "v"
