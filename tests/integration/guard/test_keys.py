"""The key of LOCK.GUARD is the lock's: for COMMAND GETKEYS, and for a permission that is asked beforehand.

Those of the inner command are looked at when it runs: test_permissions.py, cluster/test_guard.py.
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


def test_limited_user_may_not_overflow_the_stack(server, actor):
    server.control.acl_setuser("limited", enabled=True, nopass=True, keys=["k*"], commands=["+lock.guard"])
    limited = actor()
    limited.call("AUTH", "limited", "x")
    words = [word for n in range(20_000) for word in ("LOCK.GUARD", f"k{n}", "o")]
    assert code_of(limited.attempt(*words, "GET", "kx")) == "NOTHELD"
    assert server.control.ping()


@pytest.mark.parametrize("words", ["LOCK.GUARD", "LOCK.GUARD k", "LOCK.GUARD k o"])
def test_permission_for_a_guard_without_a_command_can_be_asked(server, actor, words):
    """A script may ask for any command. Redis 8.6, and 8.0.2 as Debian patches it, look at the arity first; others do not."""
    server.control.acl_setuser("asks", enabled=True, nopass=True, keys=["other*"], commands=["+eval", "+lock.guard"])
    asks = actor()
    asks.call("AUTH", "asks", "x")
    script = "return redis.acl_check_cmd(unpack(ARGV))"
    heard = asks.attempt("EVAL", script, 0, *words.split())
    allowed = 1 if words == "LOCK.GUARD" else None  # without a key there is none that it may not use
    assert heard == allowed or "Wrong number of args" in str(heard), str(heard)
    assert server.control.ping()
