"""Large amounts of work are done in time slices, and commands of other clients run in between.

A time slice lasts less than a millisecond, so a thousand grants never fit into one on any machine. Commands in the same
packet show that not all of the work was one step; the end of each test shows that the rest follows, and in order.
"""

from harness import wait_for, wait_for_sync
from harness.schedule import as_map
from model.crowd import Crowd

LONG = 600_000
MANY = 2000


def crowd_of(server, command, count=MANY):
    """`#` in the command is replaced by the number of the client."""
    return Crowd(server, *(command.replace("#", str(number)) for number in range(count)))


def owners(info):
    return {as_map(holder)["owner"] for holder in as_map(info)["holders"]}


def test_readers_are_granted_in_time_slices_and_in_order(server, at_once):
    call = server.control.execute_command
    call("LOCK.RWWRITE", "k", "w", "PX", LONG)
    crowd = crowd_of(server, f"LOCK.RWREAD k o# PX {LONG} BLOCK 0")
    released, info = at_once("LOCK.RELEASE k w", "LOCK.INFO k COUNT 1")
    assert released == 0
    first_slice = owners(info)
    assert 0 < len(first_slice) < MANY, "all in one time slice"
    assert first_slice == {f"o{number}" for number in range(len(first_slice))}
    head = as_map(as_map(info)["waiters"][0])
    assert (as_map(info)["waiting"], head["owner"]) == (MANY - len(first_slice), f"o{len(first_slice)}")
    crowd.expect_waiting(0)
    assert set(crowd.replies()) == {b":1\r\n"}
    assert len(owners(call("LOCK.INFO", "k"))) == MANY


def test_request_between_two_time_slices_grants_no_other_waiters(server, at_once):
    """A reader that arrives meanwhile is granted because it fits; the drain grants the crowd."""
    server.control.execute_command("LOCK.RWWRITE", "k", "w", "PX", LONG)
    crowd = crowd_of(server, f"LOCK.RWREAD k o# PX {LONG} BLOCK 0")
    _, before, entered, after = at_once("LOCK.RELEASE k w", "LOCK.INFO k", "LOCK.RWREAD k late", "LOCK.INFO k")
    assert entered == 1
    assert owners(after) - owners(before) == {"late"}
    crowd.expect_waiting(0)


def test_many_readers_are_granted_when_a_lease_expires(server):
    server.control.execute_command("LOCK.RWWRITE", "k", "w", "PX", LONG)
    crowd = crowd_of(server, f"LOCK.RWREAD k o# PX {LONG} BLOCK 0")
    server.control.pexpire("k", 1)
    crowd.expect_waiting(0)
    assert set(crowd.replies()) == {b":1\r\n"}


def test_one_owner_on_many_connections_is_granted_in_time_slices(server, at_once):
    """All waits are re-entries after the first."""
    server.control.execute_command("LOCK.ACQUIRE", "k", "w", "PX", LONG)
    crowd = crowd_of(server, f"LOCK.ACQUIRE k o PX {LONG} BLOCK 0", 1000)
    released, held = at_once("LOCK.RELEASE k w", "HGET k o")
    assert (released, int(held) < 1000) == (0, True)
    crowd.expect_waiting(0)
    assert {int(answer[1:]) for answer in crowd.replies()} == set(range(1, 1001))
    assert server.control.hgetall("k") == {"o": "1000"}


def test_one_owner_with_multikey_waits_is_granted_in_time_slices(server, at_once):
    """One grant takes longer than a time slice, and there are fewer waits than steps between checks of the clock."""
    keys, many = " ".join(f"k{number}" for number in range(1024)), 12
    server.control.execute_command("LOCK.ACQUIRE", "k7", "w", "PX", LONG)
    crowd = crowd_of(server, f"LOCK.MACQUIRE 1024 {keys} o PX {LONG} BLOCK 0", many)
    released, held = at_once("LOCK.RELEASE k7 w", "HGET k0 o")
    assert (released, int(held)) == (0, 1)
    crowd.expect_waiting(0)
    assert set(crowd.replies()) == {b":1024\r\n"}
    assert {server.control.hget(f"k{number}", "o") for number in range(1024)} == {str(many)}


def test_one_owner_before_and_behind_another_owner_is_granted(server):
    """Rule 2: its other waits are re-entries at every position, also those that the first slice has not reached."""
    server.control.execute_command("LOCK.ACQUIRE", "k", "w", "PX", LONG)
    wait = f"LOCK.ACQUIRE k %s PX {LONG} BLOCK 0"
    crowd = Crowd(server, *[wait % "o"] * 100, wait % "stranger", *[wait % "o"] * 900)
    assert server.control.execute_command("LOCK.RELEASE", "k", "w") == 0
    crowd.expect_waiting(1)
    assert server.control.hgetall("k") == {"o": "1000"}


def test_grants_in_time_slices_reach_replicas_completely(make_server):
    server = make_server()
    replica = server.start_replica()
    server.control.execute_command("LOCK.RWWRITE", "k", "w", "PX", LONG)
    crowd = crowd_of(server, f"LOCK.RWREAD k o# PX {LONG} BLOCK 0")
    server.control.execute_command("LOCK.RELEASE", "k", "w")
    crowd.expect_waiting(0)
    wait_for_sync(server, replica)
    assert replica.dump() == server.dump()
    assert server.control.hlen("k") == MANY + 1


def test_grants_of_clients_that_die_at_once_are_all_released(server):
    server.control.execute_command("LOCK.RWWRITE", "k", "w", "PX", LONG)
    crowd = crowd_of(server, f"LOCK.RWREAD k o# PX {LONG} BLOCK 0")
    releaser = server.raw_connection()
    releaser.sendall(b"LOCK.RELEASE k w\r\n")
    crowd.die()
    crowd.expect_waiting(0)

    def lock_is_free():
        # Only a client whose reply was sent before the server noticed that it was dead holds the lock.
        server.control.execute_command("LOCK.FORCE", "k")
        return not server.dump()

    wait_for(lock_is_free, 30, "the lock to be free")


def test_many_locks_of_one_client_that_dies_at_once_are_all_released(server, actor, at_once):
    keys = [f"k{number}" for number in range(1000)]
    server.control.execute_command("LOCK.ACQUIRE", "k7", "w", "PX", LONG)
    dying = actor("dying")
    dying.send("LOCK.MACQUIRE", len(keys), *keys, "o", "PX", LONG, "BLOCK", 0)
    dying.wait_blocked()
    replies = at_once("MULTI", "LOCK.RELEASE k7 w", f"CLIENT KILL ID {dying.client_id}", "DBSIZE", "EXEC")[-1]
    assert replies == [0, 1, len(keys)]
    wait_for(lambda: server.control.dbsize() == 0, 30, "all locks to be free")


def test_flush_of_more_locks_than_fit_into_a_time_slice(server, at_once):
    count = 600
    pipeline = server.control.pipeline(transaction=False)
    for number in range(count):
        pipeline.execute_command("LOCK.ACQUIRE", f"k{number}", "w", "PX", LONG)
    pipeline.execute()
    crowd = crowd_of(server, f"LOCK.ACQUIRE k# o PX {LONG} BLOCK 0", count)
    server.all_searched(60)  # nothing else will make the drain run
    server.control.flushall()
    crowd.expect_waiting(0)
    assert set(crowd.replies()) == {b":1\r\n"}
    assert server.control.dbsize() == count


def test_free_lock_behind_more_due_locks_than_fit_into_a_time_slice(server, at_once):
    """All are due at once; only the last one can be granted."""
    pipeline = server.control.pipeline(transaction=False)
    for number in range(MANY):
        pipeline.execute_command("LOCK.ACQUIRE", f"k{number}", "w", "PX", LONG)
    pipeline.execute()
    crowd = crowd_of(server, f"LOCK.ACQUIRE k# o PX {LONG} BLOCK 0")
    server.all_searched(60)
    at_once("MULTI", *(f"PEXPIRE k{number} {LONG}" for number in range(MANY - 1)), f"DEL k{MANY - 1}", "EXEC")
    crowd.expect_waiting(MANY - 1)
    assert crowd.sockets[-1].recv(100) == b":1\r\n"


def test_mrelease_that_hands_off_more_than_fits_into_a_time_slice(server):
    keys = [f"k{number}" for number in range(400)]
    server.control.execute_command("LOCK.MACQUIRE", len(keys), *keys, "w", "PX", LONG)
    crowd = crowd_of(server, f"LOCK.ACQUIRE k# o PX {LONG} BLOCK 0", len(keys))
    assert server.control.execute_command("LOCK.MRELEASE", len(keys), *keys, "w") == len(keys)
    crowd.expect_waiting(0)
    assert all(server.control.hgetall(key) == {"o": "1"} for key in keys)


def test_fair_positions_are_written_again_in_time_slices(server, at_once):
    server.control.config_set("lock.fair-reserve", 0)  # no position is reserved after the crowd disconnects
    server.control.execute_command("LOCK.FAIR", "k", "w", "PX", LONG)
    crowd = crowd_of(server, f"LOCK.FAIR k o# PX {LONG} BLOCK 0")
    before = server.control.zrange("lock:queue:{k}", 0, -1, withscores=True)
    assert len(before) == MANY
    # In a transaction: otherwise newer servers flush in the background and run other commands meanwhile.
    replies = at_once("MULTI", "FLUSHALL", "LOCK.ACQUIRE k z", "ZCARD lock:queue:{k}", "EXEC")[-1]
    assert replies[1] == 1 and 0 < replies[2] < MANY, "all in one time slice"
    for side in "lock:queue:{k}", "lock:timeout:{k}":
        wait_for(lambda side=side: server.control.zcard(side) == MANY, 30, "all positions to be written")
    assert server.control.zrange("lock:queue:{k}", 0, -1, withscores=True) == before
    assert server.control.execute_command("LOCK.RELEASE", "k", "z") == 0
    assert crowd.sockets[0].recv(100) == b":1\r\n"


def test_release_hands_off_while_positions_are_still_being_written(server, at_once):
    server.control.config_set("lock.fair-reserve", 0)  # no position is reserved after the crowd disconnects
    server.control.execute_command("LOCK.FAIR", "k", "w", "PX", LONG)
    crowd = crowd_of(server, f"LOCK.FAIR k o# PX {LONG} BLOCK 0", 1000)
    at_once("MULTI", "FLUSHALL", "LOCK.ACQUIRE k z", "LOCK.RELEASE k z", "EXEC")
    assert crowd.sockets[0].recv(100) == b":1\r\n"
    wait_for(lambda: server.control.zcard("lock:queue:{k}") == 999, 30, "all other positions to be written")
    assert server.control.zscore("lock:queue:{k}", "o0") is None


def test_positions_are_dropped_in_slices_when_the_server_is_demoted(make_server):
    """From then on only the master keeps them."""
    server = make_server(lock_fair_reserve=LONG)
    pipeline = server.control.pipeline(transaction=False)
    for number in range(MANY):
        pipeline.execute_command("LOCK.ACQUIRE", f"k{number}", "w", "PX", LONG)
    pipeline.execute()
    crowd_of(server, f"LOCK.FAIR k# o PX {LONG} BLOCK 0")
    server.control.execute_command("REPLICAOF", "127.0.0.1", 1)
    wait_for(lambda: server.info("lock")["lock_contended_locks"] == 0, 30, "all positions to be forgotten")
