"""Quarantines in tests: how to begin and end one, and the requests in it.

lock.quarantine counts from the start, the load or the promotion of the server, and can be changed at any time. So a
server that is younger than an hour is in quarantine as soon as lock.quarantine is an hour, and its quarantine has ended
as soon as lock.quarantine is 0.
"""

HOUR = 3_600_000

# Steps of a schedule; no other client is named `q`.
IN = ("q", f"CONFIG SET lock.quarantine {HOUR}", "OK")
ENDED = ("q", "CONFIG SET lock.quarantine 0", "OK")
# The search has been done from all waits; a cycle that was found would have been replied.
SEARCHED = (lambda run: run.server.all_searched(),)

# Every way to request a lock that is free, and the reply to a grant. Add a row for a new acquiring command.
REQUESTS = {
    "plain": ("LOCK.ACQUIRE k o", 1),
    "fair": ("LOCK.FAIR k o", 1),
    "read": ("LOCK.RWREAD k o", 1),
    "write": ("LOCK.RWWRITE k o", 1),
    "permit": ("LOCK.SEMAPHORE k o 3", 1),
    "permits": ("LOCK.SEMAPHORE k o 3 PERMITS 2", 2),
    "all": ("LOCK.MACQUIRE 2 k l o", 2),
    "modes": ("LOCK.MACQUIRE 2 k l o MODES WRITE READ", 2),
    "once": ("LOCK.ACQUIRE k o ONCE", 1),
    "session": ("LOCK.ACQUIRE k o SESSION", 1),
    "fenced": ("LOCK.ACQUIRE k o FENCED", lambda token: isinstance(token, int) and token > 10**15),
}

# The same for an owner that holds it already.
REQUESTS_AGAIN = {
    "plain": ("LOCK.ACQUIRE k o", 2),
    "fair": ("LOCK.FAIR k o", 2),
    "read": ("LOCK.RWREAD k o", 2),
    "write": ("LOCK.RWWRITE k o", 2),
    "permit": ("LOCK.SEMAPHORE k o 3", 2),
    "permits": ("LOCK.SEMAPHORE k o 4 PERMITS 2", 4),
    "all": ("LOCK.MACQUIRE 2 k l o", 2),
    "modes": ("LOCK.MACQUIRE 2 k l o MODES WRITE READ", 2),
    "once": ("LOCK.ACQUIRE k o ONCE", 1),
    "once, permits": ("LOCK.SEMAPHORE k o 4 PERMITS 2 ONCE", 2),
    "once, all": ("LOCK.MACQUIRE 2 k l o ONCE", 2),
    "once, modes": ("LOCK.MACQUIRE 2 k l o MODES WRITE READ ONCE", 2),
    "session": ("LOCK.ACQUIRE k o SESSION", 2),
}
FIRST = {
    "fair": "plain", "once": "plain", "session": "plain", "once, permits": "permits", "once, all": "all",
    "once, modes": "modes",
}  # fmt: skip


def left_ms(server):
    return server.info("lock")["lock_quarantine_ms"]


def begin(server):
    server.control.config_set("lock.quarantine", HOUR)
    assert left_ms(server) > 0


def end(server):
    server.control.config_set("lock.quarantine", 0)
    assert left_ms(server) == 0
