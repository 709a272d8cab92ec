"""The key of LOCK.GUARD is that of the lock: for COMMAND GETKEYS, and for a permission check before it runs.

The keys of the inner command are checked when it runs: test_permissions.py, cluster/test_guard.py.
"""

import pytest
from redis.exceptions import ResponseError

from harness import code_of

INNER = ("SET x 1", "MSET a 1 b 2 c 3", "DEL k", "EVAL return 2 a b c", "PING", "LOCK.ACQUIRE l o BLOCK 0", "NO.SUCH x", "GET", "")


@pytest.mark.parametrize("inner", INNER)
@pytest.mark.parametrize("name", ["LOCK.GUARD", "lock.guard"])
def test_command_getkeys_names_the_lock(client, name, inner):
    words = [name, "k", "o", *inner.split()]
    if inner:
        assert client.execute_command("COMMAND GETKEYS", *words) == ["k"]
        assert client.execute_command("COMMAND GETKEYSANDFLAGS", *words) == [["k", ["RO", "access"]]]
    else:
        with pytest.raises(ResponseError, match="[Nn]umber of arguments"):
            client.execute_command("COMMAND GETKEYS", *words)


def test_limited_user_cannot_overflow_the_stack(server, actor):
    server.control.acl_setuser("limited", enabled=True, nopass=True, keys=["k*"], commands=["+lock.guard"])
    limited = actor()
    limited.call("AUTH", "limited", "x")
    words = [word for n in range(20_000) for word in ("LOCK.GUARD", f"k{n}", "o")]
    assert code_of(limited.attempt(*words, "GET", "kx")) == "NOTHELD"
    assert server.control.ping()


@pytest.mark.parametrize("words", ["LOCK.GUARD", "LOCK.GUARD k", "LOCK.GUARD k o"])
def test_permission_for_a_guard_without_a_command_can_be_checked(server, actor, words):
    """A script may check any command. Redis 8.6, and 8.0.2 with Debian's patches, check the arity first."""
    server.control.acl_setuser("asks", enabled=True, nopass=True, keys=["other*"], commands=["+eval", "+lock.guard"])
    checker = actor()
    checker.call("AUTH", "asks", "x")
    script = "return redis.acl_check_cmd(unpack(ARGV))"
    reply = checker.attempt("EVAL", script, 0, *words.split())
    allowed = 1 if words == "LOCK.GUARD" else None  # without a key no key permission is missing
    assert reply == allowed or "Wrong number of args" in str(reply), str(reply)
    assert server.control.ping()
