"""The server dies in the middle of an operation: the changes of one command or of one drain exist completely or not at
all.

Each case is a scene and its step at which the server dies: model/failpoint_scene.py.
"""

import pytest

from harness import failpoint, wait_for, wait_for_sync
from model.failpoint_invariants import holders_in, tokens_in, torn
from model.failpoint_play import Play, holds_end, points_of_locks, untouched
from model.failpoint_scene import CONFIG, SCENES, STEPS
from model.replicas_scene import online

pytestmark = pytest.mark.usefixtures("checking_build")

DIES = [(scene, step) for scene, steps in STEPS.items() for step in steps]


def test_server_is_killed_at_every_failpoint():
    assert STEPS.keys() == SCENES.keys()
    assert {STEPS[scene][step][0] for scene, step in DIES} == points_of_locks()
    assert failpoint.points_that_fail() == {"consent", "block", "open"}


def last_of(replica):
    """The replica's data of a master that has died: all that it received is applied before the link is down."""
    wait_for(lambda: replica.info("replication")["master_link_status"] == "down", what="the replica to lose its master")
    return replica.dump()


def check(play, point, before, data):
    assert not torn(data, play.multikey, play.fenced)
    assert untouched(play, point, data) == untouched(play, point, before)


def check_replies(play, data):
    """Every granted hold exists, except those that the scene itself ended; no released hold exists."""
    lost = (play.scene.moved if play.scene.lost is None else play.scene.lost).split()
    for party in play.parties.values():
        for key, owner in party.granted():
            if key not in {*lost, *party.may_have_released()}:
                assert owner in holders_in(data, key), f"{key} was granted to {owner}"
        for words, reply in party.replies:
            if words[0] == "LOCK.RELEASE" and reply == 0 and not party.holds:
                assert party.owner not in holders_in(data, words[1]), f"{party.owner} released {words[1]}"


def continue_on(play, server):
    """The waiters repeat their requests and are granted when the other leases end; and nothing is left."""
    last_tokens = tokens_in(server.dump())
    again = play.repeat_on(server)
    holds_end(again)
    again.finish()
    for key, (token, _) in tokens_in(server.dump()).items():
        assert token >= last_tokens.get(key, (0, None))[0]
    again.check_nothing_left()


@pytest.mark.parametrize("name, step", DIES)
def test_kill_leaves_each_operation_complete_or_undone(make_server, name, step):
    point, count = STEPS[name][step]
    server = make_server(appendonly="yes", appendfsync="always", **CONFIG)
    replica = server.start_replica(**CONFIG)
    wait_for(lambda: online(server) == 1, what="the master to know its replica")
    play = Play(server, SCENES[name]).begin()
    wait_for_sync(server, replica)
    before = server.dump()
    assert replica.dump() == before
    failpoint.arm(server, point, "kill", count)
    play.go()
    failpoint.wait_dead(server)
    play.receive()
    server.has_died()
    there = last_of(replica)
    server.start()
    again = server.dump()
    check(play, point, before, again)
    check(play, point, before, there)
    check_replies(play, again)
    replica.control.execute_command("REPLICAOF", "NO", "ONE")
    continue_on(play, server)
    continue_on(play, replica)
