"""The server dies in the middle of something: what one command or one drain changed is there wholly or not at all.

Each case is a scene in which the server comes by the point, and how often it does so before it dies there.
"""

import pytest

from harness import failpoint, wait_for, wait_for_sync
from model.failpoint_judge import holders_in, tokens_in, torn
from model.failpoint_play import Play, holds_end, points_of_locks, untouched
from model.failpoint_scene import CONFIG, SCENES
from model.replicas_scene import online

pytestmark = pytest.mark.usefixtures("checking_build")

TAKES_AND_TELLS = [("take.begun", 1), ("take.written", 1), ("answer", 1), ("reply", 1)]

DIES = {
    "takes_a_free_lock": [("take.begun", 1), ("effect", 1), ("effect", 2)],
    "takes_a_token": [("take.written", 1), ("effect", 2)],
    "reenters": [("take.written", 1), ("effect", 1)],
    "reads_too": [("take.written", 1), ("effect", 2)],
    "hands_off": [("release.begun", 1), ("release.done", 1), ("effect", 2), *TAKES_AND_TELLS],
    "hands_off_with_a_token": [("take.written", 1), ("effect", 3)],
    "is_forced": [("effect", 1), ("take.written", 2)],
    "first_waits_in_turn": [("fair.between", 1), ("effect", 3)],
    "waits_in_turn": [("fair.between", 1), ("effect", 1), ("effect", 2)],
    "hands_off_in_turn": [("release.done", 1), ("take.written", 1), ("effect", 3), ("effect", 4)],
    "leaves_its_turn": [("effect", 1), ("effect", 2)],
    "lets_readers_in": [("take.begun", 2), ("take.written", 3), ("effect", 4), ("answer", 3), ("reply", 3)],
    "reads_again": [("take.written", 1)],
    "takes_permits": [("take.begun", 1), ("take.written", 1), ("effect", 1), ("effect", 2)],
    "lets_owners_of_permits_in": [
        ("release.begun", 1),
        ("release.done", 1),
        ("take.begun", 2),
        ("take.written", 3),
        ("effect", 4),
        ("effect", 9),
        ("answer", 2),
        ("reply", 3),
    ],
    "upgrades": [("release.done", 1), ("take.written", 1), ("effect", 3), ("answer", 1)],
    "takes_several": [("multikey.between", 1), ("multikey.between", 2), ("take.begun", 3)],
    "hands_several_off": [
        ("release.done", 1),
        ("release.begun", 3),
        ("multikey.between", 1),
        ("multikey.between", 3),
        ("effect", 5),
        ("reply", 1),
    ],
    "renews": [("renew.begun", 1), ("renew.begun", 3), ("renew.done", 2), ("renew.done", 3), ("effect", 3)],
    "ends_a_session": [("effect", 1), ("effect", 2), ("take.written", 2)],
    "sees_a_lease_end": [("drain.begun", 1), ("drain.lock", 1), ("effect", 1), ("take.written", 1), ("reply", 1)],
    "sees_locks_go": [("drain.lock", 2), ("take.written", 2), ("effect", 4), ("reply", 2)],
    "loses_a_grant": [("release.begun", 2), ("release.done", 2), ("take.written", 2), ("answer", 2)],
    "loses_a_grant_of_several": [("release.done", 4), ("release.begun", 5), ("take.written", 5)],
    "hands_off_to_two_waits": [("take.begun", 2), ("reply", 2)],
    "loses_two_waits_for_several": [("release.begun", 3)],
    "takes_more_permits_once": [("effect", 1)],
    "takes_with_replicas": [("take.written", 1), ("effect", 2), ("reply", 1)],
    "hands_off_with_replicas": [("release.done", 1), ("take.written", 1), ("effect", 3), ("reply", 1)],
    "lets_readers_in_with_replicas": [("take.written", 2), ("effect", 4), ("reply", 1), ("reply", 2), ("reply", 3)],
    "is_watched": [("reply", 2)],
    "opens_a_latch": [("reply", 2)],
}

CASES = [(scene, point, count) for scene, deaths in DIES.items() for point, count in deaths]


def test_every_point_has_its_death():
    assert DIES.keys() <= SCENES.keys()
    assert {point for _, point, _ in CASES} == points_of_locks()
    assert failpoint.points_that_fail() == {"consent", "block", "open"}


def last_of(replica):
    """What it has of a master that has died: all that came is applied before the link is down."""
    wait_for(lambda: replica.info("replication")["master_link_status"] == "down", what="the replica to lose its master")
    return replica.dump()


def judge(play, before, data):
    assert not torn(data, play.multikey, play.fenced)
    assert untouched(play.scene, data) == untouched(play.scene, before)


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


@pytest.mark.parametrize("name, point, count", CASES)
def test_death(make_server, name, point, count):
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
    judge(play, before, again)
    judge(play, before, there)
    judge_promises(play, again)
    replica.control.execute_command("REPLICAOF", "NO", "ONE")
    goes_on(play, server)
    goes_on(play, replica)
