"""The module loads into the server, says so, and leaves again."""

from harness import wait_for
from model.server_scene import is_loaded

SEMAPHORES = 1_000


def test_is_listed(server):
    assert is_loaded(server.control)


def test_unloads_and_loads_again_while_nobody_waits(make_server):
    server = make_server()
    client = server.client()
    client.execute_command("LOCK.ACQUIRE", "k", "o")
    client.execute_command("LOCK.RELEASE", "k", "o")
    server.unload()
    assert not is_loaded(client)
    client.module_load(str(server.launch.module))
    assert is_loaded(client)


def test_is_not_unloaded_while_a_client_waits(make_server):
    server = make_server(lock_allow_unload="yes")
    a, b = server.actor("a"), server.actor("b")
    assert a.call("LOCK.ACQUIRE", "k", "oa") == 1
    b.send("LOCK.ACQUIRE", "k", "ob", "BLOCK", "0")
    b.wait_blocked()
    heard = server.actor().attempt("MODULE", "UNLOAD", "lock")
    assert "ERR" in str(heard)
    b.kill_socket()
    wait_for(lambda: server.blocked_clients() == 0, what="the waiter to leave")
    assert a.call("LOCK.RELEASE", "k", "oa") == 0


def test_nothing_that_it_remembers_of_semaphores_stays_when_it_leaves(make_server):
    server = make_server(enable_module_command="yes")
    client = server.client()

    def used_after_a_life():
        pipeline = client.pipeline(transaction=False)
        for number in range(SEMAPHORES):
            for owner in "abc":
                pipeline.execute_command("LOCK.SEMAPHORE", f"k{number}", owner, 3)
        assert pipeline.execute() == [1] * 3 * SEMAPHORES
        server.unload()
        client.execute_command("FLUSHALL", "SYNC")
        used = server.info("memory")["used_memory"]
        client.module_load(str(server.launch.module))
        return used

    first = used_after_a_life()  # makes what the server itself keeps
    later = [used_after_a_life() for _ in range(4)]
    # Three lives or more after the first; a sum takes some 150 bytes. The least, as buffers of clients come and go.
    assert min(later[2:]) - first < 3 * SEMAPHORES * 100
