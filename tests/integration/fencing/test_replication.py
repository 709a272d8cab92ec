"""Tokens are the same on a replica, also those of waiters, in MULTI and in Lua."""

from harness import wait_for_sync
from model.fenced_scene import TOKEN, begin_to_wait, each_command, take
from model.mutations import each_way


@each_command
def test_replica_has_the_same_tokens(server, actor, command):
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
def test_tokens_work_in_multi_and_lua(server, some_resp, actor, say):
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
