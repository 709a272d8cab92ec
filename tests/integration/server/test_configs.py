"""The settings of the module: their defaults and limits, where they can be set, and what lock.max-waiters counts."""

import pytest
from redis.exceptions import ResponseError

from harness.server import ServerDied
from model.lock_scene import HOUR, lease
from model.waiting_scene import say, wait_as  # noqa: F401

CONFIGS = {"lock.default-lease": "30000", "lock.fair-reserve": "5000"}
CONFIGS |= {"lock.token-retention": "86400000", "lock.session-grace": "1000"}
CONFIGS |= {"lock.quarantine": "0", "lock.max-lease": "0"}
CONFIGS |= {"lock.max-waiters": "0", "lock.redisson-interop": "no", "lock.deadlock-detection": "yes", "lock.allow-unload": "no"}
CHANGED = {"lock.default-lease": "4321", "lock.fair-reserve": "77"}
CHANGED |= {"lock.token-retention": "12345", "lock.session-grace": "55"}
CHANGED |= {"lock.quarantine": "9000", "lock.max-lease": "8000"}
CHANGED |= {"lock.max-waiters": "7", "lock.redisson-interop": "yes", "lock.deadlock-detection": "no", "lock.allow-unload": "yes"}


def configs_of(client):
    """All settings except the one that the checking build adds."""
    return {name: value for name, value in client.config_get("lock.*").items() if name != "lock.failpoint"}


def test_settings_have_their_defaults(client):
    assert configs_of(client) == CONFIGS


LEAST = {"lock.default-lease": 1, "lock.token-retention": 1}
LEAST |= dict.fromkeys(["lock.fair-reserve", "lock.session-grace", "lock.max-waiters", "lock.quarantine", "lock.max-lease"], 0)
MOST = 10**15

GOOD = [(name, str(value)) for name, least in LEAST.items() for value in (least, MOST)]
GOOD += [("lock.redisson-interop", "yes"), ("lock.redisson-interop", "no")]
GOOD += [(name, value) for name in ("lock.deadlock-detection", "lock.allow-unload") for value in ("yes", "no")]
BAD = [(name, str(value)) for name, least in LEAST.items() for value in (least - 1, MOST + 1)]
BAD += [("lock.default-lease", value) for value in ("-1", str(2**63 - 1), "1.5", "x", "")]
BAD += [("lock.fair-reserve", "x"), ("lock.quarantine", "x"), ("lock.max-lease", "1.5"), ("lock.max-waiters", "x"), ("lock.redisson-interop", "2")]
BAD += [("lock.deadlock-detection", "2"), ("lock.deadlock-detection", ""), ("lock.allow-unload", "1")]


@pytest.mark.parametrize("name, value", GOOD)
def test_value_is_set(client, name, value):
    client.config_set(name, value)
    assert client.config_get(name) == {name: value}


@pytest.mark.parametrize("name, value", BAD)
def test_bad_value_is_refused(client, name, value):
    with pytest.raises(ResponseError, match="^ERR CONFIG SET failed"):
        client.config_set(name, value)
    assert configs_of(client) == CONFIGS


def test_values_in_the_configuration_file_are_set(make_server):
    keywords = {name.replace(".", "_").replace("-", "_"): value for name, value in CHANGED.items()}
    assert configs_of(make_server(**keywords).control) == CHANGED


def test_bad_value_in_the_configuration_file_prevents_the_start(make_server):
    with pytest.raises(ServerDied, match="lock.default-lease"):
        make_server(lock_default_lease=0)


def test_values_in_module_loadex_are_set(make_server):
    server = make_server(load_module=False)
    words = [word for name, value in CHANGED.items() for word in ("CONFIG", name, value)]
    server.control.execute_command("MODULE", "LOADEX", str(server.launch.module), *words)
    assert configs_of(server.control) == CHANGED


def test_arguments_of_loadmodule_are_refused(make_server):
    with pytest.raises(ServerDied, match="takes no arguments"):
        make_server(module_args=("lock.default-lease", "4321"))


def test_config_rewrite_keeps_values(make_server):
    server = make_server()
    for name, value in CHANGED.items():
        server.control.config_set(name, value)
    server.control.config_rewrite()
    # The harness writes its own file at each start, which includes what the server wrote.
    rewritten = (server.folder / "redis.conf").read_text().splitlines()
    kept = server.folder / "kept.conf"
    kept.write_text("\n".join(line for line in rewritten if line.startswith(("lock.", "loadmodule "))) + "\n")
    again = make_server(load_module=False, include=kept)
    assert configs_of(again.control) == CHANGED


def test_lease_of_a_waiter_is_that_at_its_request(server):
    server.control.config_set("lock.default-lease", HOUR)
    say(server, "LOCK.ACQUIRE k o PX 60000")
    waiter = server.actor()
    waiter.send("LOCK.ACQUIRE", "k", "w", "BLOCK", 0)
    waiter.wait_blocked()
    server.control.config_set("lock.default-lease", 1000)
    with lease(server, HOUR):
        say(server, "LOCK.RELEASE k o")
    assert waiter.reply() == 1


def test_max_waiters_limits_the_waiters_of_the_whole_server(server, resp, actor, wait_as):
    server.control.config_set("lock.max-waiters", 2)
    for key in ("k", "l"):
        say(server, f"LOCK.ACQUIRE {key} o")
    server.client(db=1).execute_command("LOCK.ACQUIRE", "k", "o")
    first, second = wait_as("w1", "k"), wait_as("w2", "k", db=1)
    client, before = actor(), server.dump()
    refused = client.attempt("LOCK.ACQUIRE", "l", "w3", "BLOCK", 0)
    assert isinstance(refused, ResponseError)
    assert str(refused) == "ERR too many waiters, see lock.max-waiters"
    assert server.dump() == before
    # A request that need not wait is not refused.
    assert client.call("LOCK.ACQUIRE", "l", "w3") is None
    assert client.call("LOCK.ACQUIRE", "free", "w3", "BLOCK", 0) == 1
    assert client.call("LOCK.ACQUIRE", "l", "o", "BLOCK", 0) == 2
    # When a wait ends, another may begin.
    say(server, "LOCK.RELEASE k o")
    assert first.reply() == 1
    third = wait_as("w3", "l")
    # The limit can be changed at run time; present waiters may continue to wait.
    server.control.config_set("lock.max-waiters", 1)
    server.settle()
    assert second.is_blocked() and third.is_blocked()
    server.control.config_set("lock.max-waiters", 0)
    wait_as("w4", "l")
