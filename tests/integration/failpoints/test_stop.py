"""The server is stopped in the middle of an operation while other things happen: there is one outcome, and no client is
left waiting."""

import time
from functools import cache

import pytest

from harness import failpoint, scaled_ms, wait_for, wait_for_sync
from model.failpoint_invariants import holders_in, locks_in, torn
from model.failpoint_play import TAKES, Play, holds_end, keys_of, points_of_locks, untouched
from model.failpoint_scene import CONFIG, SCENES, STEPS
from model.replicas_scene import online

pytestmark = pytest.mark.usefixtures("checking_build")

SHORT = scaled_ms(150)

STOPS = [
    ("hands_off", "hold_not_released"),
    ("hands_off", "not_handed_off"),
    ("hands_off", "next_holder_not_written"),
    ("hands_off", "next_holder_written"),
    ("hands_off", "next_holder_not_replicated"),
    ("hands_off", "waiter_not_unblocked"),
    ("hands_off", "reply_not_written"),
    ("hands_off_fairly", "removal_of_ticket_not_replicated"),
    ("grants_readers", "second_reader_written"),
    ("reads_again", "count_written"),
    ("upgrades", "writer_not_unblocked"),
    ("waits_fairly", "end_not_written"),
    ("hands_off_multikey", "first_lock_taken"),
    ("renews", "first_hold_not_renewed"),
    ("renews", "second_hold_renewed"),
    ("sees_a_lease_end", "drain_not_begun"),
    ("sees_a_lease_end", "lock_not_visited"),
    ("loses_a_grant", "lost_hold_not_released"),
    ("hands_off_to_two_waits", "second_wait_not_unblocked"),
    ("loses_one_of_two_waits", "reply_not_written"),
    ("hands_off_with_replicas", "next_holder_written"),
    ("hands_off_with_replicas", "next_holder_not_replicated"),
    ("hands_off_with_replicas", "reply_not_written"),
    ("grants_readers_with_replicas", "second_reply_not_written"),
    ("is_watched", "first_reply_not_written"),
    ("opens_a_latch", "second_reply_not_written"),
]


def test_server_is_stopped_at_every_failpoint():
    assert {STEPS[scene][step][0] for scene, step in STOPS} == points_of_locks()


# Events while the server is stopped


def nothing(play):
    pass


def a_waiter_dies(play):
    """The server cannot know whether a reply that it has written has arrived: it notices the end of the session."""
    play.parties["b"].dies()


def the_holder_dies(play):
    """Its hold has SESSION."""
    play.parties["a"].dies()


def leases_expire(play):
    """The leases that the waiters request, and that of the session that began last."""
    end = time.time() * 1000 + 2 * SHORT
    wait_for(lambda: time.time() * 1000 > end, 10, "the leases to end")


def commands_queue_up(play):
    for number, command in enumerate(("LOCK.RELEASE k a", "LOCK.FORCE k", "DEL k", "LOCK.CANCEL k b")):
        play.send(f"x{number} {command}")


def more_requests_queue_up(play):
    """Further requests, on other connections."""
    for owner in ("e", "f"):
        play.send(f"{owner} LOCK.ACQUIRE k {owner} BLOCK 0")
    play.send("g LOCK.MACQUIRE 2 k o g BLOCK 0")


EVENTS = [a_waiter_dies, the_holder_dies, leases_expire, commands_queue_up, more_requests_queue_up]


GUESTS = "x0", "x1", "x2", "x3", "e", "f", "g"
LEASES = {a_waiter_dies: ("SESSION",), leases_expire: ("PX", SHORT)}


# Checks


def holds_ended_by_others(play):
    """How many holds at most were ended by other parties, according to the replies to these."""
    ended = 0
    for party in play.parties.values():
        for words, reply in party.replies:
            if words[0] in ("LOCK.FORCE", "DEL", "PEXPIRE"):
                # A read-write lock may have as many holds as there are parties.
                ended += reply * (len(play.parties) if "LOCK.RW" in str(play.requests) else 1)
            elif words[0] == "LOCK.RELEASE" and party.owner.startswith("x"):
                ended += reply == 0
    return ended


def cancelled_waits(play):
    every = [(words, reply) for party in play.parties.values() for words, reply in party.replies]
    nulls = sum(words[0] in TAKES and reply is None for words, reply in every)
    return nulls, sum(words[0] == "LOCK.CANCEL" and reply for words, reply in every)


def no_waiter_could_be_granted(play, data):
    alive = [party for party in play.parties.values() if party.lives]
    locks, waiting = locks_in(data), [words for party in alive for words in party.pending]
    for words in waiting:
        if words[0] in TAKES:
            assert locks.keys() & set(keys_of(words)), f"waits for a free lock: {words}"
    for key, lock in locks.items():
        only_readers_wait = {words[0] for words in waiting if key in keys_of(words)} == {"LOCK.RWREAD"}
        assert not (lock.get("mode") == "read" and only_readers_wait), f"readers wait for {key}, which others read"


def is_settled(play):
    play.receive()
    data, granted = play.server.dump(), play.granted()
    alive = [party for party in play.parties.values() if party.lives]
    assert all(party.waits or not party.pending for party in alive), "a party has no reply"
    no_waiter_could_be_granted(play, data)
    for key in locks_in(data):
        for owner in holders_in(data, key):
            assert (key, owner) in granted, f"{owner} holds {key} and has not received the grant, or is dead"
    assert play.server.dump() == data, "it still changes"
    return data


def same(server, replica):
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()
    return True


def check(play, event):
    data = wait_for(lambda: (is_settled(play),), 10, "all to settle")[0]
    is_split = event is commands_queue_up
    assert not torn(data, [] if is_split else play.multikey, play.fenced)
    granted_and_gone = {(key, owner) for key, owner in play.granted() if owner not in holders_in(data, key)}
    if event is not leases_expire:
        assert len(granted_and_gone) <= holds_ended_by_others(play), granted_and_gone
    nulls, cancelled = cancelled_waits(play)
    assert nulls == cancelled, "a wait that was not cancelled ended with null"


def finish(play, event):
    lost = play.finish()
    if event is not leases_expire:
        assert lost <= holds_ended_by_others(play)
    for party in play.parties.values():
        # No command has a second reply.
        assert not party.lives or party.actor.call("PING") == "PONG"
    play.check_nothing_left()


@pytest.fixture(scope="module")
def new_server():
    return lambda make: make(**CONFIG)


@cache
def replica_of(server):
    """The replica of the file's server."""
    return server.start_replica(**CONFIG)


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
@pytest.mark.parametrize("name, step", STOPS)
def test_stop_has_one_outcome_whatever_happens_during_it(server, name, step, event):
    point, count = STEPS[name][step]
    replica = replica_of(server)
    wait_for(lambda: online(server) == 1, what="the master to know its replica")
    lease = LEASES.get(event, ())
    play = Play(server, SCENES[name]).begin(*lease)
    play.connect(*GUESTS)
    failpoint.arm(server, point, "stop", count)
    play.go(*lease)
    with failpoint.stopped(server):
        event(play)
    assert failpoint.armed(server) == ""
    check(play, event)
    wait_for(lambda: same(server, replica), 10, "the replica to have the same data")
    finish(play, event)
    wait_for(lambda: same(server, replica), 10, "the replica to have the same data")


FIRST_STOPS = list({STEPS[name][step][0]: (name, step) for name, step in reversed(STOPS)}.values())


@pytest.mark.parametrize("name, step", FIRST_STOPS)
def test_replica_that_is_promoted_during_a_stop_is_consistent(make_server, name, step):
    point, count = STEPS[name][step]
    server = make_server(**CONFIG)
    replica = server.start_replica(**CONFIG)
    play = Play(server, SCENES[name]).begin()
    wait_for_sync(server, replica)
    before = server.dump()
    failpoint.arm(server, point, "stop", count)
    play.go()
    with failpoint.stopped(server):
        replica.control.execute_command("REPLICAOF", "NO", "ONE")
        there = replica.dump()
        assert untouched(play, point, there) == untouched(play, point, before)
        assert not torn(there, play.multikey, play.fenced)
        again = play.repeat_on(replica)
        holds_end(again)
        again.finish()
        again.check_nothing_left()
    check(play, nothing)
    finish(play, nothing)
