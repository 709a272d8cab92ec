"""The master is killed, stopped or isolated while clients of all kinds work; they find the next master by Sentinel.

Each client records what it relied on, and when; the records are checked at the end: model/sentinel_clients.py.
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
QUARANTINE = LEASE + (LAG + 3) * 1000 + D  # no acknowledgement takes long here
REPLICAS = ("REPLICAS", 1, scaled_ms(5000))


@pytest.fixture
def scene_of(make_group):
    """scene_of(config, …): a scene in a group of servers, started."""
    scenes = []

    def make(config, lease_ms=LEASE, replicas=(), quarantine=0):
        group = make_group(**config)
        for replica in group.servers[1:]:
            # Not for the master, which would start with a quarantine.
            replica.control.config_set("lock.quarantine", quarantine)
        scenes.append(Scene(group, lease_ms, replicas))
        scenes[-1].begin()
        return scenes[-1]

    yield make
    for scene in scenes:
        scene.end()


def check_end(scene, record_property):
    """Ends all clients, checks what they have recorded, and reports the seconds without service."""
    scene.end()
    scene.check_history()
    without = scene.without_service()
    print(f"\nseconds without service: {without}; the session was {'lost' if scene.bound.lost else 'kept'}")
    for kind, seconds in without.items():
        record_property(f"seconds without service: {kind}", seconds)


def check_new_master(scene):
    """The new master serves all clients, and has the queue and the token."""
    scene.check_queue()
    scene.check_token()
    scene.wait_served(scene.load, since=scene.promoted_at)


def test_acknowledged_holds_survive_a_killed_master(scene_of, record_property):
    """REPLICAS, and no quarantine: every acknowledged hold is there, and remains valid."""
    scene = scene_of(COMMON, scaled_ms(60_000), REPLICAS)
    scene.wait_failover(lambda master: master.kill())
    assert scene.check_kept() == len(scene.kept)
    check_new_master(scene)
    wait_for(scene.is_bound, 30, "the session to be bound again")
    scene.old.start()
    scene.group.wait_follows(scene.old, scene.new)
    check_end(scene, record_property)
    assert not scene.bound.lost


def test_no_lock_is_held_twice_when_a_stopped_master_continues(scene_of, record_property):
    scene = scene_of(CAREFUL, quarantine=QUARANTINE)
    scene.wait_failover(scene.group.stop)
    scene.check_kept()
    check_new_master(scene)
    scene.group.resume(scene.old)
    scene.group.wait_follows(scene.old, scene.new)
    check_end(scene, record_property)


class Lost:
    """Locks that no client requests before the master is isolated. Then a client on its side, which reaches no other
    server, acquires them and holds them as long as it may, and other clients request them from the new master."""

    def __init__(self, scene):
        self._scene = scene
        self._late = [
            self._client(Late, f"late-{number}-{kind}", kind, lambda: new_client(scene.old.port))
            for kind in KINDS
            for number in range(LIMIT if kind == "permit" else 1)  # the whole lock: any other holder is one too many
        ]
        self._others = [self._client(Client, f"other-{kind}", kind) for kind in KINDS]
        self.keys = {client.key for client in self._late}

    def _client(self, type_, name, kind, connect=None):
        return type_(self._scene.terms, kind, name, f"lost-{KINDS[kind][0]}", connect)

    def isolate(self, master):
        # Just after an acknowledgement: the master may then write for at least a second.
        wait_for(lambda: self._has_acknowledging_replica(master), 20, "a replica that has just acknowledged")
        self._scene.group.isolate(master)
        self._scene.add(*self._late)

    @staticmethod
    def _has_acknowledging_replica(master):
        good = master.info("replication").get("min_slaves_good_slaves", 1)
        return good > 0 and any(replica["lag"] == 0 for replica in listed(master))

    def request_from_new_master(self):
        granted = {client.key for client in self._late if client.granted_at}
        assert granted == self.keys, f"the isolated master has granted {granted} only"
        self._scene.add(*self._others)

    def wait_granted(self):
        self._scene.wait_served(self._others, 1)


def test_no_lock_is_held_twice_when_the_master_is_isolated(scene_of, record_property):
    scene = scene_of(CAREFUL, quarantine=QUARANTINE)
    lost = Lost(scene)
    scene.wait_failover(lost.isolate)
    lost.request_from_new_master()
    scene.check_kept()
    check_new_master(scene)
    lost.wait_granted()
    scene.group.heal(scene.old)
    scene.group.wait_follows(scene.old, scene.new)
    check_end(scene, record_property)


def test_isolated_master_without_protection_grants_locks_twice(scene_of):
    """Both the isolated master and the new one grant locks: the check of the history finds it."""
    scene = scene_of(COMMON)
    lost = Lost(scene)
    scene.wait_failover(lost.isolate)
    lost.request_from_new_master()

    def found():
        # Also more permits of a semaphore than there are, and a reader together with a writer.
        return {one.key for together in too_many(scene.terms.beliefs) for one in together}

    wait_for(lambda: found() >= lost.keys, 60, "two holders of each kind")
