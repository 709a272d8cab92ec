"""A position whose connection has closed, and how LOCK.INFO shows positions."""

import pytest

from harness import wait_for
from harness.schedule import error
from model.fair_scene import HOUR, LONG_RESERVE, ask, ask_all, detached, hold, info, lose, order, release
from model.fair_scene import server, wait_nothing_left, waiters  # noqa: F401

DEATHS = {
    "reset": lambda server, actor: actor.kill_socket(),
    "closed": lambda server, actor: actor.close(),
    "CLIENT KILL": lambda server, actor: server.control.client_kill_filter(_id=actor.client_id),
}


@pytest.mark.parametrize("dies", DEATHS.values(), ids=DEATHS)
@pytest.mark.parametrize("back_on", ["a new connection", "an old connection"])
def test_position_is_kept_when_its_connection_closes_and_taken_over(server, dies, back_on):
    hold(server)
    old = server.actor("old")
    first, dead, last = ask_all(server, "ob", "oc", "od")
    dies(server, dead)
    wait_for(lambda: detached(server) == ["oc"], what="the position to be detached")
    assert order(server) == ["ob", "oc", "od"]
    back = old if back_on == "an old connection" else server.actor("new")
    back.send("LOCK.FAIR", "k", "oc", "BLOCK", 0)
    back.wait_blocked()
    assert order(server) == ["ob", "oc", "od"] and detached(server) == []
    for before, granted_next in (("oa", first), ("ob", back), ("oc", last)):
        release(server, before)
        assert granted_next.reply() == 1


@pytest.mark.parametrize("how", ["TIMEOUT", "ERROR"])
def test_client_unblock_ends_the_wait_and_others_are_granted(server, how):
    """TIMEOUT is a timeout: the position is given up. With ERROR it may be reserved for the owner for a while, or
    not."""
    hold(server)
    first, second = ask_all(server, "ob", "oc")
    if not server.control.execute_command("CLIENT", "UNBLOCK", first.client_id, how):
        pytest.skip("this server's module API cannot serve it: use LOCK.CANCEL")
    reply = first.outcome()
    assert reply is None if how == "TIMEOUT" else error("UNBLOCKED")(reply)
    if how == "TIMEOUT":
        assert order(server) == ["oc"]
    server.control.execute_command("LOCK.CANCEL", "k", "ob")
    release(server, "oa")
    assert second.reply() == 1


# LOCK.INFO


def test_info_shows_all_positions_in_order_with_all_fields(server):
    hold(server)
    b, c, d, e = (
        ask(server, "ob"),
        ask(server, "oc", command="LOCK.ACQUIRE"),
        ask(server, "od", "BLOCK", HOUR),
        ask(server, "oe", "BLOCK", HOUR),
    )
    e_since = server.now_ms()
    lose(server, e)
    found = waiters(server)
    assert [waiter["owner"] for waiter in found] == ["ob", "oc", "od", "oe"]
    assert [waiter["fair"] for waiter in found] == [1, 0, 1, 1]
    assert [waiter["mode"] for waiter in found] == ["exclusive"] * 4
    assert [waiter["client"] for waiter in found] == [b.client_id, c.client_id, d.client_id, None]
    left = [waiter["left"] for waiter in found]
    assert left[:2] == [None, None]
    assert found[2]["waited"] + left[2] == HOUR
    # A reserved position: the time left is its reserve, and it has waited since its owner's first request.
    assert LONG_RESERVE - (server.now_ms() - e_since) <= left[3] <= LONG_RESERVE
    wait_for(lambda: waiters(server)[3]["waited"] >= found[3]["waited"] + 50, what="the wait to grow")
    back = ask(server, "oe", "BLOCK", 0)
    after = waiters(server)[3]
    assert (after["owner"], after["client"], after["left"]) == ("oe", back.client_id, None)
    assert after["waited"] >= found[3]["waited"] + 50


@pytest.mark.parametrize("count, shown", [(0, 0), (1, 1), (3, 3), (9, 4)])
def test_info_count_limits_attached_and_detached_positions_alike(server, resp, count, shown):
    hold(server)
    actors = ask_all(server, *(f"o{number}" for number in range(4)))
    lose(server, actors[1], actors[2])
    found = server.client(resp).execute_command("LOCK.INFO", "k", "COUNT", count)
    found = found if isinstance(found, dict) else dict(zip(found[::2], found[1::2], strict=True))
    assert found["waiting"] == 4
    assert len(found["waiters"]) == shown


def test_info_of_a_free_lock_with_only_reserved_positions(server):
    a = hold(server)
    lose(server, ask(server, "ob"))
    a.call("LOCK.RELEASE", "k", "oa")
    found = info(server)
    assert (found["mode"], found["holders"], found["waiting"]) == ("free", [], 1)
    assert found["waiters"][0]["client"] is None
    server.control.execute_command("LOCK.CANCEL", "k", "ob")
    assert server.control.execute_command("LOCK.INFO", "k") is None
    wait_nothing_left(server)


def test_module_counts_waiting_clients_and_not_positions(server):
    hold(server)
    lose(server, ask(server, "ob"))
    ask(server, "oc")
    module = server.info("lock")
    assert (module["lock_waiters"], module["lock_contended_locks"]) == (1, 1)
