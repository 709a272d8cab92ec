"""SESSION: a hold lives as long as the connection that it is bound to, and a grace."""

import socket
import struct
import time

import pytest
from redis.exceptions import ResponseError

from harness import code_of, scaled_ms, wait_for, wait_for_sync
from harness.schedule import as_map
from test_acquire import HOUR
from test_multi_lua import in_multi

LEASE = scaled_ms(300)
GRACE = scaled_ms(60)
LONG = 600_000

COMMANDS = ("LOCK.ACQUIRE", "LOCK.FAIR", "LOCK.RWREAD", "LOCK.RWWRITE")
each_command = pytest.mark.parametrize("command", COMMANDS)


@pytest.fixture
def server(server):
    """With the usual lease of 30 s: what becomes free sooner has been released."""
    server.control.config_set("lock.session-grace", GRACE)
    return server


@pytest.fixture
def short_leases(server):
    server.control.config_set("lock.default-lease", LEASE)


@pytest.fixture
def long_grace(server):
    """A grace that no test waits for."""
    server.control.config_set("lock.session-grace", LONG)


def holders(server, key="k", db=0):
    """{(owner, mode): (holds, session)}"""
    with server.client(db=db) as client:
        found = as_map(client.execute_command("LOCK.INFO", key)).get("holders", [])
    holds = map(as_map, found)
    return {(hold["owner"], hold["mode"]): (hold["holds"], hold["session"]) for hold in holds}


def session(server, key="k", db=0):
    """Whom the only holder's hold is bound to."""
    [(_, bound)] = holders(server, key, db).values()
    return bound


def wait_free(server, *keys, db=0):
    client = server.client(db=db)
    wait_for(lambda: not client.exists(*(keys or ("k",))), 10, "the session's holds to be released")


def wait_noticed(server, key="k", db=0):
    """Until the server knows that the connection has closed."""
    wait_for(lambda: session(server, key, db) is None, what="the connection's end to be noticed")


def leases_pass(server, number=3):
    end = server.now_ms() + number * LEASE
    wait_for(lambda: server.now_ms() > end, 30, "some leases to pass")


def grace_passes(server):
    server.let_pass(2 * GRACE)


def begin_to_wait(actor, owner, *options, command="LOCK.ACQUIRE", key="k"):
    client = actor(owner)
    client.send(command, key, owner, "BLOCK", 0, *options)
    return client.wait_blocked()


def dies_by_reset(client):
    client.kill_socket()


def dies_by_close(client):
    client.close()


def dies_by_client_kill(client):
    assert client.server.control.client_kill_filter(_id=client.client_id) == 1


def dies_by_quit(client):
    assert client.call("QUIT") == "OK"


def dies_by_protocol_error(client):
    client._connection._sock.sendall(b"*1\r\n!\r\n")


WAYS = (dies_by_reset, dies_by_close, dies_by_client_kill, dies_by_quit, dies_by_protocol_error)
each_way_to_die = pytest.mark.parametrize("dies", WAYS)


# Binding


@each_command
def test_binds_to_its_connection(server, actor, resp, command):
    a = actor()
    assert a.call(command, "k", "o", "SESSION") == 1
    assert session(server) == a.client_id
    assert 25_000 < a.call("PTTL", "k") <= 30_000
    assert a.call("DBSIZE") == (2 if "RW" in command else 1)


@each_command
def test_option_stands_anywhere_in_any_case(server, actor, command):
    a = actor()
    assert a.call(command, "k1", "o", "session", "BLOCK", 0) == 1
    assert a.call(command, "k2", "o", "BLOCK", 0, "SeSSion") == 1
    assert session(server, "k1") == session(server, "k2") == a.client_id


@pytest.mark.parametrize("command", ["LOCK.ACQUIRE", "LOCK.FAIR", "LOCK.RWWRITE"])
def test_together_with_fenced(server, actor, command):
    a = actor()
    token = a.call(command, "k", "o", "FENCED", "SESSION")
    assert token > 10**15
    assert a.call(command, "k", "o", "SESSION", "FENCED") == token
    a.kill_socket()
    wait_free(server)
    assert actor().call(command, "k", "p", "FENCED") > token


def test_hold_without_it_is_bound_to_nothing(server, actor):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "PX", HOUR)
    assert session(server) is None
    a.kill_socket()
    wait_for(lambda: not a.is_connected(), what="the connection to end")
    grace_passes(server)
    assert holders(server) == {("o", "exclusive"): (1, None)}


SYNTAX = (
    "LOCK.ACQUIRE k o SESSION PX 1000", "LOCK.ACQUIRE k o PX 1000 SESSION", "LOCK.FAIR k o EX 10 BLOCK 0 SESSION",
    "LOCK.FAIR k o SESSION BLOCK 0 EX 10", "LOCK.RWREAD k o SESSION PX 1", "LOCK.RWWRITE k o EX 1 SESSION",
    "LOCK.ACQUIRE k o SESSION SESSION", "LOCK.RWREAD k o session BLOCK 0 SESSION", "LOCK.RENEW h o SESSION PX 1000",
    "LOCK.RENEW h o EX 10 SESSION", "LOCK.RENEW h o SESSION SESSION", "LOCK.RELEASE h o SESSION",
    "LOCK.ACQUIRE k o SESSION 1", "LOCK.CANCEL h o SESSION", "LOCK.RENEW h o SESSION BLOCK 0",
)  # fmt: skip


@pytest.mark.parametrize("command", SYNTAX)
def test_syntax(client, server, command):
    client.execute_command("LOCK.ACQUIRE", "h", "o", "PX", LONG)
    before = server.dump()
    with pytest.raises(ResponseError, match="^ERR "):
        client.execute_command(*command.split())
    assert server.dump() == before
    assert session(server, "h") is None


@each_command
def test_re_entry_without_it_stays_bound(server, actor, command):
    """Also on another connection, and with a lease of its own."""
    a, b = actor(), actor()
    a.call(command, "k", "o", "SESSION")
    assert a.call(command, "k", "o") == 2
    assert b.call(command, "k", "o", "PX", LONG) == 3
    assert session(server) == a.client_id
    a.kill_socket()
    wait_free(server)


@each_command
def test_re_entry_with_it_binds_all(server, actor, command):
    a, b = actor(), actor()
    a.call(command, "k", "o", "PX", LONG)
    assert b.call(command, "k", "o", "SESSION") == 2
    assert session(server) == b.client_id
    b.kill_socket()
    wait_free(server)


def test_acquisition_that_fails_binds_nothing(server, actor):
    a, b = actor(), actor()
    a.call("LOCK.ACQUIRE", "k", "o", "PX", LONG)
    assert b.call("LOCK.ACQUIRE", "k", "p", "SESSION") is None
    assert b.call("LOCK.ACQUIRE", "k", "p", "SESSION", "BLOCK", 1) is None
    for owner in ("p", "nobody"):
        assert code_of(b.attempt("LOCK.RENEW", "k", owner, "SESSION")) == "NOTHELD"
    assert session(server) is None
    assert a.call("LOCK.RELEASE", "k", "o") == 0
    a.call("LOCK.ACQUIRE", "k", "p", "PX", LONG)
    b.kill_socket()
    grace_passes(server)
    assert holders(server) == {("p", "exclusive"): (1, None)}


# The server renews


@each_command
def test_renewed_while_the_connection_lives(server, actor, short_leases, command):
    a = actor()
    a.call(command, "k", "o", "SESSION")
    end, least = server.now_ms() + 4 * LEASE, LEASE
    while server.now_ms() < end:
        # By another connection: the holder's own says nothing.
        least = min(least, server.control.pttl("k"))
        time.sleep(0.005)
    assert least > LEASE / 3, "renewed too late"
    [(holds, bound)] = holders(server).values()
    assert (holds, bound) == (1, a.client_id)


def test_renewed_when_a_third_of_the_lease_is_over(server, actor):
    lease = scaled_ms(1500)
    server.control.config_set("lock.default-lease", lease)
    actor().call("LOCK.ACQUIRE", "k", "o", "SESSION")
    left = [server.control.pttl("k")]

    def is_renewed():
        left.append(server.control.pttl("k"))
        return left[-1] > left[-2]

    wait_for(is_renewed, what="the renewal")
    assert lease / 2 < left[-2] < lease * 3 / 4


def test_renewed_though_nobody_looks(server, actor, short_leases):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    time.sleep(3 * LEASE / 1000)
    assert a.call("LOCK.RELEASE", "k", "o") == 0


def test_renewed_while_somebody_waits_and_while_the_holder_blocks(server, actor, short_leases):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    b = begin_to_wait(actor, "w")
    a.send("BLPOP", "none", 0)
    a.wait_blocked()
    leases_pass(server)
    assert b.is_blocked() and not b.has_reply()
    assert session(server) == a.client_id
    a.kill_socket()
    assert b.reply() == 1


@pytest.mark.parametrize("db", [0, 9])
def test_many_are_renewed(server, actor, short_leases, db):
    a, b = actor(db=db), actor(db=db)
    for n in range(300):
        (a if n % 2 else b).call("LOCK.ACQUIRE", f"k{n}", "o", "SESSION")
    leases_pass(server)
    assert a.call("DBSIZE") == 300
    b.kill_socket()
    client = server.client(db=db)
    wait_for(lambda: client.dbsize() == 150, 10, "half of them to be released")
    leases_pass(server, 2)
    assert client.dbsize() == 150
    assert session(server, "k1", db) == a.client_id


def test_lower_lease_is_in_force_at_once_though_others_have_a_longer_one(server, actor):
    """Who is bound last is due first."""
    a, b = actor(), actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    server.control.config_set("lock.default-lease", LEASE)
    b.call("LOCK.ACQUIRE", "l", "o", "SESSION")
    leases_pass(server)
    assert session(server) == a.client_id
    assert session(server, "l") == b.client_id
    server.control.config_set("lock.default-lease", 30_000)
    wait_for(lambda: min(map(server.control.pttl, ("k", "l"))) > 10_000, what="both to be renewed for longer")


def test_renewal_does_not_shorten_another_readers_lease(server, actor, short_leases):
    a, b = actor(), actor()
    b.call("LOCK.RWREAD", "k", "p", "PX", HOUR)
    a.call("LOCK.RWREAD", "k", "o", "SESSION")
    leases_pass(server, 2)
    assert a.call("PTTL", "k") > HOUR - 60_000
    assert holders(server) == {("o", "read"): (1, a.client_id), ("p", "read"): (1, None)}
    a.kill_socket()
    wait_for(lambda: ("o", "read") not in holders(server), 10, "the reader to be released")
    assert a.server.control.pttl("k") > HOUR - 60_000


def test_a_readers_session_keeps_only_itself(server, actor, short_leases):
    """The other reader's lease ends though the key is renewed."""
    a, b = actor(), actor()
    a.call("LOCK.RWREAD", "k", "o", "SESSION")
    b.call("LOCK.RWREAD", "k", "p", "PX", LEASE)
    leases_pass(server, 2)
    assert holders(server) == {("o", "read"): (1, a.client_id)}


def test_renewed_while_others_are_in_their_grace(server, actor, short_leases, long_grace):
    a, b = actor(), actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    a.kill_socket()
    wait_noticed(server)
    b.call("LOCK.ACQUIRE", "l", "o", "SESSION")
    leases_pass(server, 2)
    assert session(server, "l") == b.client_id


def test_released_ones_are_renewed_no_more(server, actor, short_leases):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    assert a.call("LOCK.RELEASE", "k", "o") == 1
    leases_pass(server, 2)
    assert session(server) == a.client_id
    assert a.call("LOCK.RELEASE", "k", "o") == 0
    leases_pass(server, 1)
    assert server.dump() == {}


def sessions(server):
    """On a server of the test's own: others leave some in their grace."""
    return server.info("lock")["lock_sessions"]


def test_last_release_ends_the_binding(make_server):
    server = make_server()
    a = server.actor()
    for command in COMMANDS:
        a.call(command, "k", "o", "SESSION")
        a.call(command, "k", "o", "SESSION")
        for left in (1, 0):
            assert sessions(server) == 1
            assert a.call("LOCK.RELEASE", "k", "o") == left
        assert sessions(server) == 0


def test_nothing_held_nothing_bound(make_server):
    server = make_server()
    a, b = server.actor(), server.actor()
    b.call("LOCK.ACQUIRE", "k", "p", "PX", LONG)
    for words in ("LOCK.RENEW k o SESSION", "LOCK.RENEW free o SESSION", "LOCK.ACQUIRE k o SESSION"):
        a.attempt(*words.split())
    assert sessions(server) == 0


def test_binding_without_a_hold_is_forgotten(make_server):
    server = make_server(lock_default_lease=LEASE)
    a = server.actor()
    for loss in LOSSES.values():
        a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
        server.control.execute_command(*loss.split())
        wait_for(lambda: sessions(server) == 0, what=f"the binding to be forgotten after {loss}")
        server.control.flushall()


def test_release_in_one_mode_leaves_the_other_bound(server, actor):
    a = actor()
    a.call("LOCK.RWWRITE", "k", "o", "SESSION")
    a.call("LOCK.RWREAD", "k", "o", "SESSION")
    assert a.call("LOCK.RELEASE", "k", "o", "WRITE") == 0
    assert session(server) == a.client_id
    a.kill_socket()
    wait_free(server)


# The connection ends


@each_way_to_die
@each_command
def test_released_and_handed_on_after_the_grace(server, actor, dies, command):
    a = actor()
    a.call(command, "k", "o", "SESSION")
    b = begin_to_wait(actor, "w", command="LOCK.RWWRITE" if "RW" in command else command)
    before = server.now_ms()
    dies(a)
    assert b.reply() == 1
    assert server.now_ms() - before >= GRACE
    [(owner, _)] = holders(server)
    assert owner == "w"


def test_free_after_the_grace_when_nobody_waits(server, actor):
    for command in COMMANDS:
        actor().call(command, command, "o", "SESSION")
    server.disconnect_clients()
    wait_for(lambda: server.control.dbsize() == 0, 10, "all to be released")
    assert server.dump() == {}


def test_not_before_the_grace(server, actor, long_grace):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    b = begin_to_wait(actor, "w")
    a.kill_socket()
    wait_noticed(server)
    server.let_pass(3 * GRACE)
    assert b.is_blocked() and not b.has_reply()
    assert holders(server) == {("o", "exclusive"): (1, None)}


def test_grace_of_zero_or_refused(server, actor):
    try:
        server.control.config_set("lock.session-grace", 0)
    except ResponseError:
        pytest.skip("a grace of 0 is out of range")
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    b = begin_to_wait(actor, "w")
    a.kill_socket()
    assert b.reply() == 1


def test_lower_grace_is_for_those_that_close_after_it(server, actor, long_grace):
    first, second = actor(), actor()
    first.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    for n in range(3):
        second.call("LOCK.ACQUIRE", f"l{n}", "o", "SESSION")
    first.kill_socket()
    wait_noticed(server)
    server.control.config_set("lock.session-grace", GRACE)
    b = begin_to_wait(actor, "w", key="l1")
    second.kill_socket()
    assert b.reply() == 1
    wait_free(server, "l0", "l2")
    grace_passes(server)
    assert holders(server) == {("o", "exclusive"): (1, None)}


def test_longer_grace_is_for_those_that_close_after_it(server, actor):
    server.control.config_set("lock.session-grace", 10 * GRACE)
    first, second = actor(), actor()
    first.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    second.call("LOCK.ACQUIRE", "l", "o", "SESSION")
    b = begin_to_wait(actor, "w")
    first.kill_socket()
    wait_noticed(server)
    server.control.config_set("lock.session-grace", LONG)
    second.kill_socket()
    wait_noticed(server, "l")
    assert b.reply() == 1
    assert holders(server, "l") == {("o", "exclusive"): (1, None)}


def test_all_holds_of_a_connection_are_released(server, actor):
    a, others = actor(), actor()
    for n in range(100):
        for _ in range(n % 3 + 1):
            a.call(COMMANDS[n % 4], f"k{n}", f"o{n}", "SESSION")
    others.call("LOCK.ACQUIRE", "mine", "o", "SESSION")
    others.call("LOCK.ACQUIRE", "leased", "o", "PX", LONG)
    a.call("LOCK.ACQUIRE", "leased too", "o", "PX", LONG)
    a.kill_socket()
    wait_for(lambda: server.control.dbsize() == 3, 10, "all to be released")
    grace_passes(server)
    assert set(server.control.keys("*")) == {"mine", "leased", "leased too"}


def test_reads_and_writes_of_an_owner_are_all_released(server, actor):
    a = actor()
    a.call("LOCK.RWWRITE", "k", "o", "SESSION")
    a.call("LOCK.RWWRITE", "k", "o", "SESSION")
    a.call("LOCK.RWREAD", "k", "o", "SESSION")
    b = begin_to_wait(actor, "w", command="LOCK.RWWRITE")
    a.kill_socket()
    assert b.reply() == 1
    assert holders(server) == {("w", "write"): (1, None)}


def test_only_the_dead_readers_hold_is_released(server, actor):
    a, b = actor(), actor()
    a.call("LOCK.RWREAD", "k", "a", "SESSION")
    b.call("LOCK.RWREAD", "k", "b", "SESSION")
    writer = begin_to_wait(actor, "w", command="LOCK.RWWRITE")
    a.kill_socket()
    wait_for(lambda: ("a", "read") not in holders(server), 10, "the dead reader to be released")
    assert writer.is_blocked()
    assert holders(server) == {("b", "read"): (1, b.client_id)}
    b.kill_socket()
    assert writer.reply() == 1


def test_chain_of_waiters_that_all_die(server, actor):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    waiters = [begin_to_wait(actor, f"w{n}", "SESSION") for n in range(4)]
    a.kill_socket()
    for waiter in waiters:
        assert waiter.reply() == 1
        assert session(server) == waiter.client_id
        waiter.kill_socket()
    wait_free(server)


@each_command
def test_waiter_is_bound_to_its_own_connection(server, actor, short_leases, command):
    a = actor()
    a.call("LOCK.RWWRITE" if "RW" in command else command, "k", "o", "PX", LONG)
    b = begin_to_wait(actor, "w", "SESSION", command=command)
    assert a.call("LOCK.RELEASE", "k", "o") == 0
    assert b.reply() == 1
    assert session(server) == b.client_id
    leases_pass(server, 2)
    a.kill_socket()
    grace_passes(server)
    assert session(server) == b.client_id
    b.kill_socket()
    wait_free(server)


def test_waiter_granted_by_the_lease_timer_is_bound(server, actor, short_leases):
    actor().call("LOCK.ACQUIRE", "k", "o", "PX", LEASE // 3)
    b = begin_to_wait(actor, "w", "SESSION")
    assert b.reply() == 1
    leases_pass(server, 2)
    assert session(server) == b.client_id


def test_waiter_without_the_option_is_not_bound(server, actor):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    b = begin_to_wait(actor, "w")
    a.call("LOCK.RELEASE", "k", "o")
    assert b.reply() == 1
    assert session(server) is None


def test_holder_that_waits_elsewhere_leaves_both(server, actor):
    a, p = actor(), actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    p.call("LOCK.ACQUIRE", "l", "p", "PX", LONG)
    a.send("LOCK.ACQUIRE", "l", "o", "SESSION", "BLOCK", 0)
    a.wait_blocked()
    b = begin_to_wait(actor, "w")
    a.kill_socket()
    assert b.reply() == 1
    p.call("LOCK.RELEASE", "l", "p")
    assert server.control.exists("l") == 0


@pytest.mark.parametrize("end", ["close", "reset", "QUIT", "CLIENT KILL"])
def test_connection_that_ends_with_its_acquisition(server, end):
    """In one packet, in the same turn of the server's loop."""
    for _ in range(5):
        sock = server.raw_connection()
        sock.sendall(b"CLIENT ID\r\n")
        own_id = sock.recv(100).strip().decode()[1:]
        last = {"QUIT": "QUIT", "CLIENT KILL": f"CLIENT KILL ID {own_id} SKIPME no"}.get(end, "PING")
        sock.sendall(f"LOCK.ACQUIRE k o SESSION\r\nINCR said\r\n{last}\r\n".encode())
        if end == "reset":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        sock.close()
    if end != "reset":  # which may overtake the commands
        wait_for(lambda: server.control.get("said") == "5", what="all to be said")
    wait_free(server)


def test_waiter_that_dies_with_its_grant(server, actor):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "PX", LONG)
    b = begin_to_wait(actor, "w", "SESSION")
    c = begin_to_wait(actor, "x", "SESSION")
    b.kill_socket()
    a.call("LOCK.RELEASE", "k", "o")
    assert c.reply() == 1
    assert session(server) == c.client_id


# Many at once


MANY = 20_000


@pytest.fixture
def many(server):
    """A connection with so many holds that they are not renewed, or given back, in one turn."""
    client = server.client()
    pipe = client.pipeline(transaction=False)
    for n in range(MANY):
        pipe.execute_command("LOCK.ACQUIRE", f"many:{n}", "o", "SESSION")
    assert pipe.execute() == [1] * MANY
    return client


def begin_to_wait_and_ask(actor, key, *question):
    """Its second reply is what it was when the lock was given to it."""
    client = begin_to_wait(actor, f"waits for {key}", key=key)
    client.send(*question)
    return client


def end_pause_when_due(server, key, lease):
    """All that is to be renewed, and all whose connections have closed."""
    wait_for(lambda: server.control.pttl(key) < lease / 2, what="all to be due")
    server.control.execute_command("CLIENT", "UNPAUSE")


def test_others_are_served_while_many_are_given_back(actor, many):
    waiters = [begin_to_wait_and_ask(actor, f"many:{n}", "DBSIZE") for n in (1000, MANY // 2, MANY - 1000)]
    many.connection_pool.disconnect()
    assert [waiter.reply() for waiter in waiters] == [1, 1, 1]
    first, second, third = (waiter.reply() for waiter in waiters)
    assert first > second > third, "they were served only after all were released"


def test_many_to_give_back_delay_no_renewal(server, actor, many):
    lease = scaled_ms(3000)
    server.control.config_set("lock.default-lease", lease)
    actor().call("LOCK.ACQUIRE", "k", "o", "SESSION")
    waiter = begin_to_wait_and_ask(actor, f"many:{MANY // 2}", "PTTL", "k")
    server.control.execute_command("CLIENT", "PAUSE", LONG, "WRITE")
    many.connection_pool.disconnect()
    end_pause_when_due(server, "k", lease)
    assert waiter.reply() == 1
    assert waiter.reply() > lease / 2, "the renewal had to wait for all releases"


def test_many_to_renew_delay_no_release(server, actor, many):
    lease, last = scaled_ms(6000), f"many:{MANY - 1}"
    server.control.config_set("lock.default-lease", lease)
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    many.execute_command("LOCK.RENEW", last, "o", "SESSION")
    waiter = begin_to_wait_and_ask(actor, "k", "PTTL", last)
    server.control.execute_command("CLIENT", "PAUSE", LONG, "WRITE")
    a.kill_socket()
    end_pause_when_due(server, last, lease)
    assert waiter.reply() == 1
    assert waiter.reply() < lease / 2, "the release had to wait for all renewals"


# Bound again


@pytest.mark.parametrize("dies", [dies_by_reset, dies_by_client_kill])
@pytest.mark.parametrize("how", ["LOCK.RENEW k o SESSION", "LOCK.ACQUIRE k o SESSION"])
@each_command
def test_bound_again_within_the_grace(server, actor, long_grace, command, how, dies):
    how = how.replace("LOCK.ACQUIRE", command)
    a, b = actor(), actor()
    a.call(command, "k", "o", "SESSION")
    dies(a)
    wait_noticed(server)
    server.control.config_set("lock.session-grace", GRACE)
    assert b.call(*how.split()) == (1 if "RENEW" in how else 2)
    assert session(server) == b.client_id
    grace_passes(server)
    assert session(server) == b.client_id
    b.kill_socket()
    wait_free(server)


def test_bound_again_in_time_for_a_grace_that_has_begun(server, actor):
    """Its own grace was to end; it is bound, so it does not."""
    server.control.config_set("lock.session-grace", 10 * GRACE)
    a, b = actor(), actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    a.kill_socket()
    wait_noticed(server)
    assert b.call("LOCK.RENEW", "k", "o", "SESSION") == 1
    server.let_pass(15 * GRACE)
    assert session(server) == b.client_id


def test_bound_to_a_new_connection_while_the_old_one_lives(server, actor):
    a, b = actor(), actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    assert b.call("LOCK.RENEW", "k", "o", "SESSION") == 1
    a.kill_socket()
    wait_for(lambda: not a.is_connected(), what="the old one to end")
    grace_passes(server)
    assert session(server) == b.client_id
    b.kill_socket()
    wait_free(server)


def test_renew_binds_a_hold_that_had_a_lease(server, actor, short_leases):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "PX", LONG)
    assert a.call("LOCK.RENEW", "k", "o", "SESSION") == 1
    assert session(server) == a.client_id
    assert a.call("PTTL", "k") <= LEASE
    leases_pass(server, 2)
    assert session(server) == a.client_id
    a.kill_socket()
    wait_free(server)


def test_renew_counts_re_entries_and_adds_none(server, actor):
    a = actor()
    for _ in range(3):
        a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    for _ in range(3):
        assert a.call("LOCK.RENEW", "k", "o", "SESSION") == 3
    a.kill_socket()
    wait_free(server)


@pytest.mark.parametrize("option", [("PX", LEASE), ("EX", 600)])
def test_renew_with_a_lease_unbinds(server, actor, short_leases, option):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    assert a.call("LOCK.RENEW", "k", "o", *option) == 1
    assert session(server) is None
    if option[0] == "EX":
        a.kill_socket()
        leases_pass(server, 2)
        assert holders(server) == {("o", "exclusive"): (1, None)}
        assert server.control.pttl("k") > 500_000
    else:
        wait_free(server)
        assert a.call("PING") == "PONG"


def test_renew_with_a_lease_unbinds_in_the_grace(server, actor, long_grace):
    a, b = actor(), actor()
    server.control.config_set("lock.session-grace", 5 * GRACE)
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    a.kill_socket()
    wait_noticed(server)
    assert b.call("LOCK.RENEW", "k", "o", "PX", LONG) == 1
    server.let_pass(7 * GRACE)
    assert holders(server) == {("o", "exclusive"): (1, None)}


# What has gone otherwise

LOSSES = {
    "release": "LOCK.RELEASE k o",
    "force": "LOCK.FORCE k",
    "DEL": "DEL k",
    "lease end": "PEXPIREAT k 1",
    "RENAME": "RENAME k l",
    "FLUSHALL": "FLUSHALL",
    "FLUSHDB": "FLUSHDB",
    "overwritten": "SET k x",
    "field lost": "HDEL k o",
    "SWAPDB": "SWAPDB 0 7",
}
each_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES)


@each_loss
def test_what_others_made_of_it_is_left_alone(server, actor, short_leases, loss):
    """The connection lives on for a while, and then ends."""
    a, b = actor(), actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    b.call(*loss.split())
    b.call("DEL", "k")
    b.call("LOCK.ACQUIRE", "k", "p", "PX", LONG)
    leases_pass(server, 2)
    a.kill_socket()
    grace_passes(server)
    assert holders(server) == {("p", "exclusive"): (1, None)}
    assert b.call("PTTL", "k") > LONG - 60_000


@each_loss
def test_what_others_made_of_it_in_the_grace_is_left_alone(server, actor, loss):
    server.control.config_set("lock.session-grace", 3 * GRACE)
    a, b = actor(), actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    a.kill_socket()
    wait_noticed(server)
    b.call(*loss.split())
    b.call("DEL", "k")
    b.call("LOCK.ACQUIRE", "k", "p", "PX", LONG)
    server.let_pass(5 * GRACE)
    assert holders(server) == {("p", "exclusive"): (1, None)}


@pytest.mark.parametrize("loss", ["LOCK.RELEASE k o", "LOCK.FORCE k", "DEL k", "PEXPIREAT k 1", "FLUSHALL"])
def test_same_owners_new_hold_is_another_one(server, actor, loss):
    """Taken with a lease, on another connection, after the first hold has gone."""
    a, b = actor(), actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    b.call(*loss.split())
    assert b.call("LOCK.ACQUIRE", "k", "o", "PX", LONG) == 1
    a.kill_socket()
    wait_for(lambda: not a.is_connected(), what="the connection to end")
    grace_passes(server)
    assert holders(server) == {("o", "exclusive"): (1, None)}


def test_owner_of_one_name_on_many_locks_and_databases(server, actor):
    a, b = actor(), actor(db=3)
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    a.call("LOCK.ACQUIRE", "l", "o", "SESSION")
    b.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    a.call("LOCK.RENEW", "l", "o", "PX", LONG)
    a.kill_socket()
    wait_free(server)
    grace_passes(server)
    assert server.control.hgetall("l") == {"o": "1"}
    assert session(server, db=3) == b.client_id


def test_names_that_join_alike_are_two(server, actor):
    a, b = actor(), actor()
    a.call("LOCK.ACQUIRE", "kk", "o", "SESSION")
    b.call("LOCK.ACQUIRE", "k", "ko", "SESSION")
    a.kill_socket()
    wait_free(server, "kk")
    assert session(server) == b.client_id


# RESET, databases, MULTI, Lua, GUARD


def test_reset_keeps_the_binding(server, actor, short_leases):
    a = actor(db=4)
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    assert a.call("RESET") == "RESET"
    leases_pass(server, 2)
    assert session(server, db=4) == a.client_id
    a.kill_socket()
    wait_free(server, db=4)


def test_select_and_a_name_keep_the_binding(server, actor, short_leases):
    a = actor(db=4)
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    a.call("SELECT", 2)
    a.call("CLIENT", "SETNAME", "other")
    leases_pass(server, 2)
    assert session(server, db=4) == a.client_id
    a.kill_socket()
    wait_free(server, db=4)


def test_in_multi(server, actor, resp, short_leases):
    a = actor()
    assert in_multi(a, "LOCK.ACQUIRE k o SESSION", "LOCK.ACQUIRE k o SESSION BLOCK 0") == [1, 2]
    leases_pass(server, 2)
    assert session(server) == a.client_id
    a.kill_socket()
    wait_free(server)


INDIRECT = {
    "Lua": ("EVAL", "return redis.call('LOCK.ACQUIRE', KEYS[1], 'o', 'SESSION')", 1, "k"),
    "Lua, renew": ("EVAL", "return redis.call('LOCK.RENEW', KEYS[1], 'o', 'SESSION')", 1, "held"),
    "guard": ("LOCK.GUARD", "held", "o", "LOCK.ACQUIRE", "k", "o", "SESSION"),
    "guard, renew": ("LOCK.GUARD", "held", "o", "LOCK.RENEW", "held", "o", "SESSION"),
}


@pytest.mark.parametrize("words", INDIRECT.values(), ids=INDIRECT)
def test_from_lua_and_guard_it_is_the_callers_or_an_error(server, actor, resp, short_leases, words):
    """Not the session of a client that the server made up, which never ends."""
    a = actor()
    a.call("LOCK.ACQUIRE", "held", "o", "PX", LONG)
    before = server.dump()
    heard = a.attempt(*words)
    if isinstance(heard, ResponseError):
        assert server.dump() == before
        assert session(server, "held") is None
        return
    key = "held" if any("RENEW" in str(word) for word in words) else "k"
    assert heard == 1
    assert session(server, key) == a.client_id
    leases_pass(server, 2)
    assert session(server, key) == a.client_id
    a.kill_socket()
    wait_free(server, key)


# Replication, persistence, roles, pauses


def test_replica_follows_renewals_and_releases(server, actor, short_leases):
    replica = server.start_replica()
    a = actor(db=2)
    for command in COMMANDS:
        a.call(command, command, "o", "SESSION")
    leases_pass(server)
    wait_for_sync(server, replica)
    with replica.client(db=2) as client:
        assert client.exists(*COMMANDS) == 4
        assert min(client.pttl(key) for key in COMMANDS) > 0
    assert holders(replica, "LOCK.ACQUIRE", db=2) == {("o", "exclusive"): (1, None)}
    a.kill_socket()
    wait_free(server, *COMMANDS, db=2)
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump() == {}


@each_command
def test_promoted_replica_keeps_the_hold_up_to_its_lease(make_server, command):
    lease = scaled_ms(1500)
    master = make_server(lock_default_lease=lease, lock_session_grace=GRACE)
    replica = master.start_replica(lock_default_lease=lease, lock_session_grace=GRACE)
    master.actor().call(command, "k", "o", "SESSION")
    master.let_pass(lease)
    wait_for_sync(master, replica)
    master.kill()
    replica.control.execute_command("REPLICAOF", "NO", "ONE")
    assert session(replica) is None
    left = replica.control.pttl("k")
    assert 0 < left <= lease
    taker = replica.actor()
    taker.send("LOCK.RWWRITE" if "RW" in command else command, "k", "w", "BLOCK", 0)
    assert taker.reply(timeout=10) == 1


def test_promoted_replica_binds_it_again(make_server):
    lease = scaled_ms(1500)
    master = make_server(lock_default_lease=lease)
    replica = master.start_replica(lock_default_lease=lease, lock_session_grace=GRACE)
    master.actor().call("LOCK.ACQUIRE", "k", "o", "SESSION")
    wait_for_sync(master, replica)
    master.kill()
    replica.control.execute_command("REPLICAOF", "NO", "ONE")
    again = replica.actor()
    assert again.call("LOCK.RENEW", "k", "o", "SESSION") == 1
    replica.let_pass(lease * 3 // 2)
    assert session(replica) == again.client_id
    again.kill_socket()
    wait_free(replica)


def test_restart_bounds_it_by_the_lease(make_server):
    server = make_server(appendonly="yes", lock_default_lease=scaled_ms(1000))
    server.actor().call("LOCK.ACQUIRE", "k", "o", "SESSION")
    before = server.dump()
    server.kill()
    server.start()
    assert server.dump() == before
    assert session(server) is None
    wait_free(server)


def test_demoted_master_writes_nothing_more(make_server):
    """Renewals and releases are the new master's business."""
    master = make_server()
    old = make_server(appendonly="yes", lock_default_lease=LEASE, lock_session_grace=GRACE)
    a, b = old.actor(), old.actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    b.call("LOCK.ACQUIRE", "l", "o", "SESSION")
    master.control.hset("k", "o", 1)
    master.control.hset("l", "o", 1)
    old.control.execute_command("REPLICAOF", "127.0.0.1", master.port)
    wait_for_sync(master, old)
    a.kill_socket()
    old.let_pass(3 * LEASE)
    assert old.dump() == master.dump()
    assert old.is_running() and set(old.control.keys("*")) == {"k", "l"}
    assert session(old, "l") is None
    old.control.execute_command("REPLICAOF", "NO", "ONE")
    old.let_pass(3 * GRACE)
    assert old.control.hgetall("k") == {"o": "1"}, "a hold of the new master's was released"


def test_demoted_for_a_moment_it_has_no_sessions(make_server):
    server = make_server(lock_session_grace=GRACE)
    a, b = server.actor(), server.actor()
    for key, client in (("k", a), ("l", b)):
        client.call("LOCK.ACQUIRE", key, "o", "SESSION")
    server.control.execute_command("REPLICAOF", "127.0.0.1", 1)
    assert session(server, "l") is None
    server.control.execute_command("REPLICAOF", "NO", "ONE")
    assert sessions(server) == 0
    a.kill_socket()
    server.let_pass(3 * GRACE)
    assert server.control.exists("k", "l") == 2
    assert b.call("LOCK.RENEW", "l", "o", "SESSION") == 1
    assert session(server, "l") == b.client_id


def test_end_during_a_pause_is_released_after_it(make_server):
    server = make_server(appendonly="yes", lock_session_grace=GRACE)
    server.start_replica()
    a, b = server.actor(), server.actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    b.call("LOCK.ACQUIRE", "l", "o", "SESSION")
    c = begin_to_wait(server.actor, "w")
    server.control.execute_command("CLIENT", "PAUSE", LONG, "WRITE")
    a.kill_socket()
    wait_noticed(server)
    server.let_pass(3 * GRACE)
    assert not c.has_reply()
    server.control.execute_command("CLIENT", "UNPAUSE")
    assert c.reply() == 1
    assert session(server, "l") == b.client_id


def test_end_during_a_pause_of_everything_is_released_after_it(make_server):
    """Which also holds back the command that would end it."""
    server = make_server(appendonly="yes", lock_session_grace=GRACE)
    server.start_replica()
    a = server.actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    c = begin_to_wait(server.actor, "w")
    server.control.execute_command("CLIENT", "PAUSE", 5 * GRACE, "ALL")
    a.kill_socket()
    assert c.reply() == 1
    assert holders(server) == {("w", "exclusive"): (1, None)}


def test_renewal_waits_for_the_end_of_a_pause(make_server):
    """A write while paused would end the server."""
    server = make_server(appendonly="yes", lock_default_lease=scaled_ms(1500))
    server.start_replica()
    a, asks = server.actor(), server.actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    asks.call("CLIENT", "PAUSE", LONG, "WRITE")
    server.let_pass(scaled_ms(900))
    before = asks.call("PTTL", "k")
    assert before < scaled_ms(900), "renewed while paused"
    asks.call("CLIENT", "UNPAUSE")
    wait_for(lambda: asks.call("PTTL", "k") > before, what="the renewal")
    assert session(server) == a.client_id


def test_renewed_and_released_under_oom(server, actor, short_leases):
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    server.control.config_set("maxmemory", 1)
    leases_pass(server, 2)
    assert session(server) == a.client_id
    a.kill_socket()
    wait_free(server)


def test_events_and_counters(server, actor):
    before = server.info("lock")
    server.control.config_set("notify-keyspace-events", "KEAd")
    listener = actor()
    listener.call("SUBSCRIBE", "__keyspace@0__:k")
    a = actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    a.kill_socket()
    wait_free(server)
    heard = []
    wait_for(lambda: heard.append(listener.reply()[2]) or "lock.released" in heard, what="lock.released")
    after = server.info("lock")
    grown = {name for name in after if after[name] == before[name] + 1 and "session" in name}
    assert grown, f"no counter of sessions released: {after}"


def test_unload_is_refused_or_leaves_the_hold_to_its_lease(make_server):
    server = make_server(lock_session_grace=GRACE, lock_default_lease=scaled_ms(3000))
    a = server.actor()
    a.call("LOCK.ACQUIRE", "k", "o", "SESSION")
    try:
        server.control.execute_command("MODULE", "UNLOAD", "lock")
    except ResponseError:
        assert a.call("LOCK.ACQUIRE", "k", "o", "SESSION") == 2
        a.kill_socket()
        wait_free(server)

        def unloaded():
            try:
                return server.control.execute_command("MODULE", "UNLOAD", "lock")
            except ResponseError:
                return False

        wait_for(unloaded, what="the module to be unloaded once no session is left")
        return
    assert 0 < server.control.pttl("k") <= scaled_ms(3000)
    a.kill_socket()
    wait_free(server)
