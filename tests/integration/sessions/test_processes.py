"""Holders that are processes, which die, sleep and come back too late."""

import os
import signal
import subprocess
import sys

import pytest

from harness import code_of, scaled, scaled_ms, wait_for
from harness.yardstick import Yardstick
from model.session_scene import GRACE, LEASE, LONG, begin_to_wait, holders, leases_pass, session, wait_free

# Says what it reads, line by line, each on the connection that the line names, and prints the replies.
CLIENT = r"""
import socket, sys
port, connections = int(sys.argv[1]), {}
def connect():
    sock = socket.create_connection(("127.0.0.1", port))
    return sock, sock.makefile("rb")
def say(number, line):
    if number not in connections:
        connections[number] = connect()
    sock, replies = connections[number]
    sock.sendall(line.encode() + b"\r\n")
    return replies.readline().decode().strip()
for line in sys.stdin:
    first, count, words = line.rstrip("\n").split(" ", 2)
    numbers = range(int(first), int(first) + int(count))
    print("|".join(sorted({say(n, words.replace("#", str(n))) for n in numbers})), flush=True)
"""


class Client:
    """A process with as many connections as it is told to have."""

    def __init__(self, server):
        command = [sys.executable, "-c", CLIENT, str(server.port)]
        self._popen = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def send(self, words, number=0, count=1):
        self._popen.stdin.write(f"{number} {count} {words}\n")
        self._popen.stdin.flush()

    def reply(self):
        return self._popen.stdout.readline().strip()

    def say(self, words, number=0, count=1):
        """The answers, of so many connections; # in the words is the connection's number."""
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
    """process(): a client that is a process of its own."""
    made = []

    def make():
        made.append(Client(server))
        return made[-1]

    yield make
    for client in made:
        client.end()


def test_killed_process_loses_its_session_hold(server, actor, process):
    client = process()
    assert client.say("LOCK.ACQUIRE k o SESSION") == ":1"
    waiter = begin_to_wait(actor, "w")
    before = server.now_ms()
    client.signal(signal.SIGKILL)
    assert waiter.reply() == 1
    assert server.now_ms() - before >= GRACE


@pytest.mark.timing
def test_killed_process_is_followed_within_milliseconds_of_the_grace(server, actor, process):
    taken, machine = [], Yardstick(server)
    for n in range(9):
        client = process()
        assert client.say(f"LOCK.ACQUIRE k{n} o SESSION") == ":1"
        waiter = begin_to_wait(actor, f"w{n}", key=f"k{n}")
        before = server.now_ms()
        client.signal(signal.SIGKILL)
        assert waiter.reply() == 1
        taken.append(server.now_ms() - before - GRACE)
        machine.measure()
    # Its death is the kernel's: 5 ms are the module's, the rest is what a busy machine adds.
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


def test_process_that_comes_back_keeps_its_hold(server, process):
    server.control.config_set("lock.session-grace", 20 * GRACE)
    client, again = process(), process()
    assert client.say("LOCK.ACQUIRE k o SESSION") == ":1"
    again.say("PING")
    client.signal(signal.SIGKILL)
    wait_for(lambda: session(server) is None, what="its end to be noticed")
    assert again.say("LOCK.RENEW k o SESSION") == ":1"
    server.let_pass(25 * GRACE)
    assert holders(server)
    again.signal(signal.SIGKILL)
    wait_free(server)


def test_sleeping_process_keeps_a_session_hold_and_loses_a_leased_one(server, actor, process):
    """What it then writes under the guard is refused, and its token is stale."""
    server.control.config_set("lock.default-lease", LEASE)
    client, other = process(), actor()
    assert client.say("LOCK.ACQUIRE bound o SESSION") == ":1"
    token = int(client.say(f"LOCK.ACQUIRE leased o PX {3 * LEASE} FENCED")[1:])
    assert client.say("LOCK.GUARD leased o SET x before") == "+OK"
    client.signal(signal.SIGSTOP)
    other.send("LOCK.ACQUIRE", "leased", "p", "PX", LONG, "FENCED", "BLOCK", 0)
    theirs = other.reply()
    assert theirs > token
    assert other.call("LOCK.GUARD", "leased", "p", "SET", "x", "theirs") == "OK"
    # It has said it, before it knows: as a process that was on its way to the server.
    client.send("LOCK.GUARD leased o SET x late")
    leases_pass(server)
    assert session(server, "bound") is not None
    client.signal(signal.SIGCONT)
    assert client.reply().startswith("-NOTHELD ")
    assert client.say("LOCK.RELEASE leased o").startswith("-NOTHELD ")
    assert client.say("LOCK.RENEW leased o SESSION").startswith("-NOTHELD ")
    assert server.control.get("x") == "theirs"
    assert server.control.hget("lock:token:{leased}", "token") == str(theirs)
    assert client.say("LOCK.GUARD bound o SET x mine") == "+OK"
    assert client.say("LOCK.RELEASE bound o") == ":0"


def test_sleeping_process_that_the_server_cuts_off_comes_back_too_late(server, actor, process):
    client = process()
    assert client.say("LOCK.ACQUIRE k o SESSION") == ":1"
    client.signal(signal.SIGSTOP)
    waiter = begin_to_wait(actor, "w")
    server.control.client_kill_filter(_id=session(server))
    assert waiter.reply() == 1
    client.signal(signal.SIGCONT)
    assert client.say("LOCK.GUARD k o SET x late", number=1).startswith("-NOTHELD ")
    assert client.say("LOCK.RENEW k o SESSION", number=1).startswith("-NOTHELD ")
    assert code_of(waiter.attempt("LOCK.RELEASE", "k", "o")) == "NOTHELD"
    assert holders(server) == {("w", "exclusive"): (1, None)}


MANY = 2000


def test_thousands_die_at_once(make_server, process):
    server = make_server(appendonly="yes", maxclients=10_000, lock_session_grace=GRACE)
    client, waiting = Client(server), Client(server)
    try:
        assert client.say("LOCK.ACQUIRE k# o# SESSION", count=MANY) == ":1"
        assert client.say("LOCK.ACQUIRE l o SESSION BLOCK 0") == ":1"
        waiter = begin_to_wait(server.actor, "w", key="l")
        assert server.control.dbsize() == MANY + 1
        client.signal(signal.SIGKILL)
        assert waiter.reply() == 1
        wait_for(lambda: server.control.dbsize() == 1, 20, "all to be released")
        assert waiting.say("LOCK.ACQUIRE k# p SESSION", count=20) == ":1"
    finally:
        client.end()
        waiting.end()
    wait_for(lambda: server.control.dbsize() == 1, 20, "all to be released")
    assert holders(server, "l") == {("w", "exclusive"): (1, None)}


def test_thousands_die_at_once_that_hold_and_wait_for_one_lock(make_server):
    """Each is granted only to be found dead; the one that lives gets it."""
    server = make_server(maxclients=10_000, lock_session_grace=GRACE)
    holder, crowd = Client(server), Client(server)
    try:
        assert holder.say("LOCK.ACQUIRE k o SESSION") == ":1"
        assert crowd.say("LOCK.RWREAD r reader# SESSION", count=500) == ":1"
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
        client.say("LOCK.ACQUIRE k# o SESSION", count=1000)
        for n in range(20):
            client.say(f"LOCK.ACQUIRE {n}:# o SESSION", count=100)
        server.let_pass(2 * lease)
        assert server.control.dbsize() == 3000
        pipe = server.client().pipeline(transaction=False)
        for n in range(1000):
            pipe.pttl(f"k{n}")
        assert min(pipe.execute()) > 0
        assert client.say("LOCK.RELEASE k# o", count=1000) == ":0"
    finally:
        client.end()
    wait_for(lambda: server.control.dbsize() == 0, scaled(20), "all to be released")
