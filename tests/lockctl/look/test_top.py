"""lockctl top: the locks that are waited for, printed once and on a screen."""

import json
import os
import signal
import subprocess

import pytest
from scene import LOCKCTL, ask, ask_json, contend, contend_many, hold, url_of
from terminal import DOWN, PAGE_DOWN, UP


def test_once(make_server):
    server = make_server()
    contend(server, "a", 3)
    done = ask("top", "--once", url=url_of(server))
    assert done.returncode == 0
    totals, head, row = done.stdout.splitlines()
    assert totals.startswith("waiters 3  locks 1 ")
    assert head.split() == ["WAITERS", "WAITS", "MEAN", "LONGEST", "HELD", "LOCK"]
    assert row.split()[:2] == ["3", "3"] and row.endswith("a  held by a-holder")


def test_once_as_json(make_server):
    server = make_server()
    contend(server, "a", 2)
    contend(server, "b", 1, db=3)
    found = ask_json("top", "--once", url=url_of(server))
    assert (found["nodes"], found["nodes_replied"]) == (1, 1)
    assert found["totals"]["waiters"] == 3
    rows = {(lock["db"], lock["lock"]): (lock["waiters"], lock["owner"], lock["holders"]) for lock in found["locks"]}
    assert rows == {(0, "a"): (2, "a-holder", 1), (3, "b"): (1, "b-holder", 1)}
    assert all(lock["usec"] > 0 and lock["usec_per_hold"] is None for lock in found["locks"])


def test_count_is_how_many(make_server):
    server = make_server()
    contend_many(server, 40)
    assert len(ask_json("top", "--once", url=url_of(server))["locks"]) == 20
    assert len(ask_json("top", "--once", "--count", "3", url=url_of(server))["locks"]) == 3


def test_a_whole_cluster(make_cluster):
    cluster = make_cluster()
    for name in ("a", "b", "c", "d"):
        contend(cluster.node_of(name), name, 1)
    url = f"redis+cluster://127.0.0.1:{cluster.node_of('a').port}"
    found = ask_json("top", "--once", url=url)
    assert found["nodes"] == found["nodes_replied"] == 3
    assert found["totals"]["waiters"] == 4
    places = {lock["lock"]: lock["node"] for lock in found["locks"]}
    assert places == {name: f"127.0.0.1:{cluster.node_of(name).port}" for name in "abcd"}


def test_a_server_without_the_module(make_server):
    server = make_server(load_module=False)
    done = ask("top", "--once", url=url_of(server))
    assert done.returncode == 69
    assert "unknown command" in done.stderr


def test_lines_of_json_until_it_is_ended(make_server):
    server = make_server()
    contend(server, "a", 1)
    process = subprocess.Popen(
        [LOCKCTL, "top", "--json", "--interval", "0.1"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "LOCKCTL_URL": url_of(server)},
    )
    with process:
        for _ in range(3):
            assert json.loads(process.stdout.readline())["totals"]["waiters"] == 1
        process.send_signal(signal.SIGTERM)
        process.stdout.read()
        assert process.wait(10) == 128 + signal.SIGTERM


def test_no_terminal(make_server):
    done = ask("top", url=url_of(make_server()), stdin=subprocess.DEVNULL)
    assert done.returncode == 64
    assert "terminal" in done.stderr


# The screen


def is_there(name):
    return lambda lines: any(line[1:].startswith(name + " ") for line in lines)


def selected(name):
    return lambda lines: any(line.startswith(f">{name} ") for line in lines)


def order_of(lines):
    """The names in the rows, between the head and the line above the detail."""
    rules = [i for i, line in enumerate(lines) if line.startswith("qqq") or line.startswith("───")]
    # While the screen is drawn there may be no such line.
    return [line[1:].split()[0] for line in lines[5 : rules[0]] if line] if rules else []


def test_screen_of_80_by_24(make_server, open_terminal):
    server = make_server()
    contend(server, "orders", 3)
    terminal = open_terminal("top", url=url_of(server))
    terminal.shows(selected("orders"))
    terminal.shows(
        lambda lines: "q: quit" in lines[-1] and any("waits " in line and "orders-waiter-2" in line for line in lines)
    )
    waiters, bar = terminal.row("orders")[:2]
    assert (waiters, bar) == ("3", "||||||")
    lines = terminal.lines
    assert len(lines) == 24 and all(len(line) <= 80 for line in lines)
    assert lines[0].startswith(f"lockctl top  127.0.0.1:{server.port}")
    assert lines[1].startswith("waiters 3  locks 1 ")
    assert "orders-holder"[:8] in next(line for line in lines if line.startswith(">orders"))
    assert any("held " in line and "orders-holder" in line for line in lines)
    assert "q: quit" in lines[23]


def test_it_lives(make_server, open_terminal):
    """What changes on the server changes on the screen, without a key."""
    server = make_server()
    terminal = open_terminal("top", "--interval", "0.2", url=url_of(server))
    terminal.shows(lambda lines: any("no client has waited" in line for line in lines))
    waiters = contend(server, "k", 2)
    terminal.shows(lambda lines: terminal.row("k") and terminal.row("k")[0] == "2")
    server.control.execute_command("LOCK.RELEASE", "k", "k-holder")
    assert waiters[0].outcome() == 1
    terminal.shows(lambda lines: terminal.row("k")[0] == "1")
    terminal.shows(lambda lines: any("held " in line and "k-waiter-0" in line for line in lines))


def test_keys_select_and_order(make_server, open_terminal):
    server = make_server()
    contend(server, "first", 1)
    contend(server, "second", 3)
    contend(server, "third", 2)
    hold(server, "nobody-waits")
    terminal = open_terminal("top", url=url_of(server))
    terminal.shows(is_there("third"))
    terminal.type("w")
    terminal.shows(lambda lines: order_of(lines) == ["second", "third", "first"])
    terminal.type("n")
    terminal.shows(lambda lines: order_of(lines) == ["first", "second", "third"])
    terminal.type("w")
    terminal.shows(lambda lines: any("by waiters" in line for line in lines))
    terminal.type(UP * 3)
    terminal.shows(selected("second"))
    terminal.type(DOWN)
    terminal.shows(selected("third"))
    terminal.shows(lambda lines: any("third-waiter-1" in line for line in lines))
    # The selection stays with its lock.
    terminal.type("n")
    terminal.shows(lambda lines: order_of(lines) == ["first", "second", "third"] and selected("third")(lines))


def test_pause(make_server, open_terminal):
    server = make_server()
    contend(server, "k", 1)
    terminal = open_terminal("top", "--interval", "0.2", url=url_of(server))
    terminal.shows(is_there("k"))
    terminal.type("p")
    terminal.shows(lambda lines: any("paused" in line for line in lines))
    contend(server, "l", 1)
    terminal.type("h")
    terminal.shows(lambda lines: "p pause" in lines[23])
    assert terminal.row("l") is None
    terminal.type("p")
    terminal.shows(is_there("l"))


@pytest.mark.parametrize("columns, lines", [(40, 12), (20, 5), (200, 60), (80, 24)])
def test_size_of_the_window(make_server, open_terminal, columns, lines):
    server = make_server()
    contend(server, "a-lock", 1)
    terminal = open_terminal("top", "--interval", "0.2", url=url_of(server))
    terminal.shows(is_there("a-lock"))
    terminal.resize(columns, lines)
    wanted = min(columns, 40)
    terminal.shows(lambda shown: "up, down"[:wanted] in shown[-1] and (lines < 7 or is_there("a-lock")(shown)))
    terminal.type("q")
    assert terminal.end() == 0


def test_ten_thousand_locks(make_server, open_terminal):
    server = make_server()
    contend_many(server, 10_000)
    terminal = open_terminal("top", url=url_of(server))
    terminal.shows(lambda lines: lines[1].startswith("waiters 20  locks 10000 "))
    terminal.shows(lambda lines: len(order_of(lines)) >= 10)
    before = order_of(terminal.lines)
    terminal.type(PAGE_DOWN * 2)
    terminal.shows(lambda lines: order_of(lines)[-1] not in before)


def test_the_server_goes_and_comes_back(make_server, open_terminal):
    server = make_server()
    contend(server, "k", 1)
    terminal = open_terminal("top", "--interval", "0.2", url=url_of(server))
    terminal.shows(is_there("k"))
    server.stop()
    terminal.shows(lambda lines: any("Connection refused" in line for line in lines))
    server.start()
    contend(server, "l", 1)
    terminal.shows(is_there("l"))
    assert not any("refused" in line for line in terminal.lines)


@pytest.mark.parametrize("key, status", [("q", 0), ("\x03", 128 + signal.SIGINT)])
def test_it_ends_and_gives_the_terminal_back(make_server, open_terminal, key, status):
    server = make_server()
    contend(server, "k", 1)
    terminal = open_terminal("top", url=url_of(server))
    terminal.shows(is_there("k"))
    terminal.type(key)
    assert terminal.end() == status


def test_names_of_any_bytes(make_server, open_terminal):
    server = make_server()
    for name in (b"\xffraw", "käse".encode(), b"a\tb", "漢字".encode()):
        hold(server, name)
        actor = server.actor()
        actor.send("LOCK.ACQUIRE", name, "w", "BLOCK", "0")
        actor.wait_blocked()
    terminal = open_terminal("top", url=url_of(server))
    for shown in ("\\xffraw", "käse", "a\\x09b"):
        terminal.shows(is_there(shown))
    terminal.shows(lambda lines: any(line[1:].startswith("漢") for line in lines))
