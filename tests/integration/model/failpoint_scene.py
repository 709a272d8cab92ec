"""Scenes in which a server comes by its failpoints.

A line is what a party says, "a LOCK.ACQUIRE k a BLOCK 0": its first word names the party and is the owner too, a number
behind it left out: b and b2 are two connections of one owner. PX is added where it is left out.
"""

from dataclasses import dataclass

from harness import scaled_ms

LONG = 600_000

CONFIG = dict(lock_default_lease=LONG, lock_fair_reserve=scaled_ms(40), lock_session_grace=scaled_ms(20))


@dataclass(frozen=True)
class Scene:
    before: tuple
    """What is said first; who says BLOCK waits then."""
    then: tuple
    """What makes the server come by the points. In one packet, if the first word is no party but "at_once"."""
    moved: str = ""
    """Locks that `then` changes before the server comes to the point, too: "k l"."""
    lost: str | None = None
    """Those among them whose holders lose them; all, if nothing is said."""


# With REPLICAS the answer comes when all of it is on the replica.
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
    first_waits_in_turn=Scene(("a LOCK.ACQUIRE k a SESSION",), ("b LOCK.FAIR k b BLOCK 0",)),
    waits_in_turn=Scene(("a LOCK.FAIR k a SESSION", "b LOCK.FAIR k b BLOCK 0"), ("c LOCK.FAIR k c BLOCK 0",)),
    reads_again=Scene(
        ("a LOCK.RWREAD k a SESSION", "b LOCK.RWWRITE k b BLOCK 0", "c LOCK.RWREAD k c BLOCK 0"), ("a LOCK.RWREAD k a",)
    ),
    hands_off_in_turn=Scene(
        (
            *("d LOCK.FAIR k d", "a LOCK.FAIR k a SESSION BLOCK 0", "b LOCK.FAIR k b BLOCK 0"),
            *("c LOCK.FAIR k c FENCED BLOCK 0", "d LOCK.RELEASE k d"),
        ),
        ("a LOCK.RELEASE k a",),
    ),
    leaves_its_turn=Scene(
        (
            *("a LOCK.FAIR k a", "b LOCK.FAIR k b BLOCK 0", "c LOCK.FAIR k c BLOCK 0", "d LOCK.FAIR k d BLOCK 0"),
            "x LOCK.CANCEL k d",
        ),
        ("x LOCK.CANCEL k b",),
    ),
    lets_readers_in=Scene(
        ("a LOCK.RWWRITE k a SESSION", *(f"{name} LOCK.RWREAD k {name} BLOCK 0" for name in "bcd")),
        ("a LOCK.RELEASE k a",),
    ),
    takes_permits=Scene(("a LOCK.SEMAPHORE k a 9 PERMITS 2",), ("a LOCK.SEMAPHORE k a 9 PERMITS 3",)),
    lets_owners_of_permits_in=Scene(
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
    takes_several=Scene(("b LOCK.ACQUIRE other b",), ("a LOCK.MACQUIRE 3 k l m a",)),
    hands_several_off=Scene(
        ("a LOCK.MACQUIRE 3 k l m a SESSION", "b LOCK.MACQUIRE 3 l m k b BLOCK 0", "c LOCK.ACQUIRE m c BLOCK 0"),
        ("a LOCK.MRELEASE 3 k l m a",),
    ),
    # The lease that runs when z binds is a long one, and what is renewed gets a long one again.
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
    sees_locks_go=Scene(
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
    loses_a_grant_of_several=Scene(
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
    loses_two_waits_for_several=Scene(
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
    lets_readers_in_with_replicas=Scene(
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
