"""FENCED: a token instead of the count, which only grows for a key, whatever happens in between."""

import ctypes
import mmap
import os
import signal
import subprocess
from contextlib import contextmanager

import pytest
from redis.exceptions import ResponseError

from harness import code_of, scaled_ms, wait_for, wait_for_sync
from harness.schedule import as_map
from test_acquire import HOUR
from test_multi_lua import each_way

TOKEN = "lock:token:{k}"
LEASE = scaled_ms(60)

COMMANDS = ("LOCK.ACQUIRE", "LOCK.FAIR", "LOCK.RWWRITE")
each_command = pytest.mark.parametrize("command", COMMANDS)


def take(client, owner="o", *options, command="LOCK.ACQUIRE", key="k"):
    """The token of a fenced acquisition; fails if it was not to be had."""
    token = client.execute_command(command, key, owner, "FENCED", *options)
    assert isinstance(token, int), f"no token: {token!r}"
    return token


def begin_to_wait(actor, owner, *options, command="LOCK.ACQUIRE"):
    client = actor(owner)
    client.send(command, "k", owner, "BLOCK", 0, *options)
    return client.wait_blocked()


def shown(client, key="k"):
    return as_map(client.execute_command("LOCK.INFO", key))["token"]


def wait_gone(server, key):
    # Opening the key is what a client that comes back does, too.
    wait_for(lambda: not server.control.exists(key), 30, f"{key} to expire")


# The reply


@each_command
def test_reply_is_a_token_and_not_the_count(client, server, command):
    before = server.now_ms()
    token = take(client, command=command)
    assert before * 1000 <= token <= server.now_ms() * 1000 + 999
    assert client.hgetall(TOKEN) == {"token": str(token), "owner": "o"}


@each_command
def test_option_stands_anywhere_in_any_case(client, command):
    tokens = [
        client.execute_command(command, "k1", "o", "fenced", "PX", HOUR, "BLOCK", 0),
        client.execute_command(command, "k2", "o", "PX", HOUR, "FeNcEd", "BLOCK", 0),
        client.execute_command(command, "k3", "o", "EX", 60, "BLOCK", 0, "FENCED"),
    ]
    assert min(tokens) > 10**15
    assert client.pttl("k2") > HOUR - 60_000


SYNTAX = {
    "RWREAD": "LOCK.RWREAD k o FENCED",
    "RWREAD, blocking": "LOCK.RWREAD k o BLOCK 0 FENCED PX 1000",
    "twice": "LOCK.ACQUIRE k o FENCED FENCED",
    "twice, apart": "LOCK.FAIR k o FENCED PX 1000 fenced",
    "twice, write": "LOCK.RWWRITE k o FENCED BLOCK 0 FENCED",
    "in the place of a number": "LOCK.ACQUIRE k o PX FENCED",
    "RENEW": "LOCK.RENEW k o FENCED",
    "RENEW PX": "LOCK.RENEW k o PX 1000 FENCED",
    "RELEASE": "LOCK.RELEASE k o FENCED",
}


@pytest.mark.parametrize("command", SYNTAX.values(), ids=SYNTAX)
def test_where_it_does_not_belong_it_is_an_error(client, server, command):
    with pytest.raises(ResponseError, match="^ERR "):
        client.execute_command(*command.split())
    assert server.dump() == {}


@each_command
def test_acquisition_that_fails_makes_no_token(client, command):
    client.execute_command("LOCK.ACQUIRE", "k", "other")
    for block in ((), ("BLOCK", 1)):
        assert client.execute_command(command, "k", "o", "FENCED", *block) is None
    assert client.exists(TOKEN) == 0


def test_hold_count_that_would_overflow_makes_no_token(client, server):
    client.hset("k", "o", 2**31 - 1)
    before = server.dump()
    with pytest.raises(ResponseError, match="^ERR "):
        take(client)
    assert server.dump() == before


def test_unfenced_acquisitions_neither_make_nor_touch_a_token(client, server):
    client.execute_command("LOCK.ACQUIRE", "k", "o")
    assert client.exists(TOKEN) == 0
    take(client)
    before = server.dump()[0, TOKEN.encode()]
    assert client.execute_command("LOCK.ACQUIRE", "k", "o") == 3
    assert client.execute_command("LOCK.FORCE", "k") == 1
    assert client.execute_command("LOCK.FAIR", "k", "other") == 1
    assert server.dump()[0, TOKEN.encode()] == before


# Waiters


@each_command
def test_waiters_are_answered_with_growing_tokens(client, server, actor, command):
    tokens = [take(client, "o0", command=command)]
    waiters = [begin_to_wait(actor, f"o{n}", "FENCED", command=command) for n in range(1, 5)]
    for n, waiter in enumerate(waiters):
        assert client.execute_command("LOCK.RELEASE", "k", f"o{n}") == 0
        tokens.append(waiter.reply())
        assert client.hgetall(TOKEN) == {"token": str(tokens[-1]), "owner": f"o{n + 1}"}
    assert tokens == sorted(set(tokens)) and tokens[0] > 10**15


@each_command
def test_waiter_granted_by_the_lease_timer_gets_a_token(client, actor, command):
    first = take(client, "o", "PX", LEASE, command=command)
    assert begin_to_wait(actor, "w", "FENCED", command=command).reply() > first


def test_waiter_without_the_option_gets_the_count(client, actor):
    first = take(client)
    waiter = begin_to_wait(actor, "w")
    client.execute_command("LOCK.RELEASE", "k", "o")
    assert waiter.reply() == 1
    assert client.hgetall(TOKEN) == {"token": str(first), "owner": "o"}


def test_waiter_granted_by_its_own_re_entry_gets_its_owners_token(client, actor):
    client.execute_command("LOCK.ACQUIRE", "k", "other")
    one = begin_to_wait(actor, "w", "FENCED")
    two = actor("w again")
    two.send("LOCK.ACQUIRE", "k", "w", "FENCED", "BLOCK", 0)
    two.wait_blocked()
    client.execute_command("LOCK.RELEASE", "k", "other")
    token = one.reply()
    assert token > 10**15
    assert two.reply() == token
    assert client.hgetall("k") == {"w": "2"}


def test_waiter_of_another_key_that_cannot_be_written_down_still_gets_a_larger_token(client, actor):
    first = take(client)
    waiter = begin_to_wait(actor, "w", "FENCED")
    client.set(TOKEN, "no hash")
    client.execute_command("LOCK.RELEASE", "k", "o")
    assert waiter.reply() > first
    assert client.get(TOKEN) == "no hash"


# Re-entry


@each_command
def test_re_entry_by_the_last_tokens_owner_keeps_it(client, command):
    token = take(client, command=command)
    assert take(client, command=command) == token
    assert client.execute_command(command, "k", "o") == 3
    assert take(client, command=command) == token
    assert client.hgetall(TOKEN) == {"token": str(token), "owner": "o"}


def test_re_entry_of_a_hold_without_a_token_makes_one(client):
    assert client.execute_command("LOCK.ACQUIRE", "k", "o") == 1
    token = take(client)
    assert token > 10**15
    assert take(client) == token


@pytest.mark.parametrize("loss", [f"DEL {TOKEN}", f"HSET {TOKEN} owner other", f"HDEL {TOKEN} owner"])
def test_re_entry_makes_a_new_one_when_the_last_is_not_known_to_be_its_own(client, loss):
    token = take(client)
    client.execute_command(*loss.split())
    assert take(client) > token


def test_re_entry_by_an_owner_of_an_older_token_makes_a_new_one(client):
    first = take(client, "a")
    client.execute_command("LOCK.RELEASE", "k", "a")
    second = take(client, "b")
    client.execute_command("LOCK.RELEASE", "k", "b")
    assert client.execute_command("LOCK.ACQUIRE", "k", "a") == 1
    assert take(client, "a") > second > first


def test_owner_of_the_last_token_that_gave_the_lock_back_gets_a_new_one(client):
    first = take(client)
    client.execute_command("LOCK.RELEASE", "k", "o")
    assert take(client) > first


# It grows, whatever happens in between

BETWEEN = {
    "release": "LOCK.RELEASE k o",
    "force": "LOCK.FORCE k",
    "DEL": "DEL k",
    "UNLINK": "UNLINK k",
    "DEL of the token": f"DEL k {TOKEN}",
    "RENAME": "RENAME k l",
    "RENAME of the token": f"RENAME {TOKEN} l",
    "FLUSHALL": "FLUSHALL",
    "FLUSHDB": "FLUSHDB ASYNC",
    "SWAPDB": "SWAPDB 0 1",
    "overwritten": f"HSET {TOKEN} token 1",
    "overwritten, no number": f"HSET {TOKEN} token abc",
    "overwritten, negative": f"HSET {TOKEN} token -5",
    "overwritten, a fraction": f"HSET {TOKEN} token 1.5",
    "field lost": f"HDEL {TOKEN} token",
    "DEBUG RELOAD": "DEBUG RELOAD",
}


@pytest.mark.parametrize("owner", ["o", "other"])
@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
def test_grows(client, between, owner):
    first = take(client)
    client.execute_command(*between.split())
    client.execute_command("LOCK.FORCE", "k")
    second = take(client, owner)
    assert second > first
    assert client.hgetall(TOKEN) == {"token": str(second), "owner": owner}


def test_grows_across_a_lease_end(client, server):
    first = take(client, "o", "PX", LEASE)
    wait_gone(server, "k")
    assert take(client) > first


def test_grows_when_the_token_has_expired(client, server):
    client.config_set("lock.token-retention", LEASE)
    first = take(client, "o", "PX", 2 * LEASE)
    wait_gone(server, TOKEN)
    assert take(client) > first  # a re-entry, or a new one: the token is lost in any case


def test_grows_among_all_commands_and_many_at_once(client):
    tokens = []
    for n in range(100):
        tokens.append(take(client, f"o{n}", command=COMMANDS[n % 3]))
        client.execute_command("LOCK.RELEASE", "k", f"o{n}")
    assert tokens == sorted(set(tokens))


def test_grows_from_a_last_one_that_lies_in_the_future(make_server):
    """As a clock that has been set back since may have left it."""
    client = make_server().client()
    future = 4 * 10**15
    client.hset(TOKEN, mapping={"token": future, "owner": "x"})
    assert take(client) == future + 1
    client.execute_command("LOCK.RELEASE", "k", "o")
    assert take(client) == future + 2


def test_largest_number_that_somebody_wrote_down_makes_no_token_negative(make_server):
    """A server of its own: a number of 2^63 - 2 would stay the largest of this process."""
    client = make_server().client()
    client.hset(TOKEN, mapping={"token": 2**63 - 2, "owner": "x"})
    heard = []
    for key in ("k", "k", "l"):
        try:
            heard.append(client.execute_command("LOCK.ACQUIRE", key, f"o{len(heard)}", "FENCED"))
        except ResponseError as error:
            heard.append(code_of(error))
        client.execute_command("LOCK.FORCE", key)
    assert all(token == "ERR" or token > 0 for token in heard), heard
    numbers = [token for token in heard[:2] if token != "ERR"]
    assert numbers == sorted(set(numbers))


# Restarts and failovers


def test_last_one_is_persisted(make_server):
    """By a number that the clock has not reached: it can only come from the AOF."""
    future = 4 * 10**15
    server = make_server(appendonly="yes")
    server.control.hset(TOKEN, mapping={"token": future, "owner": "x"})
    assert take(server.control) == future + 1
    before = server.dump()
    server.kill()
    server.start()
    assert server.dump() == before
    assert take(server.control) == future + 1  # a re-entry
    server.control.execute_command("LOCK.FORCE", "k")
    assert take(server.control) == future + 2


def test_grows_across_a_restart_that_loses_everything(make_server):
    server = make_server()
    for n in range(50):
        last = take(server.control, f"o{n}")
        server.control.execute_command("LOCK.FORCE", "k")
    server.kill()
    server.start()
    assert server.control.dbsize() == 0
    assert take(server.control) > last


@contextmanager
def stopped(server):
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


@pytest.mark.parametrize("missed", ["some writes", "every write"])
def test_grows_when_a_replica_is_promoted_that_missed_the_last_writes(make_server, missed):
    master = make_server()
    replica = master.start_replica()
    known = None
    if missed == "some writes":
        known = str(take(master.control, "before"))
        wait_for_sync(master, replica)
        master.control.execute_command("LOCK.FORCE", "k")
    with stopped(replica):
        # Closed while the replica sleeps: what follows cannot wait for it in a buffer either.
        master.control.client_kill_filter(_type="replica")
        for n in range(20):
            last = take(master.control, f"o{n}")
            master.control.execute_command("LOCK.FORCE", "k")
        master.kill()
    replica.control.execute_command("REPLICAOF", "NO", "ONE")
    assert replica.control.hget(TOKEN, "token") == known
    replica.control.execute_command("LOCK.FORCE", "k")
    assert take(replica.control) > last


# The clock

SHIM = r"""
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Microseconds to add to the time of day. */
static volatile long long *shift;

__attribute__((constructor)) static void begin(void) {
    int fd = open(getenv("CLOCK_SHIFT"), O_RDONLY);
    void *at = mmap(NULL, sizeof(*shift), PROT_READ, MAP_SHARED, fd, 0);
    shift = at == MAP_FAILED ? NULL : at;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (result == 0 && shift && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long long micros = time->tv_sec * 1000000LL + time->tv_nsec / 1000 + *shift;
        time->tv_sec = micros / 1000000;
        time->tv_nsec = micros % 1000000 * 1000;
    }
    return result;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *into) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (into) *into = now.tv_sec;
    return now.tv_sec;
}
"""


class Clock:
    """The time of day of the servers that are started under it."""

    def __init__(self, folder, monkeypatch):
        (folder / "clock.c").write_text(SHIM)
        library, self._file = folder / "clock.so", folder / "shift"
        command = ["cc", "-O1", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, folder / "clock.c"]
        subprocess.run(command, check=True)
        self._file.write_bytes(bytes(8))
        monkeypatch.setenv("LD_PRELOAD", str(library))
        monkeypatch.setenv("CLOCK_SHIFT", str(self._file))

    def step(self, seconds):
        """So many seconds away from the true time, from now on."""
        with open(self._file, "r+b") as file, mmap.mmap(file.fileno(), 8) as shared:
            ctypes.c_longlong.from_buffer(shared).value = round(seconds * 1_000_000)


@pytest.fixture
def clock(tmp_path, monkeypatch):
    return Clock(tmp_path, monkeypatch)


LOSSES = {"nothing": "PING", "release": "LOCK.RELEASE k o", "token": f"DEL {TOKEN}", "everything": "FLUSHALL"}


@pytest.mark.parametrize("lost", LOSSES.values(), ids=LOSSES)
def test_grows_when_the_clock_has_stepped_back(clock, make_server, lost):
    server = make_server()
    client = server.control
    first = take(client)
    clock.step(-3600)
    assert server.now_ms() * 1000 < first - 3_500_000_000
    client.execute_command(*lost.split())
    client.execute_command("LOCK.FORCE", "k")
    second = take(client)
    assert second > first
    client.execute_command("LOCK.RELEASE", "k", "o")
    clock.step(-7200)
    client.execute_command(*lost.split() if "RELEASE" not in lost else ["PING"])
    client.execute_command("LOCK.FORCE", "k")
    third = take(client)
    assert third > second
    clock.step(0)
    client.execute_command("LOCK.FORCE", "k")
    assert take(client) > third


def test_grows_for_waiters_when_the_clock_has_stepped_back(clock, make_server):
    server = make_server()
    first = take(server.control)
    waiter = begin_to_wait(server.actor, "w", "FENCED")
    clock.step(-3600)
    server.control.execute_command("FLUSHALL")
    assert waiter.reply() > first


# Its key


def test_key_lives_for_the_retention_after_the_last_use(client, server):
    day = 24 * HOUR
    take(client)
    assert day - 60_000 < client.pttl(TOKEN) <= day
    client.config_set("lock.token-retention", 2 * day)
    assert client.pttl(TOKEN) <= day
    take(client)  # a re-entry is a use
    assert 2 * day - 60_000 < client.pttl(TOKEN) <= 2 * day
    client.config_set("lock.token-retention", HOUR)
    client.execute_command("LOCK.FORCE", "k")
    assert client.pttl(TOKEN) > day
    take(client, "other")
    assert HOUR - 60_000 < client.pttl(TOKEN) <= HOUR


def test_key_outlives_the_lock(client):
    token = take(client)
    client.execute_command("LOCK.RELEASE", "k", "o")
    assert client.keys("*") == [TOKEN]
    assert client.hget(TOKEN, "token") == str(token)


def test_key_is_of_the_same_database(server, resp):
    one, two = server.client(resp, db=1), server.client(resp, db=2)
    tokens = [take(one), take(two)]
    assert tokens[0] < tokens[1]
    assert [client.hget(TOKEN, "token") for client in (one, two)] == [str(token) for token in tokens]


@pytest.mark.parametrize("name", ["k", "{t}k", "a{t}b", "a}b", "{}k", "a b\r\n"])
def test_key_has_the_locks_name(server, name):
    side = "lock:token:" + (name if "{t}" in name else "{" + name + "}")
    take(server.control, key=name)
    assert server.control.exists(side) == 1


def test_binary_owner_is_kept_whole(server):
    client, owner = server.client(decode_responses=False), b"\x00\xff\r\n o"
    token = client.execute_command("LOCK.ACQUIRE", "k", owner, "FENCED")
    assert client.hget(TOKEN, "owner") == owner
    assert client.execute_command("LOCK.ACQUIRE", "k", owner, "FENCED") == token


@pytest.mark.parametrize("other", ["SET", "RPUSH", "SADD"])
@each_command
def test_token_key_of_another_type_is_refused(client, server, command, other):
    client.execute_command(other, TOKEN, "x")
    before = server.dump()
    for owner in ("o", "p"):
        with pytest.raises(ResponseError, match="^WRONGTYPE "):
            take(client, owner, "BLOCK", 0, command=command)
    assert server.dump() == before
    assert server.info("lock")["lock_waiters"] == 0
    assert client.execute_command(command, "k", "o") == 1
    with pytest.raises(ResponseError, match="^WRONGTYPE "):
        take(client, command=command)
    assert client.execute_command(command, "k", "o") == 2


@each_command
def test_lock_key_of_another_type_makes_no_token(client, command):
    client.set("k", "x")
    with pytest.raises(ResponseError, match="^WRONGTYPE "):
        take(client, command=command)
    assert client.exists(TOKEN) == 0


# LOCK.INFO


def test_info_shows_the_last_one(client):
    client.execute_command("LOCK.ACQUIRE", "k", "o")
    assert shown(client) is None
    token = take(client)
    assert shown(client) == token
    client.execute_command("LOCK.FORCE", "k")
    assert client.execute_command("LOCK.INFO", "k") is None
    client.execute_command("LOCK.ACQUIRE", "k", "other")
    assert shown(client) == token
    client.delete(TOKEN)
    assert shown(client) is None
    client.set(TOKEN, "x")
    assert shown(client) is None


def test_info_shows_it_on_a_replica(server, resp):
    replica = server.start_replica()
    token = take(server.control)
    wait_for_sync(server, replica)
    assert shown(replica.client(resp)) == token
    with pytest.raises(ResponseError, match="^READONLY "):
        take(replica.client(resp))


# Replication, MULTI, Lua, a cluster


@each_command
def test_replica_holds_the_same(server, actor, command):
    replica = server.start_replica()
    take(server.control, "a", command=command)
    take(server.control, "a", command=command)
    waiters = [begin_to_wait(actor, owner, "FENCED", command=command) for owner in "bc"]
    for _ in range(2):
        server.control.execute_command("LOCK.RELEASE", "k", "a")
    last = waiters[0].reply()
    server.control.delete("k")
    last = waiters[1].reply()
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()
    assert replica.control.hget(TOKEN, "token") == str(last)


@each_way
def test_in_multi_and_lua(server, resp, actor, say):
    replica = server.start_replica()
    take_it = "LOCK.ACQUIRE k {} FENCED PX 600000"
    one, again, gone, two, info, _ = say(
        actor(), take_it.format("a"), take_it.format("a"), "LOCK.FORCE k", take_it.format("b"),
        f"HGET {TOKEN} token", "SET behind 1",
    )  # fmt: skip
    assert one == again and gone == 1 and two > one
    assert info == str(two)
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()


def test_pipelined_ones_are_all_different(server):
    pipe = server.client().pipeline(transaction=False)
    for n in range(500):
        pipe.execute_command("LOCK.ACQUIRE", "k", f"o{n}", "FENCED")
        pipe.execute_command("LOCK.FORCE", "k")
    tokens = pipe.execute()[::2]
    assert tokens == sorted(set(tokens))


@pytest.fixture
def cluster(make_server):
    """One node that serves every slot."""
    server = make_server(cluster_enabled="yes")
    server.control.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    wait_for(lambda: "cluster_state:ok" in server.actor().call("CLUSTER", "INFO"), 20, "the cluster to be up")
    return server


def test_name_that_can_have_no_side_key_is_refused_in_a_cluster(cluster):
    client = cluster.actor()
    for command in COMMANDS:
        for block in ((), ("BLOCK", 0)):
            assert code_of(client.attempt(command, "a}b", "o", "FENCED", *block)) == "ERR"
    assert client.call("DBSIZE") == 0
    assert client.call("LOCK.ACQUIRE", "a}b", "o") == 1
    assert client.call("LOCK.INFO", "a}b")


def test_token_is_in_the_locks_slot(cluster):
    client = cluster.actor()
    for name in ("k", "{t}k", "k{t}"):
        assert client.call("LOCK.ACQUIRE", name, "o", "FENCED") > 10**15
        side = next(key for key in client.call("KEYS", "lock:token:*") if name in key)
        assert client.call("CLUSTER", "KEYSLOT", side) == client.call("CLUSTER", "KEYSLOT", name)
        client.call("DEL", side)
