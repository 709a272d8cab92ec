"""While lockctl waits: servers that restart, hang, reply with errors, change their role; and when it stops waiting."""

import socket
import time

import pytest

from harness import scaled, scaled_ms, wait_for, wait_for_sync
from runs import LOST, NOT_HAD, UNAVAILABLE, holders, is_free, lives, stopped, wait_free, wait_waiting


def words_of(options):
    return " ".join(map(str, options)) or "plain"


HOLDS = {"session": [], "lease": ["--lease", scaled(60)]}


@pytest.fixture
def waiter(run, witness):
    """waiter(server): a lockctl that waits for "k", which is held, and its command. `place`: where it connects."""

    def start(server, *options, place=None):
        server.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", 3_600_000)
        command = witness()
        waits = run(place or server, *options, "k", *command.words)
        wait_waiting(server, "k")
        return waits, command

    return start


def gets_it(server, waits, command):
    assert not command.has_begun()
    server.control.execute_command("LOCK.RELEASE", "k", "o")
    ends_well(server, waits, command)


def ends_well(server, waits, command):
    command.wait_begun()
    [holder] = holders(server, "k")
    assert (holder["owner"], holder["holds"]) == (command.variables["LOCK_OWNER"], 1)
    command.finish(9)
    assert (waits.wait(), waits.stderr) == (9, "")
    assert is_free(server, "k")


# It comes back


@pytest.mark.parametrize("kind", [[], ["--fair"], ["--wait", 600], ["--lease", 60]], ids=words_of)
def test_the_server_starts_again(make_server, waiter, kind):
    server = make_server(appendonly="yes", appendfsync="always")
    waits, command = waiter(server, "--timeout", scaled(20), *kind)
    server.kill()
    server.start()
    wait_waiting(server, "k")
    gets_it(server, waits, command)


def test_the_server_starts_again_and_has_forgotten(server, waiter):
    waits, command = waiter(server, "--timeout", scaled(20))
    server.kill()
    server.start()
    ends_well(server, waits, command)


def test_the_server_hangs_for_a_while(server, waiter):
    waits, command = waiter(server, "--timeout", scaled(20))
    with stopped(server):
        began = time.monotonic()
        wait_for(lambda: time.monotonic() > began + scaled(2.5), what="the server to have hung for that long")
    gets_it(server, waits, command)


def test_the_network_is_gone_for_a_while(server, waiter, wire):
    waits, command = waiter(server, "--timeout", scaled(20), place=wire)
    wire.refuse()
    wait_waiting(server, "k", 0)
    wire.heal()
    wait_waiting(server, "k")
    gets_it(server, waits, command)


def test_the_connections_are_killed(server, waiter):
    waits, command = waiter(server)
    for _ in range(3):
        server.control.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        wait_waiting(server, "k")
    gets_it(server, waits, command)


@pytest.mark.parametrize(
    "error",
    [
        "-LOADING Redis is loading the dataset in memory",
        "-READONLY You can't write against a read only replica.",
        "-MASTERDOWN Link with MASTER is down",
        "-CLUSTERDOWN The cluster is down",
        "-TRYAGAIN the slot of this key is being moved",
        "-BUSY Redis is busy running a script.",
        "-UNBLOCKED force unblock from blocking operation",
    ],
    ids=lambda error: error.split()[0],
)
def test_errors_that_pass(server, run, witness, wire, error):
    wire.answer("LOCK.ACQUIRE", error)
    command = witness()
    waits = run(wire, "k", *command.words)
    wait_for(lambda: wire.commands.count("LOCK.ACQUIRE") > 2, 20, "lockctl to ask again")
    assert not command.has_begun()
    wire.heal()
    ends_well(server, waits, command)


def test_a_server_with_too_many_clients(server, run, witness):
    server.control.config_set("maxclients", 1)
    command = witness()
    waits = run(server, "--timeout", scaled(60), "k", *command.words)
    wait_for(lambda: server.info("stats")["rejected_connections"] > 2, 20, "lockctl to be rejected")
    server.control.config_set("maxclients", 1000)
    ends_well(server, waits, command)


# It changes its role


def test_it_becomes_a_replica_and_a_master_again(make_server, waiter):
    server = make_server()
    other = make_server()
    waits, command = waiter(server)
    server.control.execute_command("REPLICAOF", "127.0.0.1", other.port)
    wait_for_sync(other, server)
    assert not command.has_begun() and not waits.has_ended()
    server.control.execute_command("REPLICAOF", "NO", "ONE")
    # It has the data of the other server now, and no lock.
    ends_well(server, waits, command)


def test_it_becomes_a_replica_while_it_is_held(make_server, run, witness):
    server, other = make_server(), make_server()
    command = witness("beat")
    held = run(server, "--lease", scaled(3), "k", *command.words)
    command.wait_begun()
    server.control.execute_command("REPLICAOF", "127.0.0.1", other.port)
    assert held.wait() == LOST
    assert not lives(command.pid)
    # A replica replies to a watch at once: lockctl must not send requests as fast as it can.
    calls = server.info("commandstats").get("cmdstat_lock.watch", {"calls": 0})["calls"]
    assert calls < scaled(3) * 30


# It does not come back


@pytest.mark.parametrize("wait", [[], ["--wait", 600], ["--fair"]], ids=words_of)
def test_it_hangs_too_long(server, waiter, wait):
    began = time.monotonic()
    waits, command = waiter(server, *wait, "--timeout", scaled(2))
    with stopped(server):
        assert waits.wait() == UNAVAILABLE
    assert time.monotonic() - began >= scaled(2), "it has waited for a reply"
    assert not command.has_begun()
    wait_waiting(server, "k", 0)


def test_it_is_gone_too_long(server, waiter, wire):
    waits, command = waiter(server, "--timeout", scaled(2), place=wire)
    wire.refuse()
    assert waits.wait() == UNAVAILABLE
    assert not command.has_begun()


@pytest.mark.parametrize("options", [[], ["--wait", 0], ["--wait", 600], ["--lease", 600]], ids=words_of)
@pytest.mark.parametrize("login", ["", ":secret@"], ids=["no login", "login"])
def test_it_never_says_a_word(run, tmp_path, options, login):
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"redis://{login}127.0.0.1:{mute.getsockname()[1]}"
        refused = run(url, *options, "--timeout", scaled(1), "k", "touch", tmp_path / "started")
        assert refused.wait() == UNAVAILABLE
    assert "no reply" in refused.stderr
    assert not (tmp_path / "started").exists()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x15\x03\x01\x00\x02\x02\x0a", b"$-5\r\n"])
def test_it_speaks_another_language(run, answer):
    with socket.create_server(("127.0.0.1", 0)) as strange:
        refused = run(f"redis://127.0.0.1:{strange.getsockname()[1]}", "--timeout", scaled(1), "k", "true")
        strange.settimeout(0.05)
        while not refused.has_ended():
            try:
                client, _ = strange.accept()
            except TimeoutError:
                continue
            with client:
                client.settimeout(scaled(5))
                client.recv(1)
                client.sendall(answer)
    assert refused.wait() == UNAVAILABLE


@pytest.mark.parametrize("timeout", [1, 2])
def test_a_short_timeout_is_no_limit_of_the_wait(server, waiter, timeout):
    # The server works, and replies to all requests.
    waits, command = waiter(server, "--timeout", scaled(timeout))
    server.let_pass(scaled_ms(3000))
    gets_it(server, waits, command)


def test_the_wait_is_over_although_the_server_answers_errors(wire, run, tmp_path):
    wire.answer("LOCK.ACQUIRE", "-TRYAGAIN the slot of this key is being moved")
    refused = run(wire, "--wait", scaled(1), "k", "touch", tmp_path / "started")
    assert refused.wait() in (NOT_HAD, UNAVAILABLE)
    assert not (tmp_path / "started").exists()


# Replies that are lost, between the request and the start of the command


@pytest.mark.parametrize(
    "behind, hold",
    [(command, hold) for command in ("LOCK.ACQUIRE", "LOCK.RENEW") for hold in HOLDS] + [("LOCK.INFO", "session")],
)
def test_an_answer_is_lost(server, run, witness, wire, behind, hold):
    wire.cut(behind, reply=0)
    command = witness()
    waits = run(wire, *HOLDS[hold], "k", *command.words)
    ends_well(server, waits, command)
    assert wire.has_cut()


def test_an_answer_is_lost_behind_a_wait(server, waiter, wire):
    wire.cut("LOCK.ACQUIRE", reply=0)
    waits, command = waiter(server, place=wire)
    gets_it(server, waits, command)
    assert wire.has_cut()


@pytest.mark.parametrize("answer, hold", [("LOCK.RENEW", "session"), ("LOCK.RENEW", "lease"), ("LOCK.INFO", "session")])
def test_an_answer_never_comes(server, run, tmp_path, wire, answer, hold):
    wire.hold(answer)
    refused = run(wire, *HOLDS[hold], "--timeout", scaled(2), "k", "touch", tmp_path / "started")
    assert refused.wait() == UNAVAILABLE
    assert not (tmp_path / "started").exists()
    # Other clients need not wait until a lease expires.
    wait_free(server, "k", 10)


def test_a_second_hold_is_confirmed_before_the_command_starts(server, run, witness, wire):
    renewal = wire.hold("LOCK.RENEW")
    command = witness()
    waits = run(wire, "--lease", scaled(60), "k", *command.words)
    renewal.wait_arrived()
    assert not command.has_begun()
    renewal.release()
    ends_well(server, waits, command)


def test_taken_away_before_the_command_starts(server, run, witness, wire):
    # It requests the lock again, and starts the command only then.
    renewal = wire.hold("LOCK.ACQUIRE")
    command = witness()
    waits = run(wire, "--lease", scaled(60), "k", *command.words)
    renewal.wait_arrived()
    server.control.execute_command("LOCK.FORCE", "k")
    server.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", 3_600_000)
    renewal.release()
    wait_waiting(server, "k")
    gets_it(server, waits, command)
