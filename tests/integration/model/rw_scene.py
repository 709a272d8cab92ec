"""Readers and writers, as steps of schedules."""

from harness.schedule import BLOCKS, as_map, has


def reads(name, count=1):
    return (name, f"LOCK.RWREAD k o{name}", count)


def writes(name, count=1):
    return (name, f"LOCK.RWWRITE k o{name}", count)


def waits(name, command, owner=None):
    """This client begins to wait: RWREAD, RWWRITE, ACQUIRE or FAIR."""
    return (name, f"LOCK.{command} k {owner or 'o' + name} BLOCK 0", BLOCKS)


def releases(name, left=0, word=""):
    return (name, f"LOCK.RELEASE k o{name} {word}", left)


def mode_is(mode, holders):
    """The mode and the holders in LOCK.INFO: {"owner mode": holds}."""

    def same(found):
        entries = map(as_map, found)
        return {f"{one['owner']} {one['mode']}": one["holds"] for one in entries} == holders

    return ("z", "LOCK.INFO k", has(mode=mode, holders=same))


def owners_are(*owners):
    return lambda found: [as_map(one)["owner"] for one in found] == list(owners)
