"""What must be so: while connections send, when they have gone, and when the servers have ended."""

import re

from harness import scaled_ms, wait_for
from harness.process import CRASHED

FAULTS = (*CRASHED, "ERROR: AddressSanitizer", "runtime error: ", "broken invariant")

# What INFO lock counts that must come to an end with the connections.
COUNTED = (
    "lock_waiters",
    "lock_waiters_unsearched",
    "lock_awaiting_replicas",
    "lock_contended_locks",
    "lock_sessions",
    "lock_watchers",
    "lock_latch_waiters",
)


def faults(server):
    """What the log says of a crash, a sanitizer's report or a broken invariant: where it begins."""
    log = server.log()
    begins = [log.index(mark) for mark in FAULTS if mark in log]
    return ["\n".join(log[min(begins) :].splitlines()[:40])] if begins else []


def check_settled(server):
    """No connection is left: nobody waits, and nothing is kept for those who waited."""

    def nothing_left():
        blocked = server.info("clients")["blocked_clients"]
        assert blocked == 0, f"{blocked} clients are blocked"
        left = {field: server.info("lock")[field] for field in COUNTED}
        assert not any(left.values()), f"INFO lock has {left}"
        return True

    wait_for(nothing_left, 30, "all waits to end with their connections")


def check_equal(servers):
    """Master and replica; also after the master alone has read its data again from an RDB, and from its AOF."""
    master = servers[0]
    for reload in ("", "RELOAD", "LOADAOF"):
        if reload:
            # What expires meanwhile it leaves out without a word to the replica.
            wait_for(lambda: _nothing_expires_soon(master), 30, "what expires soon to be gone")
            wait_for(lambda: not master.info("persistence")["rdb_bgsave_in_progress"], 30, "BGSAVE to end")
            master.control.execute_command("DEBUG", reload)
        wait_for(lambda: _same(master.dump(), servers[-1].dump(), reload), 30, "both to have the same data")


def _nothing_expires_soon(server):
    soon_ms = server.now_ms() + scaled_ms(2000)
    return all(end_ms is None or end_ms > soon_ms for _, _, end_ms in server.dump().values())


def _same(ours, theirs, reload):
    differ = [key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)]
    shown = [(key, ours.get(key), theirs.get(key)) for key in sorted(differ)[:3]]
    assert not differ, f"{len(differ)} keys differ after {reload or 'all commands'}: {shown}"
    return True


def leaks(server):
    """What LeakSanitizer reports of memory that came to be in the module. Not below LOCK.GUARD: there the server runs
    another command, or finds its keys, and leaks of that are its own."""
    blocks = re.split(r"\n(?=(?:Direct|Indirect) leak of )", server.log())[1:]
    frames = [re.findall(r"#\d+ .* module/(\S+)\.c:", block) for block in blocks]
    return [block for block, files in zip(blocks, frames, strict=True) if files and files[0] != "commands/cmd_guard"]
