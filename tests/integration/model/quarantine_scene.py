"""Quarantines in tests: beginning one, ending it, what is asked within.

lock.quarantine counts from when the server became what it is, and may be changed at any time. So a server that is
younger than an hour is in quarantine as soon as it lasts an hour, and out of it as soon as it lasts no time.
"""

HOUR = 3_600_000

# Steps of a schedule; `q` is nobody else.
IN = ("q", f"CONFIG SET lock.quarantine {HOUR}", "OK")
OVER = ("q", "CONFIG SET lock.quarantine 0", "OK")
# Whoever waits has been searched from; a cycle that was seen would have been an answer.
SEARCHED = (lambda run: run.server.all_searched(),)

# Every way to ask for a lock that is free, and the answer of who gets it. A new acquiring command is a row.
ASKS = {
    "plain": ("LOCK.ACQUIRE k o", 1),
    "fair": ("LOCK.FAIR k o", 1),
    "read": ("LOCK.RWREAD k o", 1),
    "write": ("LOCK.RWWRITE k o", 1),
    "permit": ("LOCK.SEMAPHORE k o 3", 1),
    "permits": ("LOCK.SEMAPHORE k o 3 PERMITS 2", 2),
    "all": ("LOCK.MACQUIRE 2 k l o", 2),
    "once": ("LOCK.ACQUIRE k o ONCE", 1),
    "session": ("LOCK.ACQUIRE k o SESSION", 1),
    "fenced": ("LOCK.ACQUIRE k o FENCED", lambda token: isinstance(token, int) and token > 10**15),
}

# The same for who has it already.
ASKS_AGAIN = {
    "plain": ("LOCK.ACQUIRE k o", 2),
    "fair": ("LOCK.FAIR k o", 2),
    "read": ("LOCK.RWREAD k o", 2),
    "write": ("LOCK.RWWRITE k o", 2),
    "permit": ("LOCK.SEMAPHORE k o 3", 2),
    "permits": ("LOCK.SEMAPHORE k o 4 PERMITS 2", 4),
    "all": ("LOCK.MACQUIRE 2 k l o", 2),
    "once": ("LOCK.ACQUIRE k o ONCE", 1),
    "once, permits": ("LOCK.SEMAPHORE k o 4 PERMITS 2 ONCE", 2),
    "once, all": ("LOCK.MACQUIRE 2 k l o ONCE", 2),
    "session": ("LOCK.ACQUIRE k o SESSION", 2),
}
FIRST = {
    "fair": "plain", "once": "plain", "session": "plain", "once, permits": "permits", "once, all": "all",
}  # fmt: skip


def left_ms(server):
    return server.info("lock")["lock_quarantine_ms"]


def begin(server):
    server.control.config_set("lock.quarantine", HOUR)
    assert left_ms(server) > 0


def end(server):
    server.control.config_set("lock.quarantine", 0)
    assert left_ms(server) == 0
