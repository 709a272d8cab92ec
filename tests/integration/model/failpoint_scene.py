"""Scenes in which a server reaches its failpoints, and the steps at which tests make something happen there.

A line is a command of a party, "a LOCK.ACQUIRE k a BLOCK 0". Its first word names the party; without a number at its
end it is also the owner: b and b2 are two connections of one owner. PX is added if it is left out.
"""

from dataclasses import dataclass

from harness import scaled_ms

LONG = 600_000

CONFIG = dict(lock_default_lease=LONG, lock_fair_reserve=scaled_ms(40), lock_session_grace=scaled_ms(20))


@dataclass(frozen=True)
class Scene:
    before: tuple
    """The lines that are sent first; those with BLOCK wait."""
    then: tuple
    """The lines that make the server reach the points. They are sent in one packet if their first word is "at_once"
    instead of a party."""
    moved: str = ""
    """Locks that `then` already changes before the server reaches the point: "k l"."""
    lost: str | None = None
    """Those of them whose holders lose them; if it is None, all of them."""


# With REPLICAS the reply is sent when the replica has all changes.
AWAITS = dict(moved="k", lost="")

SCENES = dict(
    takes_a_free_lock=Scene(("a LOCK.ACQUIRE other a",), ("a LOCK.ACQUIRE k a FENCED",)),
    takes_a_token=Scene(("a LOCK.ACQUIRE k a FENCED", "a LOCK.RELEASE k a"), ("a LOCK.ACQUIRE k a FENCED",)),
    reenters=Scene(("a LOCK.ACQUIRE k a", "a LOCK.ACQUIRE k a"), ("a LOCK.ACQUIRE k a",)),
    reads_too=Scene(("a LOCK.RWWRITE k a", "b LOCK.RWREAD k b BLOCK 0"), ("a LOCK.RWREAD k a",)),
    hands_off=Scene(
        ("a LOCK.ACQUIRE k a SESSION", "b LOCK.ACQUIRE k b BLOCK 0", "c LOCK.ACQUIRE k c BLOCK 0"),
        ("a LOCK.RELEASE k a",),
    ),
    hands_off_with_a_token=Scene(
        ("a LOCK.ACQUIRE k a FENCED", "b LOCK.ACQUIRE k b FENCED BLOCK 0", "c LOCK.ACQUIRE k c FENCED BLOCK 0"),
        ("a LOCK.RELEASE k a",),
    ),
    is_forced=Scene(
        ("a LOCK.ACQUIRE k a", "b LOCK.RWREAD k b BLOCK 0", "c LOCK.RWREAD k c BLOCK 0"), ("x LOCK.FORCE k",)
    ),
    first_waits_fairly=Scene(("a LOCK.ACQUIRE k a SESSION",), ("b LOCK.FAIR k b BLOCK 0",)),
    waits_fairly=Scene(("a LOCK.FAIR k a SESSION", "b LOCK.FAIR k b BLOCK 0"), ("c LOCK.FAIR k c BLOCK 0",)),
    reads_again=Scene(
        ("a LOCK.RWREAD k a SESSION", "b LOCK.RWWRITE k b BLOCK 0", "c LOCK.RWREAD k c BLOCK 0"), ("a LOCK.RWREAD k a",)
    ),
    hands_off_fairly=Scene(
        (
            *("d LOCK.FAIR k d", "a LOCK.FAIR k a SESSION BLOCK 0", "b LOCK.FAIR k b BLOCK 0"),
            *("c LOCK.FAIR k c FENCED BLOCK 0", "d LOCK.RELEASE k d"),
        ),
        ("a LOCK.RELEASE k a",),
    ),
    leaves_the_fair_queue=Scene(
        (
            *("a LOCK.FAIR k a", "b LOCK.FAIR k b BLOCK 0", "c LOCK.FAIR k c BLOCK 0", "d LOCK.FAIR k d BLOCK 0"),
            "x LOCK.CANCEL k d",
        ),
        ("x LOCK.CANCEL k b",),
    ),
    grants_readers=Scene(
        ("a LOCK.RWWRITE k a SESSION", *(f"{name} LOCK.RWREAD k {name} BLOCK 0" for name in "bcd")),
        ("a LOCK.RELEASE k a",),
    ),
    takes_permits=Scene(("a LOCK.SEMAPHORE k a 9 PERMITS 2",), ("a LOCK.SEMAPHORE k a 9 PERMITS 3",)),
    grants_permits=Scene(
        ("a LOCK.SEMAPHORE k a 3 PERMITS 3 SESSION", *(f"{name} LOCK.SEMAPHORE k {name} 3 BLOCK 0" for name in "bcd")),
        ("a LOCK.RELEASE k a PERMITS 3",),
    ),
    upgrades=Scene(
        (
            "a LOCK.RWREAD k a SESSION",
            "b LOCK.RWREAD k b SESSION",
            "b LOCK.RWWRITE k b BLOCK 0",
            "c LOCK.RWREAD k c BLOCK 0",
        ),
        ("a LOCK.RELEASE k a",),
    ),
    takes_multikey=Scene(("b LOCK.ACQUIRE other b",), ("a LOCK.MACQUIRE 3 k l m a",)),
    hands_off_multikey=Scene(
        ("a LOCK.MACQUIRE 3 k l m a SESSION", "b LOCK.MACQUIRE 3 l m k b BLOCK 0", "c LOCK.ACQUIRE m c BLOCK 0"),
        ("a LOCK.MRELEASE 3 k l m a",),
    ),
    takes_modes=Scene(("b LOCK.ACQUIRE other b",), ("a LOCK.MACQUIRE 3 k l m a MODES READ WRITE READ",)),
    hands_off_modes=Scene(
        (
            "a LOCK.MACQUIRE 3 k l m a MODES WRITE READ WRITE SESSION",
            "b LOCK.MACQUIRE 3 l m k b MODES WRITE READ READ BLOCK 0",
            "c LOCK.RWREAD m c BLOCK 0",
        ),
        ("a LOCK.MRELEASE 3 k l m a MODES WRITE READ WRITE",),
    ),
    # The lease that runs when z binds its hold is long, and each renewal sets a long lease again.
    renews=Scene(
        (
            *("a LOCK.ACQUIRE k a SESSION", "b LOCK.RWREAD l b SESSION", "c LOCK.RWWRITE m c SESSION"),
            *("d LOCK.ACQUIRE k d BLOCK 0", "z LOCK.ACQUIRE n z"),
        ),
        (
            f"z CONFIG SET lock.default-lease {scaled_ms(300)}",
            "z LOCK.ACQUIRE n z SESSION",
            f"z CONFIG SET lock.default-lease {LONG}",
        ),
        moved="k l m n",
        lost="",
    ),
    ends_a_session=Scene(
        (
            "a LOCK.ACQUIRE k a SESSION",
            "a LOCK.RWWRITE l a SESSION",
            "b LOCK.ACQUIRE k b BLOCK 0",
            "c LOCK.RWREAD l c BLOCK 0",
        ),
        ("a DIES",),
        moved="k l",
    ),
    sees_a_lease_end=Scene(
        ("a LOCK.ACQUIRE k a SESSION", "b LOCK.ACQUIRE k b BLOCK 0", "c LOCK.ACQUIRE k c BLOCK 0"),
        ("x PEXPIRE k 1",),
        moved="k",
    ),
    sees_locks_deleted=Scene(
        (
            "a LOCK.ACQUIRE k a",
            "b LOCK.FAIR k b BLOCK 0",
            "a LOCK.RWWRITE l a",
            "c LOCK.RWREAD l c BLOCK 0",
            "d LOCK.RWREAD l d BLOCK 0",
        ),
        ("x DEL k l",),
        moved="k l",
    ),
    loses_a_grant=Scene(
        ("a LOCK.ACQUIRE k a SESSION", "b LOCK.ACQUIRE k b BLOCK 0", "c LOCK.ACQUIRE k c BLOCK 0"),
        ("at_once LOCK.RELEASE k a", "at_once CLIENT KILL ID {b}"),
        moved="k",
    ),
    loses_a_multikey_grant=Scene(
        (
            "a LOCK.MACQUIRE 3 k l m a",
            "b LOCK.MACQUIRE 3 k l m b BLOCK 0",
            "c LOCK.ACQUIRE l c BLOCK 0",
            "d LOCK.FAIR m d BLOCK 0",
        ),
        ("at_once LOCK.MRELEASE 3 k l m a", "at_once CLIENT KILL ID {b}"),
        moved="k l m",
    ),
    hands_off_to_two_waits=Scene(
        (
            *("a LOCK.ACQUIRE k a SESSION", "b LOCK.ACQUIRE k b ONCE BLOCK 0", "b2 LOCK.ACQUIRE k b ONCE BLOCK 0"),
            "c LOCK.ACQUIRE k c BLOCK 0",
        ),
        ("a LOCK.RELEASE k a",),
    ),
    loses_one_of_two_waits=Scene(
        (
            *("a LOCK.RWWRITE k a SESSION", "b LOCK.RWREAD k b ONCE BLOCK 0", "b2 LOCK.RWREAD k b ONCE BLOCK 0"),
            "c LOCK.RWWRITE k c BLOCK 0",
        ),
        ("at_once LOCK.RELEASE k a", "at_once CLIENT KILL ID {b}"),
        moved="k",
    ),
    loses_two_multikey_waits=Scene(
        (
            *("a LOCK.MACQUIRE 2 k l a", "b LOCK.MACQUIRE 2 k l b ONCE BLOCK 0"),
            *("b2 LOCK.MACQUIRE 2 k l b ONCE BLOCK 0", "c LOCK.ACQUIRE l c BLOCK 0"),
        ),
        ("at_once LOCK.MRELEASE 2 k l a", "at_once CLIENT KILL ID {b}", "at_once CLIENT KILL ID {b2}"),
        moved="k l",
    ),
    takes_more_permits_once=Scene(
        ("a LOCK.SEMAPHORE k a 9 PERMITS 2 ONCE",), ("a2 LOCK.SEMAPHORE k a 9 PERMITS 3 ONCE",)
    ),
    takes_with_replicas=Scene(("a LOCK.ACQUIRE other a",), (f"a LOCK.ACQUIRE k a FENCED REPLICAS 1 {LONG}",), **AWAITS),
    hands_off_with_replicas=Scene(
        (
            *("a LOCK.FAIR k a SESSION", f"b LOCK.FAIR k b REPLICAS 1 {LONG} BLOCK 0"),
            f"c LOCK.ACQUIRE k c REPLICAS 1 {LONG} BLOCK 0",
        ),
        ("a LOCK.RELEASE k a",),
        **AWAITS,
    ),
    grants_readers_with_replicas=Scene(
        (
            "a LOCK.RWWRITE k a SESSION",
            *(f"{name} LOCK.RWREAD k {name} REPLICAS 1 {LONG} BLOCK 0" for name in "bc"),
            "d LOCK.RWREAD k d BLOCK 0",
        ),
        ("a LOCK.RELEASE k a",),
        **AWAITS,
    ),
    is_watched=Scene(
        ("a LOCK.ACQUIRE k a SESSION", "w LOCK.WATCH k a BLOCK 0", "b LOCK.ACQUIRE k b ONCE BLOCK 0"),
        ("a LOCK.RELEASE k a",),
    ),
    opens_a_latch=Scene(
        (f"a LATCH.SET gate 1 PX {LONG}", "b LATCH.WAIT gate BLOCK 0", "c LATCH.WAIT gate BLOCK 0"),
        ("a LATCH.DOWN gate",),
    ),
)

STEPS = dict(
    takes_a_free_lock=dict(
        lock_not_written=("take.begun", 1), lock_not_replicated=("effect", 1), token_not_replicated=("effect", 2)
    ),
    takes_a_token=dict(token_not_written=("take.written", 1), token_not_replicated=("effect", 2)),
    reenters=dict(count_not_replicated=("effect", 1), count_written=("take.written", 1)),
    reads_too=dict(lease_not_replicated=("effect", 2), read_hold_written=("take.written", 1)),
    hands_off=dict(
        hold_not_released=("release.begun", 1),
        not_handed_off=("release.done", 1),
        next_holder_not_written=("take.begun", 1),
        next_holder_not_replicated=("effect", 2),
        next_holder_written=("take.written", 1),
        waiter_not_unblocked=("answer", 1),
        reply_not_written=("reply", 1),
    ),
    hands_off_with_a_token=dict(token_not_written=("take.written", 1), token_not_replicated=("effect", 3)),
    is_forced=dict(deletion_not_replicated=("effect", 1), second_reader_written=("take.written", 2)),
    first_waits_fairly=dict(end_not_written=("fair.between", 1), end_not_replicated=("effect", 3)),
    waits_fairly=dict(
        ticket_not_replicated=("effect", 1), end_not_written=("fair.between", 1), end_not_replicated=("effect", 2)
    ),
    hands_off_fairly=dict(
        not_handed_off=("release.done", 1),
        next_holder_written=("take.written", 1),
        removal_of_ticket_not_replicated=("effect", 3),
        removal_of_end_not_replicated=("effect", 4),
    ),
    leaves_the_fair_queue=dict(
        removal_of_ticket_not_replicated=("effect", 1), removal_of_end_not_replicated=("effect", 2)
    ),
    grants_readers=dict(
        first_reader_not_replicated=("effect", 4),
        second_reader_not_written=("take.begun", 2),
        second_reader_written=("take.written", 2),
        third_reader_written=("take.written", 3),
        third_reader_not_unblocked=("answer", 3),
        third_reply_not_written=("reply", 3),
    ),
    reads_again=dict(count_written=("take.written", 1)),
    takes_permits=dict(
        permits_not_written=("take.begun", 1),
        permits_not_replicated=("effect", 1),
        lease_not_replicated=("effect", 2),
        permits_written=("take.written", 1),
    ),
    grants_permits=dict(
        permits_not_released=("release.begun", 1),
        not_handed_off=("release.done", 1),
        first_owner_not_replicated=("effect", 4),
        second_owner_not_written=("take.begun", 2),
        lease_of_second_owner_not_replicated=("effect", 9),
        second_owner_not_unblocked=("answer", 2),
        third_owner_written=("take.written", 3),
        third_reply_not_written=("reply", 3),
    ),
    upgrades=dict(
        not_handed_off=("release.done", 1),
        mode_not_replicated=("effect", 3),
        writer_written=("take.written", 1),
        writer_not_unblocked=("answer", 1),
    ),
    takes_multikey=dict(
        first_lock_taken=("multikey.between", 1),
        second_lock_taken=("multikey.between", 2),
        third_lock_not_written=("take.begun", 3),
    ),
    hands_off_multikey=dict(
        first_lock_released=("release.done", 1),
        third_lock_not_released=("release.begun", 3),
        first_lock_taken=("multikey.between", 1),
        second_lock_not_replicated=("effect", 5),
        third_lock_taken=("multikey.between", 3),
        reply_not_written=("reply", 1),
    ),
    takes_modes=dict(
        read_lock_taken=("multikey.between", 1),
        write_lock_not_replicated=("effect", 5),
        third_lock_not_written=("take.begun", 3),
    ),
    hands_off_modes=dict(
        first_lock_released=("release.done", 1),
        third_lock_not_released=("release.begun", 3),
        second_lock_taken=("multikey.between", 2),
        third_lock_not_replicated=("effect", 10),
        reader_not_unblocked=("answer", 2),
        reply_not_written=("reply", 1),
    ),
    renews=dict(
        first_hold_not_renewed=("renew.begun", 1),
        lease_of_second_hold_not_replicated=("effect", 3),
        second_hold_renewed=("renew.done", 2),
        third_hold_not_renewed=("renew.begun", 3),
        third_hold_renewed=("renew.done", 3),
    ),
    ends_a_session=dict(
        release_not_replicated=("effect", 1),
        next_holder_not_replicated=("effect", 2),
        reader_of_second_lock_written=("take.written", 2),
    ),
    sees_a_lease_end=dict(
        drain_not_begun=("drain.begun", 1),
        lock_not_visited=("drain.lock", 1),
        next_holder_not_replicated=("effect", 1),
        next_holder_written=("take.written", 1),
        reply_not_written=("reply", 1),
    ),
    sees_locks_deleted=dict(
        second_lock_not_visited=("drain.lock", 2),
        removal_of_old_leases_not_replicated=("effect", 4),
        first_reader_written=("take.written", 2),
        second_reply_not_written=("reply", 2),
    ),
    loses_a_grant=dict(
        lost_hold_not_released=("release.begun", 2),
        not_handed_off_again=("release.done", 2),
        next_holder_written=("take.written", 2),
        next_waiter_not_unblocked=("answer", 2),
    ),
    loses_a_multikey_grant=dict(
        first_lost_hold_released=("release.done", 4),
        second_lost_hold_not_released=("release.begun", 5),
        next_holder_of_third_lock_written=("take.written", 5),
    ),
    hands_off_to_two_waits=dict(
        second_wait_not_granted=("take.begun", 2),
        second_wait_not_unblocked=("answer", 2),
        second_reply_not_written=("reply", 2),
    ),
    loses_one_of_two_waits=dict(reply_not_written=("reply", 1)),
    loses_two_multikey_waits=dict(first_lost_hold_not_released=("release.begun", 3)),
    takes_more_permits_once=dict(permits_not_replicated=("effect", 1)),
    takes_with_replicas=dict(
        token_not_written=("take.written", 1), token_not_replicated=("effect", 2), reply_not_written=("reply", 1)
    ),
    hands_off_with_replicas=dict(
        not_handed_off=("release.done", 1),
        next_holder_not_replicated=("effect", 2),
        next_holder_written=("take.written", 1),
        removal_of_ticket_not_replicated=("effect", 3),
        reply_not_written=("reply", 1),
    ),
    grants_readers_with_replicas=dict(
        first_reader_not_replicated=("effect", 4),
        second_reader_written=("take.written", 2),
        first_reply_not_written=("reply", 1),
        second_reply_not_written=("reply", 2),
        third_reply_not_written=("reply", 3),
    ),
    is_watched=dict(first_reply_not_written=("reply", 1), second_reply_not_written=("reply", 2)),
    opens_a_latch=dict(second_reply_not_written=("reply", 2)),
)
"""For each scene: what has or has not happened at the step; its failpoint, and the visit to it: ("effect", 2) is the
second one. "Not replicated": the key has been changed, and replicas and the AOF have not received the change."""
