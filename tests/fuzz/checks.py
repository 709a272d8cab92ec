"""What must be true: while connections send, when they are closed, and when the servers have ended."""

import re

from harness import scaled_ms, wait_for
from harness.process import CRASHED

FAULTS = (*CRASHED, "ERROR: AddressSanitizer", "runtime error: ", "broken invariant")

# Fields of INFO lock that must be 0 when all connections are closed.
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
    """The beginning of a crash, a sanitizer's report or a broken invariant in the log."""
    log = server.log()
    begins = [log.index(mark) for mark in FAULTS if mark in log]
    return ["\n".join(log[min(begins) :].splitlines()[:40])] if begins else []


def check_settled(server):
    """All connections are closed: no client waits, and nothing is kept for clients that waited."""

    def nothing_left():
        blocked = server.info("clients")["blocked_clients"]
        assert blocked == 0, f"{blocked} clients are blocked"
        left = {field: server.info("lock")[field] for field in COUNTED}
        assert not any(left.values()), f"INFO lock has {left}"
        return True

    wait_for(nothing_left, 30, "all waits to end with their connections")


def check_equal(servers):
    """Master and replica have the same data; also after only the master has loaded its data again from an RDB, and from
    its AOF."""
    master = servers[0]
    for reload in ("", "RELOAD", "LOADAOF"):
        if reload:
            # It skips keys that expire meanwhile, without notifying the replica.
            wait_for(lambda: _nothing_expires_soon(master), 30, "keys that expire soon to be gone")
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
    """The leaks that LeakSanitizer reports for memory allocated by the module. Not below LOCK.GUARD: there the server
    runs another command, or finds its keys, and leaks of these are the server's own."""
    blocks = re.split(r"\n(?=(?:Direct|Indirect) leak of )", server.log())[1:]
    frames = [re.findall(r"#\d+ .* module/(\S+)\.c:", block) for block in blocks]
    return [block for block, files in zip(blocks, frames, strict=True) if files and files[0] != "commands/cmd_guard"]
