"""How the server reports each command: add a row for a new command.

The counters in INFO that a command of the table in model/mutations.py increments, and its keyspace events, which are
those of `k` if no lock is named.
"""

REPORTED = {
    "acquire": ({"granted_at_once": 1}, ["granted"]),
    "acquire, would wait": ({"granted_at_once": 1}, ["granted"]),
    "acquire again": ({"granted_by_reentry": 1}, ["granted"]),
    "acquire again, once": ({"repeats": 1}, []),
    "fair": ({"granted_at_once": 1}, ["granted"]),
    "fair again": ({"granted_by_reentry": 1}, ["granted"]),
    "release": ({"releases": 1}, ["released"]),
    "release one of two": ({"releases": 1}, []),
    "release, hand off": ({"releases": 1, "granted_after_wait": 1}, ["released", "granted"]),
    "release, hand off, fair": ({"releases": 1, "granted_after_wait": 1}, ["released", "granted"]),
    "renew, longer": ({}, []),
    "force": ({"forced": 1}, ["forced"]),
    "force, hand off": ({"forced": 1, "granted_after_wait": 1}, ["forced", "granted"]),
    "cancel": ({"cancelled": 1}, []),
    "multi-key": ({"granted_at_once": 2}, ["granted", "granted l"]),
    "multi-key again": ({"granted_by_reentry": 2}, ["granted", "granted l"]),
    "multi-key, one of them again": ({"granted_at_once": 1, "granted_by_reentry": 1}, ["granted", "granted l"]),
    "multi-key, one twice": ({"granted_at_once": 2}, ["granted", "granted l"]),
    "multi-key release": ({"releases": 2}, ["released", "released l"]),
    "multi-key release, one of two": ({"releases": 2}, ["released l"]),
    "multi-key release, hand off": (
        {"releases": 2, "granted_after_wait": 2},
        ["released", "released l", "granted", "granted l"],
    ),
    "multi-key release, hand off one": (
        {"releases": 2, "granted_after_wait": 1},
        ["released", "released l", "granted"],
    ),
    "release, hand off to a multi-key waiter": (
        {"releases": 1, "granted_after_wait": 2},
        ["released", "granted", "granted l"],
    ),
    "force, hand off to a multi-key waiter": (
        {"forced": 1, "granted_after_wait": 2},
        ["forced", "granted", "granted l"],
    ),
    "cancel, multi-key": ({"cancelled": 1}, []),
}
