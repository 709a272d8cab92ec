"""The master is killed, stopped or cut off while clients of all kinds are at work, which find the next one by Sentinel.

What each client counted on, and when, is written down by itself, and judged in the end: model/sentinel_clients.py.
"""

import pytest

from harness import scaled_ms, wait_for
from harness.connect import new_client
from harness.replication import listed
from model.beliefs import too_many
from model.sentinel_clients import KINDS, LIMIT, Client, Late
from model.sentinel_scene import Scene

LEASE = scaled_ms(6000)
LAG = 1  # s
D = scaled_ms(300)
COMMON = {"lock_default_lease": LEASE, "lock_fair_reserve": scaled_ms(30_000)}
CAREFUL = {**COMMON, "min_replicas_to_write": 1, "min_replicas_max_lag": LAG, "lock_max_lease": LEASE}
QUARANTINE = LEASE + (LAG + 3) * 1000 + D  # no acknowledgement is long under way here
REPLICAS = ("REPLICAS", 1, scaled_ms(5000))


@pytest.fixture
def scene_of(make_group):
    """scene_of(config, …): a scene in a group of servers, which has begun."""
    scenes = []

    def make(config, lease_ms=LEASE, replicas=(), quarantine=0):
        group = make_group(**config)
        for replica in group.servers[1:]:
            # Not of the master: it would begin with one.
            replica.control.config_set("lock.quarantine", quarantine)
        scenes.append(Scene(group, lease_ms, replicas))
        scenes[-1].begin()
        return scenes[-1]

    yield make
    for scene in scenes:
        scene.end()


def judge(scene, record_property):
    """All clients have come to their ends: what have they seen?"""
    scene.end()
    scene.check_history()
    without = scene.without_service()
    print(f"\nseconds without service: {without}; the session was {'lost' if scene.bound.lost else 'kept'}")
    for kind, seconds in without.items():
        record_property(f"seconds without service: {kind}", seconds)


def go_on(scene):
    """The new master serves everybody, and knows what it has to know."""
    scene.check_queue()
    scene.check_token()
    scene.wait_served(scene.load, since=scene.promoted_at)


def test_master_is_killed(scene_of, record_property):
    """REPLICAS, and no quarantine: whatever was acknowledged is there, and goes on."""
    scene = scene_of(COMMON, scaled_ms(60_000), REPLICAS)
    scene.wait_failover(lambda master: master.kill())
    assert scene.check_standing() == len(scene.standing)
    go_on(scene)
    wait_for(scene.is_bound, 30, "the session to be bound again")
    scene.old.start()
    scene.group.wait_follows(scene.old, scene.new)
    judge(scene, record_property)
    assert not scene.bound.lost


def test_master_is_stopped_and_goes_on(scene_of, record_property):
    scene = scene_of(CAREFUL, quarantine=QUARANTINE)
    scene.wait_failover(scene.group.stop)
    scene.check_standing()
    go_on(scene)
    scene.group.go_on(scene.old)
    scene.group.wait_follows(scene.old, scene.new)
    judge(scene, record_property)


class Lost:
    """Locks that nobody asks for before the master is isolated: then a client on its side does, which hears nothing
    else and has what it gets for as long as it may, and others ask the new master for the same."""

    def __init__(self, scene):
        self._scene = scene
        self._late = [
            self._client(Late, f"late-{number}-{kind}", kind, lambda: new_client(scene.old.port))
            for kind in KINDS
            for number in range(LIMIT if kind == "permit" else 1)  # the whole lock, so that anybody else is too many
        ]
        self._others = [self._client(Client, f"other-{kind}", kind) for kind in KINDS]
        self.keys = {client.key for client in self._late}

    def _client(self, type_, name, kind, connect=None):
        return type_(self._scene.terms, kind, name, f"lost-{KINDS[kind][0]}", connect)

    def isolate(self, master):
        # Just after an acknowledgement: it may then write for a second at least.
        wait_for(lambda: self._is_heard(master), 20, "a replica that has just acknowledged")
        self._scene.group.isolate(master)
        self._scene.add(*self._late)

    @staticmethod
    def _is_heard(master):
        good = master.info("replication").get("min_slaves_good_slaves", 1)
        return good > 0 and any(replica["lag"] == 0 for replica in listed(master))

    def ask_new_master(self):
        granted = {client.key for client in self._late if client.told}
        assert granted == self.keys, f"the isolated master has granted {granted} only"
        self._scene.add(*self._others)

    def wait_granted(self):
        self._scene.wait_served(self._others, 1)


def test_master_is_isolated(scene_of, record_property):
    scene = scene_of(CAREFUL, quarantine=QUARANTINE)
    lost = Lost(scene)
    scene.wait_failover(lost.isolate)
    lost.ask_new_master()
    scene.check_standing()
    go_on(scene)
    lost.wait_granted()
    scene.group.heal(scene.old)
    scene.group.wait_follows(scene.old, scene.new)
    judge(scene, record_property)


def test_isolated_master_without_protection(scene_of):
    """It goes on granting, and so does the new one: the history shows it."""
    scene = scene_of(COMMON)
    lost = Lost(scene)
    scene.wait_failover(lost.isolate)
    lost.ask_new_master()

    def found():
        # Of a semaphore more permits than there are, and a reader beside a writer, too.
        return {one.key for together in too_many(scene.terms.beliefs) for one in together}

    wait_for(lambda: found() >= lost.keys, 60, "two holders of each kind")
