"""Holders that are processes, which die, are stopped, and continue too late."""

import os
import signal
import subprocess
import sys

import pytest

from harness import code_of, scaled, scaled_ms, wait_for
from harness.yardstick import Yardstick
from model.session_scene import GRACE, LEASE, LONG, begin_to_wait, holders, leases_pass, session, wait_free

# Sends each line that it reads on the connection that the line names, and prints the replies.
CLIENT = r"""
import socket, sys
port, connections = int(sys.argv[1]), {}
def connect():
    sock = socket.create_connection(("127.0.0.1", port))
    return sock, sock.makefile("rb")
def call(number, line):
    if number not in connections:
        connections[number] = connect()
    sock, replies = connections[number]
    sock.sendall(line.encode() + b"\r\n")
    return replies.readline().decode().strip()
for line in sys.stdin:
    first, count, words = line.rstrip("\n").split(" ", 2)
    numbers = range(int(first), int(first) + int(count))
    print("|".join(sorted({call(n, words.replace("#", str(n))) for n in numbers})), flush=True)
"""


class Client:
    """A process with any number of connections."""

    def __init__(self, server):
        command = [sys.executable, "-c", CLIENT, str(server.port)]
        self._popen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def send(self, words, number=0, count=1):
        self._popen.stdin.write(f"{number} {count} {words}\n")
        self._popen.stdin.flush()

    def reply(self):
        return self._popen.stdout.readline().strip()

    def call(self, words, number=0, count=1):
        """The replies of `count` connections; # in the words is the number of the connection."""
        self.send(words, number, count)
        return self.reply()

    def signal(self, number):
        os.kill(self._popen.pid, number)

    def end(self):
        self._popen.kill()
        self._popen.wait()
        self._popen.stdin.close()
        self._popen.stdout.close()


@pytest.fixture
def server(server):
    server.control.config_set("lock.session-grace", GRACE)
    return server


@pytest.fixture
def process(server):
    """process(): a client that is a separate process."""
    made = []

    def make():
        made.append(Client(server))
        return made[-1]

    yield make
    for client in made:
        client.end()


def test_killed_process_loses_its_session_hold(server, actor, process):
    client = process()
    assert client.call("LOCK.ACQUIRE k o SESSION") == ":1"
    waiter = begin_to_wait(actor, "w")
    before = server.now_ms()
    client.signal(signal.SIGKILL)
    assert waiter.reply() == 1
    assert server.now_ms() - before >= GRACE


@pytest.mark.timing
def test_hold_of_a_killed_process_is_handed_off_right_after_the_grace(server, actor, process):
    taken, machine = [], Yardstick(server)
    for n in range(9):
        client = process()
        assert client.call(f"LOCK.ACQUIRE k{n} o SESSION") == ":1"
        waiter = begin_to_wait(actor, f"w{n}", key=f"k{n}")
        before = server.now_ms()
        client.signal(signal.SIGKILL)
        assert waiter.reply() == 1
        taken.append(server.now_ms() - before - GRACE)
        machine.measure()
    # The kernel ends the process; 5 ms are for the module, the rest is what a busy machine adds.
    assert machine.allows(taken, 15), taken


def test_killed_waiter_gets_nothing(server, actor, process):
    holder, client = actor(), process()
    holder.call("LOCK.ACQUIRE", "k", "o")
    client.send("LOCK.ACQUIRE k p SESSION BLOCK 0")
    wait_for(lambda: server.info("lock")["lock_waiters"] == 1, what="the process to wait")
    client.signal(signal.SIGKILL)
    wait_for(lambda: server.info("lock")["lock_waiters"] == 0, what="the waiter to leave")
    holder.call("LOCK.RELEASE", "k", "o")
    assert server.control.exists("k") == 0


def test_process_that_reconnects_within_the_grace_keeps_its_hold(server, process):
    server.control.config_set("lock.session-grace", 20 * GRACE)
    client, again = process(), process()
    assert client.call("LOCK.ACQUIRE k o SESSION") == ":1"
    again.call("PING")
    client.signal(signal.SIGKILL)
    wait_for(lambda: session(server) is None, what="the end of the process to be noticed")
    assert again.call("LOCK.RENEW k o SESSION") == ":1"
    server.let_pass(25 * GRACE)
    assert holders(server)
    again.signal(signal.SIGKILL)
    wait_free(server)


def test_stopped_process_keeps_a_session_hold_and_loses_a_leased_one(server, actor, process):
    """A write under LOCK.GUARD is refused then, and its token is stale."""
    server.control.config_set("lock.default-lease", LEASE)
    client, other = process(), actor()
    assert client.call("LOCK.ACQUIRE bound o SESSION") == ":1"
    token = int(client.call(f"LOCK.ACQUIRE leased o PX {3 * LEASE} FENCED")[1:])
    assert client.call("LOCK.GUARD leased o SET x before") == "+OK"
    client.signal(signal.SIGSTOP)
    other.send("LOCK.ACQUIRE", "leased", "p", "PX", LONG, "FENCED", "BLOCK", 0)
    theirs = other.reply()
    assert theirs > token
    assert other.call("LOCK.GUARD", "leased", "p", "SET", "x", "theirs") == "OK"
    # It sends the command before it knows of the loss, like a process that was stopped just before it sent it.
    client.send("LOCK.GUARD leased o SET x late")
    leases_pass(server)
    assert session(server, "bound") is not None
    client.signal(signal.SIGCONT)
    assert client.reply().startswith("-NOTHELD ")
    assert client.call("LOCK.RELEASE leased o").startswith("-NOTHELD ")
    assert client.call("LOCK.RENEW leased o SESSION").startswith("-NOTHELD ")
    assert server.control.get("x") == "theirs"
    assert server.control.hget("lock:token:{leased}", "token") == str(theirs)
    assert client.call("LOCK.GUARD bound o SET x mine") == "+OK"
    assert client.call("LOCK.RELEASE bound o") == ":0"


def test_stopped_process_that_the_server_disconnects_loses_its_hold(server, actor, process):
    client = process()
    assert client.call("LOCK.ACQUIRE k o SESSION") == ":1"
    client.signal(signal.SIGSTOP)
    waiter = begin_to_wait(actor, "w")
    server.control.client_kill_filter(_id=session(server))
    assert waiter.reply() == 1
    client.signal(signal.SIGCONT)
    assert client.call("LOCK.GUARD k o SET x late", number=1).startswith("-NOTHELD ")
    assert client.call("LOCK.RENEW k o SESSION", number=1).startswith("-NOTHELD ")
    assert code_of(waiter.attempt("LOCK.RELEASE", "k", "o")) == "NOTHELD"
    assert holders(server) == {("w", "exclusive"): (1, None)}


MANY = 2000


def test_sessions_of_thousands_that_die_at_once_are_released(make_server, process):
    server = make_server(appendonly="yes", maxclients=10_000, lock_session_grace=GRACE)
    client, waiting = Client(server), Client(server)
    try:
        assert client.call("LOCK.ACQUIRE k# o# SESSION", count=MANY) == ":1"
        assert client.call("LOCK.ACQUIRE l o SESSION BLOCK 0") == ":1"
        waiter = begin_to_wait(server.actor, "w", key="l")
        assert server.control.dbsize() == MANY + 1
        client.signal(signal.SIGKILL)
        assert waiter.reply() == 1
        wait_for(lambda: server.control.dbsize() == 1, 20, "all to be released")
        assert waiting.call("LOCK.ACQUIRE k# p SESSION", count=20) == ":1"
    finally:
        client.end()
        waiting.end()
    wait_for(lambda: server.control.dbsize() == 1, 20, "all to be released")
    assert holders(server, "l") == {("w", "exclusive"): (1, None)}


def test_waiter_is_granted_when_thousands_of_holders_die_at_once(make_server):
    """The holders of one lock and the readers of another die; the waiters, which are alive, are granted."""
    server = make_server(maxclients=10_000, lock_session_grace=GRACE)
    holder, crowd = Client(server), Client(server)
    try:
        assert holder.call("LOCK.ACQUIRE k o SESSION") == ":1"
        assert crowd.call("LOCK.RWREAD r reader# SESSION", count=500) == ":1"
        waiter = begin_to_wait(server.actor, "w")
        writer = begin_to_wait(server.actor, "v", command="LOCK.RWWRITE", key="r")
        crowd.signal(signal.SIGKILL)
        holder.signal(signal.SIGKILL)
        assert waiter.reply(timeout=20) == 1
        assert writer.reply(timeout=20) == 1
    finally:
        holder.end()
        crowd.end()
    assert holders(server, "r") == {("v", "write"): (1, None)}


def test_many_sessions_are_renewed_in_time(make_server):
    lease = scaled_ms(1500)
    server = make_server(maxclients=10_000, lock_default_lease=lease, lock_session_grace=GRACE)
    client = Client(server)
    try:
        client.call("LOCK.ACQUIRE k# o SESSION", count=1000)
        for n in range(20):
            client.call(f"LOCK.ACQUIRE {n}:# o SESSION", count=100)
        server.let_pass(2 * lease)
        assert server.control.dbsize() == 3000
        pipe = server.client().pipeline(transaction=False)
        for n in range(1000):
            pipe.pttl(f"k{n}")
        assert min(pipe.execute()) > 0
        assert client.call("LOCK.RELEASE k# o", count=1000) == ":0"
    finally:
        client.end()
    wait_for(lambda: server.control.dbsize() == 0, scaled(20), "all to be released")
