"""The module's configs, its section of INFO, its keyspace events, and what Redisson is told."""

import pytest
from redis.exceptions import ResponseError

from harness import scaled_ms, wait_for, wait_for_sync
from harness.server import ServerDied
from test_acquire import HOUR, lease
from test_multi_lua import FAILURES, MUTATIONS, TAKE, WAIT, in_multi

CONFIGS = {"lock.default-lease": "30000", "lock.fair-reserve": "5000"}
CONFIGS |= {"lock.token-retention": "86400000", "lock.session-grace": "1000"}
CONFIGS |= {"lock.max-waiters": "0", "lock.redisson-interop": "no", "lock.deadlock-detection": "yes"}
CHANGED = {"lock.default-lease": "4321", "lock.fair-reserve": "77"}
CHANGED |= {"lock.token-retention": "12345", "lock.session-grace": "55"}
CHANGED |= {"lock.max-waiters": "7", "lock.redisson-interop": "yes", "lock.deadlock-detection": "no"}


def say(server, command):
    return server.control.execute_command(*command.split())


@pytest.fixture
def wait_as(actor):
    """wait_as("w", "k"): a client that waits as `w` for `k`, for ever."""

    def wait(owner="w", key="k", **options):
        waiter = actor(owner, **options)
        waiter.send("LOCK.ACQUIRE", key, owner, "PX", HOUR, "BLOCK", 0)
        return waiter.wait_blocked()

    return wait


# Configs


def test_defaults(client):
    assert client.config_get("lock.*") == CONFIGS


GOOD = [("lock.default-lease", "1"), ("lock.default-lease", str(10**15)), ("lock.max-waiters", "0")]
GOOD += [("lock.fair-reserve", "0"), ("lock.fair-reserve", str(10**15))]
GOOD += [("lock.max-waiters", "1"), ("lock.redisson-interop", "yes"), ("lock.redisson-interop", "no")]
GOOD += [("lock.deadlock-detection", "yes"), ("lock.deadlock-detection", "no")]
BAD = [("lock.default-lease", value) for value in ("0", "-1", str(10**15 + 1), str(2**63 - 1), "1.5", "x", "")]
BAD += [("lock.fair-reserve", "-1"), ("lock.fair-reserve", "x")]
BAD += [("lock.max-waiters", "-1"), ("lock.max-waiters", "x"), ("lock.redisson-interop", "2")]
BAD += [("lock.deadlock-detection", "2"), ("lock.deadlock-detection", "")]


@pytest.mark.parametrize("name, value", GOOD)
def test_value_is_set(client, name, value):
    client.config_set(name, value)
    assert client.config_get(name) == {name: value}


@pytest.mark.parametrize("name, value", BAD)
def test_bad_value_is_refused(client, name, value):
    with pytest.raises(ResponseError, match="^ERR CONFIG SET failed"):
        client.config_set(name, value)
    assert client.config_get("lock.*") == CONFIGS


def test_configuration_file(make_server):
    keywords = {name.replace(".", "_").replace("-", "_"): value for name, value in CHANGED.items()}
    assert make_server(**keywords).control.config_get("lock.*") == CHANGED


def test_bad_value_in_the_configuration_file_ends_the_start(make_server):
    with pytest.raises(ServerDied, match="lock.default-lease"):
        make_server(lock_default_lease=0)


def test_module_loadex(make_server):
    server = make_server(load_module=False)
    words = [word for name, value in CHANGED.items() for word in ("CONFIG", name, value)]
    server.control.execute_command("MODULE", "LOADEX", str(server.launch.module), *words)
    assert server.control.config_get("lock.*") == CHANGED


def test_arguments_of_loadmodule_are_not_passed_over_in_silence(make_server):
    with pytest.raises(ServerDied, match="takes no arguments"):
        make_server(module_args=("lock.default-lease", "4321"))


def test_config_rewrite_keeps_them(make_server):
    server = make_server()
    for name, value in CHANGED.items():
        server.control.config_set(name, value)
    server.control.config_rewrite()
    # The harness writes a file of its own at each start, which includes what the server wrote.
    rewritten = (server.folder / "redis.conf").read_text().splitlines()
    kept = server.folder / "kept.conf"
    kept.write_text("\n".join(line for line in rewritten if line.startswith(("lock.", "loadmodule "))) + "\n")
    again = make_server(load_module=False, include=kept)
    assert again.control.config_get("lock.*") == CHANGED


def test_lease_of_a_waiter_is_settled_when_it_asks(server):
    server.control.config_set("lock.default-lease", HOUR)
    say(server, "LOCK.ACQUIRE k o PX 60000")
    waiter = server.actor()
    waiter.send("LOCK.ACQUIRE", "k", "w", "BLOCK", 0)
    waiter.wait_blocked()
    server.control.config_set("lock.default-lease", 1000)
    with lease(server, HOUR):
        say(server, "LOCK.RELEASE k o")
    assert waiter.reply() == 1


def test_max_waiters_of_the_whole_node(server, resp, actor, wait_as):
    server.control.config_set("lock.max-waiters", 2)
    for key in ("k", "l"):
        say(server, f"LOCK.ACQUIRE {key} o")
    server.client(db=1).execute_command("LOCK.ACQUIRE", "k", "o")
    first, second = wait_as("w1", "k"), wait_as("w2", "k", db=1)
    client, before = actor(), server.dump()
    refused = client.attempt("LOCK.ACQUIRE", "l", "w3", "BLOCK", 0)
    assert isinstance(refused, ResponseError)
    assert str(refused) == "ERR too many waiters, see lock.max-waiters"
    assert server.dump() == before
    # Who need not wait is not refused.
    assert client.call("LOCK.ACQUIRE", "l", "w3") is None
    assert client.call("LOCK.ACQUIRE", "free", "w3", "BLOCK", 0) == 1
    assert client.call("LOCK.ACQUIRE", "l", "o", "BLOCK", 0) == 2
    # A wait that ends makes room.
    say(server, "LOCK.RELEASE k o")
    assert first.reply() == 1
    third = wait_as("w3", "l")
    # A live limit; who waits already may go on.
    server.control.config_set("lock.max-waiters", 1)
    server.settle()
    assert second.is_blocked() and third.is_blocked()
    server.control.config_set("lock.max-waiters", 0)
    wait_as("w4", "l")


# INFO


COUNTERS = ["granted_at_once", "granted_after_wait", "granted_by_reentry", "releases", "forced", "lease_ends"]
COUNTERS += ["time_outs", "cancelled", "clients_gone", "sessions_released"]
COUNTERS += ["deadlocks_refused", "deadlock_searches_cut"]
PERCENTILES = ["wait_ms_p50", "wait_ms_p99", "wait_ms_p99_9", "wait_ms_max"]


def counted(server):
    """What the counters say now."""
    info = server.info("lock")
    return {name: info["lock_" + name] for name in COUNTERS}


class counts:
    """Asserts that in this block the counters grow by just this."""

    def __init__(self, server, **growth):
        self._server, self._growth = server, growth

    def __enter__(self):
        self._before = counted(self._server)

    def __exit__(self, *failure):
        if failure == (None, None, None):
            now = counted(self._server)
            grown = {name: now[name] - self._before[name] for name in COUNTERS}
            assert {name: by for name, by in grown.items() if by} == self._growth


def test_fields_of_info(make_server):
    server = make_server()
    names = ["waiters", "contended_locks", "sessions", *COUNTERS, *PERCENTILES]
    assert server.info("lock") == {"lock_" + name: 0 for name in names}
    assert "lock_waiters" in server.info("everything")
    assert "lock_waiters" in server.info("modules")


# What a command of the table in test_multi_lua.py is counted as, and its events: those of `k` if no lock is named.
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
SAYS_NO_AT_ONCE = [name for name in FAILURES if "wait" not in name]


@pytest.mark.parametrize("name", TOLD)
def test_command_is_counted(server, name):
    mutation = MUTATIONS[name]
    waiter = mutation.arrange(server)
    with counts(server, **TOLD[name][0]):
        say(server, mutation.says)
        mutation.has_answered(waiter)


@pytest.mark.parametrize("name", SAYS_NO_AT_ONCE)
def test_failure_is_not_counted(server, actor, name):
    for command in FAILURES[name].before:
        say(server, command)
    with counts(server):
        actor().attempt(*FAILURES[name].says.split())


def test_time_out_is_counted(server, actor):
    say(server, TAKE)
    with counts(server, time_outs=1):
        assert actor().call("LOCK.ACQUIRE", "k", "w", "BLOCK", 1) is None


def test_lost_client_is_counted(server, wait_as):
    say(server, TAKE)
    waiter = wait_as()
    with counts(server, clients_gone=1):
        waiter.kill_socket()
        wait_for(lambda: server.info("lock")["lock_waiters"] == 0, what="the waiter to leave")


def test_lease_end_is_counted(server, wait_as):
    say(server, f"LOCK.ACQUIRE k o PX {scaled_ms(300)}")
    waiter = wait_as()
    with counts(server, lease_ends=1, granted_after_wait=1):
        assert waiter.reply() == 1


def test_waiters_and_contended_locks_of_the_moment(server, wait_as):
    def now():
        info = server.info("lock")
        return info["lock_waiters"], info["lock_contended_locks"]

    for key in ("k", "l"):
        say(server, f"LOCK.ACQUIRE {key} o")
    wait_as("w1", "k"), wait_as("w2", "k"), wait_as("w3", "l")
    assert now() == (3, 2)
    say(server, "LOCK.CANCEL k w2")
    assert now() == (2, 2)
    say(server, "LOCK.RELEASE l o")
    assert now() == (1, 1)


def test_percentiles_of_the_wait(make_server):
    server = make_server()
    start = server.now_ms()
    say(server, f"LOCK.ACQUIRE k o PX {scaled_ms(300)}")
    waiter = server.actor()
    waiter.send(*WAIT.split())
    assert waiter.reply() == 1
    longest = server.now_ms() - start
    values = [server.info("lock")["lock_" + name] for name in PERCENTILES]
    assert values == sorted(values)
    assert 0 < values[0] <= values[-1] <= longest


# Keyspace events


class Listener:
    """Hears all that is published on a server, in order."""

    def __init__(self, server, master=None):
        self._publisher, self._actor = master or server, server.actor("listener")
        self._actor.call("PSUBSCRIBE", "*")

    def heard(self):
        """[(channel, message), …] since the last time."""
        self._publisher.control.publish("end", "")
        said = iter(self._actor.reply, ["pmessage", "*", "end", ""])
        return [(channel, message) for _, _, channel, message in said]


def listen_for_events(server, classes):
    server.control.config_set("notify-keyspace-events", classes)
    return Listener(server)


@pytest.mark.parametrize("name", TOLD)
def test_just_these_events_of_a_command(server, name):
    mutation = MUTATIONS[name]
    waiter = mutation.arrange(server, db=2)
    events = listen_for_events(server, "EA")
    server.client(db=2).execute_command(*mutation.says.split())
    mutation.has_answered(waiter)
    heard = [f"{channel} {key}" for channel, key in events.heard()]
    told = [event if " " in event else f"{event} k" for event in TOLD[name][1]]
    assert heard == [f"__keyevent@2__:lock.{event}" for event in told]


@pytest.mark.parametrize("name", SAYS_NO_AT_ONCE)
def test_no_event_of_a_failure(server, actor, name):
    for command in FAILURES[name].before:
        say(server, command)
    events = listen_for_events(server, "EA")
    actor().attempt(*FAILURES[name].says.split())
    assert events.heard() == []


def test_events_are_sent_to_the_key_too(server):
    events = listen_for_events(server, "KEd")
    say(server, TAKE)
    assert events.heard() == [("__keyspace@0__:k", "lock.granted"), ("__keyevent@0__:lock.granted", "k")]


def test_events_are_of_the_class_for_modules(server):
    events = listen_for_events(server, "KEg$hxe")
    say(server, TAKE)
    say(server, "LOCK.RELEASE k o")
    assert events.heard() == []


def test_events_of_a_transaction_keep_their_order(server, actor):
    events = listen_for_events(server, "Ed")
    in_multi(actor(), "LOCK.ACQUIRE a o", "LOCK.ACQUIRE b o", "LOCK.RELEASE a o", "LOCK.FORCE b")
    names = ["granted a", "granted b", "released a", "forced b"]
    assert [f"{channel.rpartition('.')[2]} {key}" for channel, key in events.heard()] == names


def test_events_of_a_lease_end_that_somebody_waits_for(server, wait_as):
    say(server, f"LOCK.ACQUIRE k o PX {scaled_ms(300)}")
    waiter = wait_as()
    events = listen_for_events(server, "EA")
    assert waiter.reply() == 1
    names = ["__keyevent@0__:expired", "__keyevent@0__:lock.expired", "__keyevent@0__:lock.granted"]
    assert events.heard() == [(name, "k") for name in names]


def test_events_of_a_lease_end_that_nobody_waits_for(server):
    events = listen_for_events(server, "EA")
    say(server, f"LOCK.ACQUIRE k o PX {scaled_ms(30)}")
    wait_for(lambda: server.control.exists("k") == 0, what="the lease to end")
    assert events.heard() == [("__keyevent@0__:lock.granted", "k"), ("__keyevent@0__:expired", "k")]


def test_events_of_a_grant_after_del(server, wait_as):
    say(server, TAKE)
    waiter = wait_as()
    events = listen_for_events(server, "EA")
    server.control.delete("k")
    assert waiter.reply() == 1
    assert events.heard() == [("__keyevent@0__:del", "k"), ("__keyevent@0__:lock.granted", "k")]


# Redisson

FREE = ("redisson_lock__channel:{k}", "0")
FREE_L = ("redisson_lock__channel:{l}", "0")
# Which locks become free by a command of the table in test_multi_lua.py, and stay so.
FREED = dict.fromkeys(["release", "force", "force a foreign hash"], [FREE])
FREED |= {"release several": [FREE, FREE_L], "release several, one of two": [FREE_L]}
FREED |= {"release several, hand on one": [FREE_L]}


@pytest.fixture
def redisson(server):
    server.control.config_set("lock.redisson-interop", "yes")
    return Listener(server)


@pytest.mark.parametrize("name", MUTATIONS)
def test_redisson_hears_of_a_free_lock(server, redisson, name):
    MUTATIONS[name].perform(server)
    assert redisson.heard() == FREED.get(name, [])


@pytest.mark.parametrize("key", ["a{b}c", "{k}", "a}b", "k k", ""])
def test_redissons_channel(server, redisson, key):
    server.control.execute_command("LOCK.ACQUIRE", key, "o")
    server.control.execute_command("LOCK.RELEASE", key, "o")
    channel = "redisson_lock__channel:" + (key if "{" in key else f"{{{key}}}")
    assert redisson.heard() == [(channel, "0")]


def test_redisson_hears_nothing_any_more(server, redisson):
    server.control.config_set("lock.redisson-interop", "no")
    MUTATIONS["release"].perform(server)
    assert redisson.heard() == []


def test_redisson_hears_it_once_on_a_replica(make_server):
    master = make_server(lock_redisson_interop="yes")
    replica = master.start_replica()
    redisson = Listener(replica, master)
    MUTATIONS["release"].perform(master)
    assert redisson.heard() == [FREE]


def test_redisson_hears_it_once_on_a_replica_in_a_cluster(make_server):
    # There the cluster's bus carries it to every node, replicas too.
    master, replica = (make_server(cluster_enabled="yes", lock_redisson_interop="yes") for _ in range(2))
    ask, ask_replica = master.actor().call, replica.actor().call
    ask("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    bus = master.control.config_get("cluster-port")["cluster-port"]
    ask_replica("CLUSTER", "MEET", "127.0.0.1", master.port, bus)
    name = ask("CLUSTER", "MYID")
    wait_for(lambda: name in ask_replica("CLUSTER", "NODES"), 20, "the nodes to meet")
    ask_replica("CLUSTER", "REPLICATE", name)
    wait_for(lambda: "cluster_state:ok" in ask("CLUSTER", "INFO"), 20, "the cluster")
    wait_for_sync(master, replica)
    redisson = Listener(replica, master)
    MUTATIONS["release"].perform(master)
    wait_for_sync(master, replica)
    assert redisson.heard() == [FREE]
