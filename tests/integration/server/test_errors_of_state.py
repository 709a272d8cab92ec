"""Where the server refuses writes, the commands fail as any write does, and change nothing.

The commands are those of the table in model/mutations.py.
"""

import pytest

from harness import code_of, wait_for, wait_for_sync
from model.lock_scene import HOUR
from model.mutations import MUTATIONS, TAKE, WAIT, WAIT_FAIRLY, WAIT_FOR_BOTH, each_mutation

TAKES = ("LOCK.ACQUIRE", "LOCK.FAIR", "LOCK.MACQUIRE")
ACQUISITIONS = {name: mutation for name, mutation in MUTATIONS.items() if mutation.command.startswith(TAKES)}
OTHERS = {name: mutation for name, mutation in MUTATIONS.items() if name not in ACQUISITIONS}
each_acquisition = pytest.mark.parametrize("mutation", ACQUISITIONS.values(), ids=ACQUISITIONS)
each_other = pytest.mark.parametrize("mutation", OTHERS.values(), ids=OTHERS)


def assert_refused(server, actor, words, code):
    """The server refuses the command with this code; nothing changes and no client begins to wait."""
    server.all_searched()  # the counters of searches change
    before, blocked, module = server.dump(), server.blocked_clients(), server.info("lock")
    assert code_of(actor.attempt(*words)) == code
    assert (server.dump(), server.blocked_clients(), server.info("lock")) == (before, blocked, module)


# OOM


@pytest.fixture
def run_out_of_memory(server):
    def run_out():
        server.control.config_set("maxmemory-policy", "noeviction")
        server.control.config_set("maxmemory", 1)

    return run_out


@each_acquisition
def test_acquisition_fails_without_memory(server, some_resp, actor, run_out_of_memory, mutation):
    mutation.arrange(server)
    client = actor()
    run_out_of_memory()
    assert_refused(server, client, mutation.command.split(), "OOM")


@pytest.mark.parametrize("wait", [WAIT, WAIT_FAIRLY, WAIT_FOR_BOTH])
def test_no_wait_begins_without_memory(server, actor, run_out_of_memory, wait):
    server.control.execute_command(*TAKE.split())
    client = actor()
    run_out_of_memory()
    assert_refused(server, client, wait.split(), "OOM")


@each_acquisition
def test_acquisition_in_multi_or_lua_fails_without_memory(server, actor, run_out_of_memory, mutation):
    mutation.arrange(server)
    client = actor()
    run_out_of_memory()
    client.call("MULTI")
    assert_refused(server, client, mutation.command.split(), "OOM")
    assert code_of(client.attempt("EXEC")) == "EXECABORT"
    script = ("EVAL", "return redis.call(unpack(ARGV))", 1, "k", *mutation.command.split())
    assert_refused(server, client, script, "OOM")


@each_other
def test_other_commands_work_without_memory(server, actor, run_out_of_memory, mutation):
    # The waiter was accepted before; the same step frees the memory that its grant takes.
    waiter = mutation.arrange(server)
    client = actor()
    run_out_of_memory()
    assert client.call(*mutation.command.split()) == mutation.reply
    mutation.check_waiter(waiter)


def test_queued_release_works_without_memory(server, actor, run_out_of_memory):
    mutation = MUTATIONS["release, hand off"]
    waiter = mutation.arrange(server)
    client = actor()
    # Queued before that: without memory the server queues no command at all.
    client.call("MULTI")
    client.call(*mutation.command.split())
    run_out_of_memory()
    assert client.call("EXEC") == [mutation.reply]
    mutation.check_waiter(waiter)


def test_info_works_without_memory(server, actor, run_out_of_memory):
    server.control.execute_command(*TAKE.split())
    client = actor()
    run_out_of_memory()
    assert client.call("LOCK.INFO", "k")


# READONLY


@pytest.fixture
def replica(server):
    """A replica on which `o` holds `k`. Its master is gone, which makes no difference for writes."""
    server.control.execute_command("LOCK.ACQUIRE", "k", "o", "PX", HOUR)
    server.control.execute_command("REPLICAOF", "127.0.0.1", 1)
    return server


@each_mutation
def test_replica_is_read_only(replica, some_resp, actor, mutation):
    assert_refused(replica, actor(), mutation.command.split(), "READONLY")


@each_mutation
def test_replica_is_read_only_in_multi_and_lua(replica, actor, mutation):
    client = actor()
    client.call("MULTI")
    assert_refused(replica, client, mutation.command.split(), "READONLY")
    assert code_of(client.attempt("EXEC")) == "EXECABORT"
    script = ("EVAL", "return redis.call(unpack(ARGV))", 1, "k", *mutation.command.split())
    assert_refused(replica, client, script, "READONLY")


@pytest.fixture
def writable_replica(replica):
    """A replica that accepts writes; the holds on it still belong to the master."""
    replica.control.config_set("replica-read-only", "no")
    return replica


@pytest.mark.parametrize("command", ["LOCK.ACQUIRE", "LOCK.FAIR", "LOCK.RWREAD", "LOCK.RWWRITE"])
def test_requests_do_not_block_on_a_replica(writable_replica, some_resp, actor, command):
    """A replica grants nothing outside a command."""
    client = actor()
    assert client.call("LOCK.ACQUIRE", "k", "p", "BLOCK", 0) is None
    assert client.call(command, "l", "o", "BLOCK", 0) == 1
    other = actor()
    assert other.call(command, "l", "p", "BLOCK", 0) == (1 if command == "LOCK.RWREAD" else None)
    assert writable_replica.blocked_clients() == 0
    assert client.call("LOCK.RELEASE", "l", "o") == 0


def test_no_session_on_a_replica(writable_replica, some_resp, actor):
    client = actor()
    for words in ("LOCK.ACQUIRE l o SESSION", "LOCK.RENEW k o SESSION", "LOCK.RWREAD l o BLOCK 0 SESSION"):
        assert_refused(writable_replica, client, words.split(), "ERR")


def test_requests_block_again_on_a_promoted_replica(writable_replica, actor):
    client = actor()
    client.call("REPLICAOF", "NO", "ONE")
    client.send("LOCK.ACQUIRE", "k", "p", "BLOCK", 0, "SESSION")
    client.wait_blocked()
    actor().call("DEL", "k")
    assert client.reply() == 1
    # Otherwise its grace would end during one of the next tests, which compare the number of sessions.
    assert client.call("LOCK.RELEASE", "k", "p") == 0
    assert writable_replica.info("lock")["lock_sessions"] == 0


# MISCONF


@pytest.fixture
def fail_to_save(server):
    def fail():
        # A folder has the name of the file.
        (server.folder / "dump.rdb").mkdir(exist_ok=True)
        server.control.config_set("save", "3600 1000000")
        server.control.bgsave()
        wait_for(lambda: server.info("persistence")["rdb_bgsave_in_progress"] == 0, what="the save to end")
        assert server.info("persistence")["rdb_last_bgsave_status"] == "err"

    return fail


@each_mutation
def test_no_write_after_a_failed_save(server, some_resp, actor, fail_to_save, mutation):
    waiter = mutation.arrange(server)
    client = actor()
    fail_to_save()
    assert_refused(server, client, mutation.command.split(), "MISCONF")
    server.control.config_set("stop-writes-on-bgsave-error", "no")
    assert client.call(*mutation.command.split()) == mutation.reply
    mutation.check_waiter(waiter)


# NOREPLICAS


@each_mutation
def test_no_write_without_replicas(server, some_resp, actor, mutation):
    waiter = mutation.arrange(server)
    client = actor()
    server.control.config_set("min-replicas-to-write", 1)
    assert_refused(server, client, mutation.command.split(), "NOREPLICAS")
    server.control.config_set("min-replicas-to-write", 0)
    assert client.call(*mutation.command.split()) == mutation.reply
    mutation.check_waiter(waiter)


def test_write_with_enough_replicas_succeeds(make_server):
    master = make_server(min_replicas_to_write=1)
    replica = master.start_replica()
    wait_for(lambda: master.info("replication").get("min_slaves_good_slaves") == 1, what="a good replica")
    assert master.control.execute_command(*TAKE.split()) == 1
    wait_for_sync(master, replica)
    assert replica.dump() == master.dump()


# ACL


@pytest.fixture
def user(server, some_resp):
    """user("~other:*", "+@all"): an actor of a user with only these permissions."""

    def login(*permissions):
        rules = ("reset", "on", ">secret", "+auth", "+client|id", *permissions)
        server.control.execute_command("ACL", "SETUSER", "u", *rules)
        actor = server.actor("user", some_resp)
        actor.call("AUTH", "u", "secret")
        return actor

    return login


ALL_PERMISSIONS = ("+@all", "~*", "&*")


def to_locks(mutation, right="~"):
    """The permission for each of the locks that the command names, and for no other key."""
    return [right + name for name in mutation.locks]


@each_mutation
def test_user_without_permission_for_the_key_is_refused(server, user, mutation):
    mutation.arrange(server)
    assert_refused(server, user("+@all", "~other:*"), mutation.command.split(), "NOPERM")


@each_mutation
def test_read_permission_for_a_key_is_not_enough(server, user, mutation):
    mutation.arrange(server)
    assert_refused(server, user("+@all", *to_locks(mutation, "%R~")), mutation.command.split(), "NOPERM")


@each_mutation
def test_write_permission_for_a_key_is_not_enough(server, user, mutation):
    # The replies show what is in the key.
    mutation.arrange(server)
    assert_refused(server, user("+@all", *to_locks(mutation, "%W~")), mutation.command.split(), "NOPERM")


@each_mutation
def test_user_without_permission_for_the_command_is_refused(server, user, mutation):
    mutation.arrange(server)
    command = mutation.command.split()[0].lower()
    assert_refused(server, user(*ALL_PERMISSIONS, f"-{command}"), mutation.command.split(), "NOPERM")


@each_mutation
def test_permissions_for_the_key_and_the_command_are_enough(server, user, mutation):
    waiter = mutation.arrange(server)
    command = mutation.command.split()[0].lower()
    assert user(*to_locks(mutation), f"+{command}").call(*mutation.command.split()) == mutation.reply
    mutation.check_waiter(waiter)


@each_mutation
def test_permission_for_some_of_the_locks_is_not_enough(server, user, mutation):
    mutation.arrange(server)
    for name in mutation.locks:
        rest = [f"~{other}" for other in mutation.locks if other != name]
        assert_refused(server, user("+@all", *rest), mutation.command.split(), "NOPERM")


def test_info_needs_read_permission(server, user):
    server.control.execute_command(*TAKE.split())
    assert user("%R~k", "+lock.info").call("LOCK.INFO", "k")
    assert_refused(server, user("%W~k", "+lock.info"), ["LOCK.INFO", "k"], "NOPERM")
    assert_refused(server, user("~other", "+lock.info"), ["LOCK.INFO", "k"], "NOPERM")
    assert_refused(server, user("~k", "+lock.acquire"), ["LOCK.INFO", "k"], "NOPERM")
