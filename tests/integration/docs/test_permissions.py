"""What docs/safety.md says about permissions beyond the lock's own key."""

import pytest

from harness import wait_for
from model.waiting_scene import HOUR

RESTRICTED = ("+@all", "-@dangerous", "-@admin")
REVOKED = ("-lock.force", "-lock.top")  # for Redis 7.0, as on the page


@pytest.fixture
def user(server):
    """user(rules…): a connection of a user with exactly these permissions."""

    def connect(*rules):
        server.control.execute_command("ACL", "SETUSER", "u", "reset", "on", "nopass", *rules)
        actor = server.actor("u")
        actor.call("AUTH", "u", "x")
        return actor

    return connect


def has_no_categories(server):
    return not server.is_valkey and server.version < (7, 2)


def refused(reply):
    return str(reply).startswith("NOPERM") or "no permissions" in str(reply)


@pytest.mark.parametrize("command", ["LOCK.TOP", "LOCK.FORCE k"])
def test_categories_keep_a_command_from_users(server, user, command):
    """Not on Redis 7.0, which has no categories for the commands of modules."""
    reply = user("~*", *RESTRICTED).attempt(*command.split())
    assert refused(reply) != has_no_categories(server)


@pytest.mark.parametrize("command", ["LOCK.TOP", "LOCK.FORCE k"])
def test_rules_of_the_page_keep_it_from_users_on_all_servers(user, command):
    assert refused(user("~*", *RESTRICTED, *REVOKED).attempt(*command.split()))


def test_top_shows_names_whatever_keys_its_user_may_read(server, actor, user):
    server.control.execute_command("LOCK.ACQUIRE", "k", "o")
    waiter = actor("w")
    waiter.send("LOCK.ACQUIRE", "k", "w", "BLOCK", 0)
    waiter.wait_blocked()
    allowed = () if has_no_categories(server) else ("+lock.top",)
    assert "k" in str(user("~other:*", *RESTRICTED, *allowed).call("LOCK.TOP"))


def test_side_keys_of_delayed_queues_push_into_any_list(server, user):
    server.control.execute_command("DELAY.PUSH", "own", "x", HOUR, "v")  # now the module receives events of keys
    thief = user("~delay:*", "+@all", "-@dangerous")
    assert refused(thief.attempt("RPUSH", "private", "v"))
    assert thief.call("HSET", "delay:value:{private}", "id", "pushed") == 1
    assert thief.call("ZADD", "delay:due:{private}", 1, "id") == 1
    wait_for(lambda: server.control.lrange("private", 0, -1) == ["pushed"], what="the element in the list")
