"""Whole slots that the servers move by themselves: Valkey from 9.0 on, Redis from 8.4 on."""

from harness import wait_for
from harness.schedule import as_map

DONE = ("success", "completed")


def can_move_slots(server):
    return server.version >= ((9, 0) if server.is_valkey else (8, 4))


def rows(reply):
    return [as_map(row) for row in reply]


def begin_move(slot, source, target, last=None):
    """Begins to move one slot, or all up to `last`. Returns a function: has the move ended?"""
    last = slot if last is None else last
    if source.server.is_valkey:
        assert source.cluster("MIGRATESLOTS", "SLOTSRANGE", slot, last, "NODE", target.id) == "OK"
        return lambda: rows(source.cluster("GETSLOTMIGRATIONS"))[0]["state"] in DONE
    task = target.cluster("MIGRATION", "IMPORT", slot, last)
    return lambda: rows(target.cluster("MIGRATION", "STATUS", "ID", task))[0]["state"] in DONE


def move(slot, source, target, last=None):
    wait_for(begin_move(slot, source, target, last), 30, "the slot to move")
    for node in (source, target):
        wait_for(lambda node=node: node.port_of(slot) == target.server.port, 20, "the nodes to agree")
