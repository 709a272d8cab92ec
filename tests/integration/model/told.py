"""How the server tells of each command: a new command is a row.

What a command of the table in model/mutations.py is counted as in INFO, and its keyspace events: those of `k` if no
lock is named.
"""

TOLD = {
    "acquire": ({"granted_at_once": 1}, ["granted"]),
    "acquire, would wait": ({"granted_at_once": 1}, ["granted"]),
    "acquire again": ({"granted_by_reentry": 1}, ["granted"]),
    "fair": ({"granted_at_once": 1}, ["granted"]),
    "fair again": ({"granted_by_reentry": 1}, ["granted"]),
    "release": ({"releases": 1}, ["released"]),
    "release one of two": ({"releases": 1}, []),
    "release, hand on": ({"releases": 1, "granted_after_wait": 1}, ["released", "granted"]),
    "release, hand on, fair": ({"releases": 1, "granted_after_wait": 1}, ["released", "granted"]),
    "renew, longer": ({}, []),
    "force": ({"forced": 1}, ["forced"]),
    "force, hand on": ({"forced": 1, "granted_after_wait": 1}, ["forced", "granted"]),
    "cancel": ({"cancelled": 1}, []),
    "several": ({"granted_at_once": 2}, ["granted", "granted l"]),
    "several again": ({"granted_by_reentry": 2}, ["granted", "granted l"]),
    "several, one of them again": ({"granted_at_once": 1, "granted_by_reentry": 1}, ["granted", "granted l"]),
    "several, one twice": ({"granted_at_once": 2}, ["granted", "granted l"]),
    "release several": ({"releases": 2}, ["released", "released l"]),
    "release several, one of two": ({"releases": 2}, ["released l"]),
    "release several, hand on": (
        {"releases": 2, "granted_after_wait": 2},
        ["released", "released l", "granted", "granted l"],
    ),
    "release several, hand on one": (
        {"releases": 2, "granted_after_wait": 1},
        ["released", "released l", "granted"],
    ),
    "release, hand on several": ({"releases": 1, "granted_after_wait": 2}, ["released", "granted", "granted l"]),
    "force, hand on several": ({"forced": 1, "granted_after_wait": 2}, ["forced", "granted", "granted l"]),
    "cancel, several": ({"cancelled": 1}, []),
}
