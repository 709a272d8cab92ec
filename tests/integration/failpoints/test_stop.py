"""The server stands still in the middle of something while the world goes on: then one outcome, and nobody is left."""

import time
from functools import cache

import pytest

from harness import failpoint, scaled_ms, wait_for, wait_for_sync
from model.failpoint_judge import holders_in, locks_in, torn
from model.failpoint_play import TAKES, Play, holds_end, keys_of, points_of_locks, untouched
from model.failpoint_scene import CONFIG, SCENES, STEPS
from model.replicas_scene import online

pytestmark = pytest.mark.usefixtures("checking_build")

SHORT = scaled_ms(150)

STANDS = [
    ("hands_off", "hold_not_released"),
    ("hands_off", "not_handed_off"),
    ("hands_off", "next_holder_not_written"),
    ("hands_off", "next_holder_written"),
    ("hands_off", "next_holder_not_replicated"),
    ("hands_off", "waiter_not_unblocked"),
    ("hands_off", "reply_not_written"),
    ("hands_off_in_turn", "removal_of_ticket_not_replicated"),
    ("lets_readers_in", "second_reader_written"),
    ("reads_again", "count_written"),
    ("upgrades", "writer_not_unblocked"),
    ("waits_in_turn", "end_not_written"),
    ("hands_several_off", "first_lock_taken"),
    ("renews", "first_hold_not_renewed"),
    ("renews", "second_hold_renewed"),
    ("sees_a_lease_end", "drain_not_begun"),
    ("sees_a_lease_end", "lock_not_looked_at"),
    ("loses_a_grant", "lost_hold_not_released"),
    ("hands_off_to_two_waits", "second_wait_not_unblocked"),
    ("loses_one_of_two_waits", "reply_not_written"),
    ("hands_off_with_replicas", "next_holder_written"),
    ("hands_off_with_replicas", "next_holder_not_replicated"),
    ("hands_off_with_replicas", "reply_not_written"),
    ("lets_readers_in_with_replicas", "second_reply_not_written"),
    ("is_watched", "first_reply_not_written"),
    ("opens_a_latch", "second_reply_not_written"),
]


def test_every_point_has_its_stop():
    assert {STEPS[scene][step][0] for scene, step in STANDS} == points_of_locks()


# What happens meanwhile


def nothing(play):
    pass


def a_waiter_dies(play):
    """Nobody can know whether an answer that was written has arrived: it is a session's end that is noticed."""
    play.parties["b"].dies()


def the_holder_dies(play):
    """Its hold is a session's."""
    play.parties["a"].dies()


def leases_are_over(play):
    """Those that the waiters ask for; and that of the session that began last."""
    end = time.time() * 1000 + 2 * SHORT
    wait_for(lambda: time.time() * 1000 > end, 10, "the leases to end")


def commands_queue_up(play):
    for number, command in enumerate(("LOCK.RELEASE k a", "LOCK.FORCE k", "DEL k", "LOCK.CANCEL k b")):
        play.say(f"x{number} {command}")


def the_next_is_asked_for(play):
    """Who comes in between, on the waiters' own connections too."""
    for owner in ("e", "f"):
        play.say(f"{owner} LOCK.ACQUIRE k {owner} BLOCK 0")
    play.say("g LOCK.MACQUIRE 2 k o g BLOCK 0")


MEANWHILE = [a_waiter_dies, the_holder_dies, leases_are_over, commands_queue_up, the_next_is_asked_for]


GUESTS = "x0", "x1", "x2", "x3", "e", "f", "g"
LEASES = {a_waiter_dies: ("SESSION",), leases_are_over: ("PX", SHORT)}


# Judging


def holds_that_ended_otherwise(play):
    """How many at most, by the answers of those who said so."""
    ended = 0
    for party in play.parties.values():
        for words, heard in party.answers:
            if words[0] in ("LOCK.FORCE", "DEL", "PEXPIRE"):
                # Of a read-write lock it may have been as many as there are parties.
                ended += heard * (len(play.parties) if "LOCK.RW" in str(play.asked) else 1)
            elif words[0] == "LOCK.RELEASE" and party.owner.startswith("x"):
                ended += heard == 0
    return ended


def waits_that_were_cancelled(play):
    every = [(words, heard) for party in play.parties.values() for words, heard in party.answers]
    nulls = sum(words[0] in TAKES and heard is None for words, heard in every)
    return nulls, sum(words[0] == "LOCK.CANCEL" and heard for words, heard in every)


def nobody_waits_who_fits(play, data):
    alive = [party for party in play.parties.values() if party.lives]
    locks, waiting = locks_in(data), [words for party in alive for words in party.unanswered]
    for words in waiting:
        if words[0] in TAKES:
            assert locks.keys() & set(keys_of(words)), f"waits for what is free: {words}"
    for key, lock in locks.items():
        only_readers_wait = {words[0] for words in waiting if key in keys_of(words)} == {"LOCK.RWREAD"}
        assert not (lock.get("mode") == "read" and only_readers_wait), f"readers wait for {key}, which others read"


def is_settled(play):
    play.hear()
    data, told = play.server.dump(), play.told()
    alive = [party for party in play.parties.values() if party.lives]
    assert all(party.waits or not party.unanswered for party in alive), "somebody has no answer"
    nobody_waits_who_fits(play, data)
    for key in locks_in(data):
        for owner in holders_in(data, key):
            assert (key, owner) in told, f"{owner} holds {key} and has not heard of it, or is dead"
    assert play.server.dump() == data, "it still changes"
    return data


def same(server, replica):
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()
    return True


def judge(play, meanwhile):
    data = wait_for(lambda: (is_settled(play),), 10, "all to settle")[0]
    is_split = meanwhile is commands_queue_up
    assert not torn(data, [] if is_split else play.multikey, play.fenced)
    told_and_gone = {(key, owner) for key, owner in play.told() if owner not in holders_in(data, key)}
    if meanwhile is not leases_are_over:
        assert len(told_and_gone) <= holds_that_ended_otherwise(play), told_and_gone
    nulls, cancelled = waits_that_were_cancelled(play)
    assert nulls == cancelled, "a wait ended with null that nobody cancelled"


def goes_on(play, meanwhile):
    lost = play.is_over()
    if meanwhile is not leases_are_over:
        assert lost <= holds_that_ended_otherwise(play)
    for party in play.parties.values():
        # No second answer to anything.
        assert not party.lives or party.actor.call("PING") == "PONG"
    play.nothing_is_left()


@pytest.fixture(scope="module")
def new_server():
    return lambda make: make(**CONFIG)


@cache
def replica_of(server):
    """The one of the file's server."""
    return server.start_replica(**CONFIG)


@pytest.mark.parametrize("meanwhile", MEANWHILE, ids=lambda meanwhile: meanwhile.__name__)
@pytest.mark.parametrize("name, step", STANDS)
def test_stop(server, name, step, meanwhile):
    point, count = STEPS[name][step]
    replica = replica_of(server)
    wait_for(lambda: online(server) == 1, what="the master to know its replica")
    lease = LEASES.get(meanwhile, ())
    play = Play(server, SCENES[name]).begin(*lease)
    play.invite(*GUESTS)
    failpoint.arm(server, point, "stop", count)
    play.go(*lease)
    with failpoint.standing(server):
        meanwhile(play)
    assert failpoint.armed(server) == ""
    judge(play, meanwhile)
    wait_for(lambda: same(server, replica), 10, "the replica to hold the same")
    goes_on(play, meanwhile)
    wait_for(lambda: same(server, replica), 10, "the replica to hold the same")


FIRST_STANDS = list({STEPS[name][step][0]: (name, step) for name, step in reversed(STANDS)}.values())


@pytest.mark.parametrize("name, step", FIRST_STANDS)
def test_replica_is_promoted_meanwhile(make_server, name, step):
    point, count = STEPS[name][step]
    server = make_server(**CONFIG)
    replica = server.start_replica(**CONFIG)
    play = Play(server, SCENES[name]).begin()
    wait_for_sync(server, replica)
    before = server.dump()
    failpoint.arm(server, point, "stop", count)
    play.go()
    with failpoint.standing(server):
        replica.control.execute_command("REPLICAOF", "NO", "ONE")
        there = replica.dump()
        assert untouched(play, point, there) == untouched(play, point, before)
        assert not torn(there, play.multikey, play.fenced)
        again = play.comes_again(replica)
        holds_end(again)
        again.is_over()
        again.nothing_is_left()
    judge(play, nothing)
    goes_on(play, nothing)
