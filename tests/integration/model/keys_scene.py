"""Commands with several keys in a cluster: ways to send them, and the places of their keys while the slot moves."""

import pytest

from harness import code_of
from model.cluster_scene import begin_move, migrate

# ---- ways to send a command; `key` is one of its keys, for scripts and functions, which declare one ----


def alone(actor, key, *words):
    return actor.attempt(*words)


def in_transaction(actor, key, *words):
    assert actor.call("MULTI") == "OK"
    queued = actor.attempt(*words)
    if queued != "QUEUED":
        assert code_of(actor.attempt("EXEC")) == "EXECABORT"
        return queued
    [reply] = actor.call("EXEC")
    return reply


def in_script(actor, key, *words):
    return actor.attempt("EVAL", "return redis.call(unpack(ARGV))", 1, key, *words)


def in_function(actor, key, *words):
    code = "#!lua name=calls\nredis.register_function('calls', function(keys, args) return redis.call(unpack(args)) end)"
    actor.call("FUNCTION", "LOAD", "REPLACE", code)
    return actor.attempt("FCALL", "calls", 1, key, *words)


WAYS = (alone, in_transaction, in_script, in_function)
each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)

# ---- a slot whose keys move one by one ----

PLACES = ("source", "target", "nowhere")
REFUSALS = ("ASK", "TRYAGAIN", "MOVED", "CROSSSLOT", "CLUSTERDOWN", "NOTHELD")


def refusal(reply):
    """The code of a refusal; None for any other reply."""
    code = str(reply).split(" ", 1)[0]
    return code if code in REFUSALS else None


def begin_move_of(nodes, slot, places):
    """Begins to move the slot, and migrates the keys whose place is the target."""
    begin_move(slot, *nodes)
    for name, place in places.items():
        if place == "target":
            migrate(name, *nodes)
