"""Every way in which a fair queue changes, as a table: add a row for a new way.

Each begins with the same scene: oa holds k; ob, oc and od wait for it, od without a timeout.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from harness import scaled_ms, wait_for

from .fair_scene import HOUR, ask, hold, holder, lose, order, release, written_is_right

A_WHILE = scaled_ms(200)


class Scene:
    def __init__(self, server):
        self.server = server
        self.a = hold(server)
        self.b, self.c = ask(server, "ob", "BLOCK", HOUR), ask(server, "oc", "BLOCK", HOUR)
        self.d = ask(server, "od", "BLOCK", 0)
        self.others = []

    def asks(self, owner, *options):
        self.others.append(ask(self.server, owner, *options))

    def call(self, owner, *words):
        return self.server.actor(owner).call(words[0], "k", owner, *words[1:])

    def settled(self):
        """Waits until the keys agree with memory: changes by the drain have been written too."""
        wait_for(lambda: written_is_right(self.server), what="the keys to agree with memory")


def _do_nothing(scene):
    pass


@dataclass(frozen=True)
class Change:
    """The owner that it affects, what prepares it, and what makes it happen."""

    owner: str
    act: Callable
    prepare: Callable = _do_nothing
    writes: tuple = ()
    """The transactions in the AOF for it, without PEXPIREAT of the side keys; T is a ticket, END a time."""


def _joins(*options):
    return lambda scene: scene.asks("oe", *options)


def _tries(owner, expected):
    def act(scene):
        assert scene.call(owner, "LOCK.FAIR", "PX", HOUR) == expected

    return act


def _second_request(scene):
    scene.asks("oc", "BLOCK", HOUR)
    assert scene.c.reply() is None


def _dies(name):
    return lambda scene: lose(scene.server, getattr(scene, name))


def _returns(scene):
    scene.asks("oc", "BLOCK", 0)


def _times_out(scene):
    scene.asks("oc", "BLOCK", A_WHILE)
    assert scene.c.reply() is None
    assert scene.others[0].reply() is None


def _cancelled(owner, actor=None):
    def act(scene):
        assert scene.server.control.execute_command("LOCK.CANCEL", "k", owner) == 1
        assert actor is None or getattr(scene, actor).reply() is None

    return act


def _granted(*words):
    def act(scene):
        scene.server.control.execute_command(*words)
        assert scene.b.reply() == 1

    return act


def _lease_ends(scene):
    scene.server.control.pexpire("k", A_WHILE)
    assert scene.b.reply() == 1


def _head_dies_and_lock_is_free(scene):
    lose(scene.server, scene.b)
    release(scene.server, "oa")


def _barges_in(scene):
    assert scene.call("oc", "LOCK.ACQUIRE", "PX", HOUR) == 1
    assert holder(scene.server) == "oc"


def _all_but_last_die_and_lock_is_free(scene):
    lose(scene.server, scene.b, scene.c)
    release(scene.server, "oa")


def _reserve_ends(scene):
    scene.server.control.config_set("lock.fair-reserve", A_WHILE)
    scene.c.kill_socket()
    wait_for(lambda: "oc" not in order(scene.server), what="the reserve to end")


def _unblocked(scene):
    if not scene.server.control.execute_command("CLIENT", "UNBLOCK", scene.c.client_id):
        pytest.skip("this server's module API cannot serve CLIENT UNBLOCK")
    assert scene.c.reply() is None


def _queue(owner):
    return ("ZADD", "lock:queue:{k}", "T", owner)


def _ends(owner, end="END"):
    return ("ZADD", "lock:timeout:{k}", end, owner)


def _gone(owner):
    return ("ZREM", "lock:queue:{k}", owner), ("ZREM", "lock:timeout:{k}", owner)


def _taken(owner):
    return ("HSET", "k", owner, "1"), ("PEXPIREAT", "k", "END")


_HANDED_TO_B = (("DEL", "k"), *_taken("ob"), *_gone("ob"))
_AGAIN = (("HSET", "k", "oa", "2"), ("PEXPIREAT", "k", "END"))

CHANGES = {
    "joins": Change("oe", _joins("BLOCK", HOUR), writes=((_queue("oe"), _ends("oe")),)),
    "joins without a timeout": Change("oe", _joins("BLOCK", 0), writes=((_queue("oe"), _ends("oe", "+inf")),)),
    "tries, is not granted": Change("oe", _tries("oe", None)),
    "holder enters again": Change("oa", _tries("oa", 2), writes=(_AGAIN,)),
    "requests again": Change("oc", _second_request, writes=((_queue("oc"), _ends("oc")),)),
    "loses its client": Change("oc", _dies("c"), writes=((_ends("oc"),),)),
    "returns": Change("oc", _returns, _dies("c"), writes=((_queue("oc"), _ends("oc", "+inf")),)),
    "times out": Change("oc", _times_out, writes=((_queue("oc"), _ends("oc")), _gone("oc"))),
    "cancelled": Change("oc", _cancelled("oc", "c"), writes=(_gone("oc"),)),
    "cancelled, detached": Change("oc", _cancelled("oc"), _dies("c"), writes=(_gone("oc"),)),
    "cancelled at the head": Change("ob", _cancelled("ob", "b"), writes=(_gone("ob"),)),
    "granted by RELEASE": Change("ob", _granted("LOCK.RELEASE", "k", "oa"), writes=(_HANDED_TO_B,)),
    "granted by FORCE": Change("ob", _granted("LOCK.FORCE", "k"), writes=(_HANDED_TO_B,)),
    "granted after DEL": Change("ob", _granted("DEL", "k"), writes=(_HANDED_TO_B[:1], _HANDED_TO_B[1:])),
    "granted after the lease": Change("ob", _lease_ends, writes=((("PEXPIREAT", "k", "END"),), _HANDED_TO_B)),
    "takes its position at the head": Change(
        "ob", _tries("ob", 1), _head_dies_and_lock_is_free, writes=((*_taken("ob"), *_gone("ob")),)
    ),
    "barges in, has a position": Change(
        "oc", _barges_in, _all_but_last_die_and_lock_is_free, writes=((*_taken("oc"), *_gone("oc")),)
    ),
    "reserve ends": Change("oc", _reserve_ends, writes=((_ends("oc"),), _gone("oc"))),
    "CLIENT UNBLOCK": Change("oc", _unblocked, writes=(_gone("oc"),)),
}
each_change = pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
