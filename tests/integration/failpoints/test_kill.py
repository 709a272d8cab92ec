"""The server dies in the middle of something: what one command or one drain changed is there wholly or not at all.

Each case is a scene and the step of it at which the server dies: model/failpoint_scene.py.
"""

import pytest

from harness import failpoint, wait_for, wait_for_sync
from model.failpoint_judge import holders_in, tokens_in, torn
from model.failpoint_play import Play, holds_end, points_of_locks, untouched
from model.failpoint_scene import CONFIG, SCENES, STEPS
from model.replicas_scene import online

pytestmark = pytest.mark.usefixtures("checking_build")

DIES = [(scene, step) for scene, steps in STEPS.items() for step in steps]


def test_every_point_has_its_death():
    assert STEPS.keys() == SCENES.keys()
    assert {STEPS[scene][step][0] for scene, step in DIES} == points_of_locks()
    assert failpoint.points_that_fail() == {"consent", "block", "open"}


def last_of(replica):
    """What it has of a master that has died: all that came is applied before the link is down."""
    wait_for(lambda: replica.info("replication")["master_link_status"] == "down", what="the replica to lose its master")
    return replica.dump()


def judge(play, point, before, data):
    assert not torn(data, play.multikey, play.fenced)
    assert untouched(play, point, data) == untouched(play, point, before)


def judge_promises(play, data):
    """Who was told of a hold has it, but of what the scene itself ended; who released it has none."""
    lost = (play.scene.moved if play.scene.lost is None else play.scene.lost).split()
    for party in play.parties.values():
        for key, owner in party.told():
            if key not in {*lost, *party.may_have_released()}:
                assert owner in holders_in(data, key), f"{owner} was told that it holds {key}"
        for words, heard in party.answers:
            if words[0] == "LOCK.RELEASE" and heard == 0 and not party.holds:
                assert party.owner not in holders_in(data, words[1]), f"{party.owner} gave {words[1]} back"


def goes_on(play, server):
    """Who waited comes again and is served, when the leases of the others end; and nothing is left."""
    last_tokens = tokens_in(server.dump())
    again = play.comes_again(server)
    holds_end(again)
    again.is_over()
    for key, (token, _) in tokens_in(server.dump()).items():
        assert token >= last_tokens.get(key, (0, None))[0]
    again.nothing_is_left()


@pytest.mark.parametrize("name, step", DIES)
def test_death(make_server, name, step):
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
    play.hear()
    server.has_died()
    there = last_of(replica)
    server.start()
    again = server.dump()
    judge(play, point, before, again)
    judge(play, point, before, there)
    judge_promises(play, again)
    replica.control.execute_command("REPLICAOF", "NO", "ONE")
    goes_on(play, server)
    goes_on(play, replica)
