"""The module loads into the server, is listed, and can be unloaded."""

from pathlib import Path

from harness import wait_for
from model.server_scene import is_loaded

VERSION = (Path(__file__).resolve().parents[3] / "VERSION").read_text().strip()
SEMAPHORES = 1_000


def test_loaded_module_is_listed_with_its_version(server):
    major, minor, patch = map(int, VERSION.split("."))
    listed = {module["name"]: module["ver"] for module in server.control.module_list()}
    assert listed["lock"] == major * 10_000 + minor * 100 + patch


def test_module_unloads_and_loads_again_without_waiters(make_server):
    server = make_server()
    client = server.client()
    client.execute_command("LOCK.ACQUIRE", "k", "o")
    client.execute_command("LOCK.RELEASE", "k", "o")
    server.unload()
    assert not is_loaded(client)
    client.module_load(str(server.launch.module))
    assert is_loaded(client)


def test_module_is_not_unloaded_while_a_client_waits(make_server):
    server = make_server(lock_allow_unload="yes")
    a, b = server.actor("a"), server.actor("b")
    assert a.call("LOCK.ACQUIRE", "k", "oa") == 1
    b.send("LOCK.ACQUIRE", "k", "ob", "BLOCK", "0")
    b.wait_blocked()
    reply = server.actor().attempt("MODULE", "UNLOAD", "lock")
    assert "ERR" in str(reply)
    b.kill_socket()
    wait_for(lambda: server.blocked_clients() == 0, what="the waiter to leave")
    assert a.call("LOCK.RELEASE", "k", "oa") == 0


def test_unload_frees_the_remembered_sums_of_semaphores(make_server):
    server = make_server(enable_module_command="yes")
    client = server.client()

    def used_after_a_load_and_unload():
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

    first = used_after_a_load_and_unload()  # the server itself allocates what it keeps
    later = [used_after_a_load_and_unload() for _ in range(4)]
    # After three more loads at least; a sum takes about 150 bytes. The minimum, because client buffers vary.
    assert min(later[2:]) - first < 3 * SEMAPHORES * 100
