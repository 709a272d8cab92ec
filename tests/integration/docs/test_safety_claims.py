"""Servers with the settings of docs/safety.md do what the claims there say; a few steps of each.

The model shows that the claims hold; the tests in failover/ show that they hold in real failovers.
"""

import re
from pathlib import Path

import pytest
from redis.exceptions import ResponseError

from harness import scaled, wait_for, wait_for_sync
from harness.connect import HOST

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "safety.md").read_text()
BLOCKS = dict(re.findall(r"```conf\n# redis.conf, (.*)\n([^`]*)```", PAGE))
each_with_replicas = pytest.mark.parametrize("name", ["fast", "both"])
each_with_quarantine = pytest.mark.parametrize("name", ["careful", "both"])


def settings_of(name):
    lines = [line.split(" ", 1) for line in BLOCKS[name].splitlines()]
    return {option.replace("-", "_").replace("lock.", "lock_"): value for option, value in lines}


@pytest.fixture
def three(make_server):
    """three(name): a master and two replicas with these settings. The quarantine after the start is ended early."""

    def three(name):
        settings = settings_of(name)
        master = make_server(**settings)
        replicas = [master.start_replica(**settings) for _ in range(2)]
        for server in (master, *replicas):
            # A server cannot be shut down while it writes its first AOF.
            wait_for(lambda server=server: has_its_aof(server), scaled(20), f"{server} to have an AOF, or need none")
        if "lock_quarantine" in settings:
            master.control.config_set("lock.quarantine", 0)
            wait_for(lambda: writes(master), scaled(20), "the master to see its replicas")
        return master, *replicas

    return three


def has_its_aof(server):
    info = server.info("persistence")
    return not (info["aof_rewrite_in_progress"] or info["aof_rewrite_scheduled"])


def writes(server):
    try:
        return server.control.set("written", 1)
    except ResponseError:
        return False


def say(server, line):
    return server.control.execute_command(*line.split())


def test_every_setting_is_what_the_page_says(make_server):
    for name in BLOCKS:
        server = make_server(**settings_of(name))
        for line in BLOCKS[name].splitlines():
            option, value = line.split(" ", 1)
            assert server.control.config_get(option) == {option: value}


@each_with_replicas
def test_grant_is_on_all_replicas(three, name):
    master, one, other = three(name)
    assert say(master, "LOCK.ACQUIRE k alice REPLICAS 2 60000") == 1
    assert [replica.control.hgetall("k") for replica in (one, other)] == [{"alice": "1"}] * 2
    assert say(master, "LOCK.RENEW k alice REPLICAS 2 60000") == 1


@each_with_replicas
def test_no_grant_while_a_replica_is_missing(three, name):
    master, one, _ = three(name)
    one.stop()
    wait_for(lambda: master.info("replication")["connected_slaves"] == 1, scaled(20), "the master to lose a replica")
    with pytest.raises(ResponseError, match="^NOREPLICAS "):
        say(master, "LOCK.ACQUIRE k alice REPLICAS 2 60000")
    assert not master.control.exists("k")


@each_with_quarantine
def test_nothing_is_granted_after_a_start(make_server, name):
    # Without a replica writes would be refused: so that it is the quarantine that refuses.
    server = make_server(**settings_of(name) | {"min_replicas_to_write": "0"})
    assert 0 < server.info("lock")["lock_quarantine_ms"] <= 23000
    assert say(server, "LOCK.ACQUIRE k alice") is None


@each_with_quarantine
def test_longer_lease_is_refused(three, name):
    master, *_ = three(name)
    with pytest.raises(ResponseError, match="^ERR "):
        say(master, "LOCK.ACQUIRE k alice PX 10001")
    assert say(master, "LOCK.ACQUIRE k alice PX 10000") == 1


@each_with_quarantine
def test_new_master_grants_nothing_and_keeps_its_holds(three, name):
    master, one, other = three(name)
    assert say(master, "LOCK.ACQUIRE k alice PX 10000") == 1
    wait_for_sync(master, one)
    master.kill()
    say(one, "REPLICAOF NO ONE")
    assert one.control.hgetall("k") == {"alice": "1"}
    say(other, f"REPLICAOF {HOST} {one.port}")
    wait_for(lambda: writes(one), scaled(20), "the new master to see its replica")
    assert 0 < one.info("lock")["lock_quarantine_ms"] <= 23000
    assert say(one, "LOCK.ACQUIRE k bob") is None
    assert say(one, "LOCK.ACQUIRE free bob") is None


@each_with_quarantine
def test_master_without_replicas_grants_nothing(three, name):
    master, one, other = three(name)
    one.stop()
    other.stop()
    wait_for(lambda: not writes(master), scaled(30), "the master to find that it is alone")
    with pytest.raises(ResponseError, match="^NOREPLICAS "):
        say(master, "LOCK.ACQUIRE k alice")
