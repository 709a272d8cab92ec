"""The commands of model/mutations.py inside MULTI and Lua, and their effect on WATCH."""

from harness import code_of
from harness.schedule import as_map
from model.mutations import MUTATIONS, TAKE, each_failure, each_mutation, each_way, in_multi
from model.mutations import leave_no_positions, matches


# In MULTI and Lua


@each_way
@each_mutation
def test_command_does_the_same_in_multi_and_lua(server, some_resp, actor, say, mutation):
    waiter = mutation.arrange(server)
    assert say(actor(), mutation.command) == [mutation.reply]
    mutation.check_waiter(waiter)
    inside = {key: value[:2] for key, value in server.dump().items()}
    server.control.flushall()
    mutation.perform(server)
    assert inside == {key: value[:2] for key, value in server.dump().items()}


@each_failure
def test_command_fails_the_same_in_multi(server, some_resp, actor, failure):
    for command in failure.before:
        server.control.execute_command(*command.split())
    before = server.dump()
    [reply, rest] = in_multi(actor(), failure.command, "ECHO rest")
    assert matches(failure.reply, reply)
    assert rest == "rest"
    assert server.dump() == before
    assert server.blocked_clients() == 0


@each_failure
def test_command_fails_the_same_in_lua(server, resp, actor, failure):
    for command in failure.before:
        server.control.execute_command(*command.split())
    before = server.dump()
    # A script sees null as false; RESP2 and RESP3 then differ.
    script = "local r = redis.pcall(unpack(ARGV)) return r or 'null'"
    reply = actor().attempt("EVAL", script, 1, "k", *failure.command.split())
    assert reply == "null" if failure.reply is None else matches(failure.reply, reply)
    assert server.dump() == before
    assert server.blocked_clients() == 0


@each_way
def test_hand_off_happens_inside_the_transaction(server, resp, actor, say):
    MUTATIONS["release, hand off"].arrange(server)
    left, content, again = say(actor(), "LOCK.RELEASE k o", "HGETALL k", "LOCK.ACQUIRE k o")
    assert left == 0
    assert as_map(content) == {"w": "1"}
    assert again is None


@each_way
def test_several_locks_are_handed_off_in_one_transaction(server, resp, actor, say):
    waiters = []
    for key in ("k1", "k2"):
        server.control.execute_command("LOCK.ACQUIRE", key, "o")
        waiters.append(actor())
        waiters[-1].send("LOCK.ACQUIRE", key, "w", "BLOCK", 0)
        waiters[-1].wait_blocked()
    assert say(actor(), "LOCK.RELEASE k1 o", "LOCK.FORCE k2") == [0, 1]
    assert [waiter.reply() for waiter in waiters] == [1, 1]


@each_way
def test_one_lock_is_handed_off_twice_in_one_transaction(server, resp, actor, say):
    waiters = {}
    server.control.execute_command(*TAKE.split())
    for owner in ("w1", "w2", "w3"):
        waiters[owner] = actor(owner)
        waiters[owner].send("LOCK.ACQUIRE", "k", owner, "BLOCK", 0)
        waiters[owner].wait_blocked()
    assert say(actor(), "LOCK.RELEASE k o", "LOCK.CANCEL k w2", "LOCK.RELEASE k w1") == [0, 1, 0]
    assert [waiter.reply() for waiter in waiters.values()] == [1, None, 1]
    assert server.control.hgetall("k") == {"w3": "1"}


@each_way
def test_owner_that_frees_a_lock_by_del_may_acquire_it_again(server, resp, actor, say):
    # Only commands of the module grant the waiter at once; after DEL the drain does it.
    waiter = MUTATIONS["release, hand off"].arrange(server)
    assert say(actor(), "DEL k", "LOCK.ACQUIRE k o PX 600000") == [1, 1]
    server.settle()
    assert waiter.is_blocked()
    assert server.control.hgetall("k") == {"o": "1"}


def test_discarded_transaction_changes_nothing(server, actor):
    before = server.dump()
    client = actor()
    client.call("MULTI")
    client.call(*TAKE.split())
    client.call("DISCARD")
    assert server.dump() == before


def test_wrong_number_of_arguments_aborts_the_transaction(server, actor):
    client = actor()
    client.call("MULTI")
    client.call(*TAKE.split())
    assert code_of(client.attempt("LOCK.RELEASE", "k")) == "ERR"
    assert code_of(client.attempt("EXEC")) == "EXECABORT"
    assert server.control.dbsize() == 0


@each_mutation
def test_read_only_script_may_not_change_a_lock(server, actor, mutation):
    waiter = mutation.arrange(server)
    before = server.dump()
    reply = actor().attempt("EVAL_RO", "return redis.call(unpack(ARGV))", 1, "k", *mutation.command.split())
    assert code_of(reply) == "ERR"
    assert server.dump() == before
    assert waiter is None or waiter.is_blocked()


def test_read_only_script_may_run_info(server, resp, actor):
    server.control.execute_command(*TAKE.split())
    reply = actor().call("EVAL_RO", "return redis.call('LOCK.INFO', KEYS[1])", 1, "k")
    assert "exclusive" in reply


# WATCH


@each_mutation
def test_change_aborts_a_watch(server, actor, mutation):
    waiter = mutation.arrange(server)
    watcher = actor("watcher")
    watcher.call("WATCH", "k")
    server.control.execute_command(*mutation.command.split())
    mutation.check_waiter(waiter)
    assert in_multi(watcher, "ECHO done") == (None if mutation.changes_key else ["done"])


@each_failure
def test_failure_does_not_abort_a_watch(server, actor, failure):
    leave_no_positions(server)
    for command in failure.before:
        server.control.execute_command(*command.split())
    watcher, other = actor("watcher"), actor("other")
    watcher.call("WATCH", "k")
    other.send(*failure.command.split())
    if "BLOCK" in failure.command and failure.reply is None:
        other.wait_blocked()
    else:
        assert matches(failure.reply, other.outcome())
    assert in_multi(watcher, "ECHO done") == ["done"]


def test_info_does_not_abort_a_watch(server, actor):
    server.control.execute_command(*TAKE.split())
    watcher = actor("watcher")
    watcher.call("WATCH", "k", "free")
    for key in ("k", "free"):
        server.control.execute_command("LOCK.INFO", key)
    assert in_multi(watcher, "ECHO done") == ["done"]


def test_grant_by_the_drain_aborts_a_watch(server):
    waiter = MUTATIONS["release, hand off"].arrange(server)
    watcher = server.raw_connection()
    # In one packet: the drain runs after both.
    watcher.sendall(b"DEL k\r\nWATCH k\r\n")
    assert waiter.reply() == 1
    watcher.sendall(b"MULTI\r\nPING\r\nEXEC\r\n")
    lines = watcher.makefile("rb")
    received = [lines.readline() for _ in range(5)]
    assert received == [b":1\r\n", b"+OK\r\n", b"+OK\r\n", b"+QUEUED\r\n", b"*-1\r\n"]


@each_mutation
def test_change_invalidates_a_tracked_key(server, actor, mutation):
    waiter = mutation.arrange(server)
    tracker = server.raw_connection()
    tracker.sendall(b"HELLO 3\r\nCLIENT TRACKING ON\r\nTYPE k\r\nECHO end\r\n")
    lines = tracker.makefile("rb")
    list(iter(lines.readline, b"end\r\n"))
    server.control.execute_command(*mutation.command.split())
    mutation.check_waiter(waiter)
    tracker.sendall(b"ECHO done\r\n")
    received = list(iter(lines.readline, b"done\r\n"))
    assert (b"invalidate\r\n" in received) == mutation.changes_key
