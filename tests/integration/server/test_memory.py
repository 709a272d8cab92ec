"""A command frees the memory that it allocates: no command makes the server grow when it is sent thousands of times.

This also finds memory that the module keeps referenced for ever, which Valgrind does not report.
"""

import pytest

from harness import fewer, wait_for

ROUNDS = 1000
# No allocation is smaller; less than this for each round is allocated by the server itself.
LEAST_LEAK = 16
TRIES = 4

ALONE = {
    "acquire": "ACQUIRE k o, ACQUIRE k o PX 60000, ACQUIRE k x, RENEW k o, INFO k, RELEASE k x, RELEASE k o, FORCE k",
    "fenced": "ACQUIRE k o FENCED, ACQUIRE k o FENCED, RENEW k o, INFO k, FORCE k, FORCE k",
    "fair": "FAIR k o, FAIR k o FENCED, FAIR k x, CANCEL k x, INFO k, FORCE k",
    "read": "RWREAD k o, RWREAD k o, RWREAD k x, RWWRITE k x, RENEW k o, INFO k, RELEASE k o, RELEASE k o, RELEASE k x",
    "write": "RWWRITE k o FENCED, RWWRITE k o, RWREAD k o, RELEASE k o, RELEASE k o READ, RELEASE k o, RELEASE k o",
    "multi-key": "MACQUIRE 2 k l o, MACQUIRE 3 k l k o, MACQUIRE 2 k l x, MRELEASE 2 k l x, FORCE k, FORCE l",
    "released": "MACQUIRE 2 k l o, MRELEASE 2 k l o, MRELEASE 2 k l o, ACQUIRE k o, MRELEASE 2 k l o, FORCE k",
    "modes": "MACQUIRE 2 k l o MODES READ WRITE, MACQUIRE 3 k l k o MODES READ WRITE WRITE, MRENEW 2 k l o, FORCE k, FORCE l",
    "guard": "ACQUIRE k o, GUARD k o SET {k}v 1, GUARD k o NONE, GUARD k x GET {k}v, GUARD k o LOCK.INFO k, FORCE k",
    "session": "ACQUIRE k o SESSION, RENEW k o SESSION, INFO k, RELEASE k o, RWREAD k o SESSION, INFO k, FORCE k",
    "bad input": "ACQUIRE k mode, ACQUIRE k o PX x, MACQUIRE 2 k l mode, MACQUIRE x k o, RENEW k o NO, INFO k COUNT x",
    "no lock": "ACQUIRE s o, RWREAD s o, FAIR s o, RELEASE s o, RENEW s o, FORCE s, INFO s, MACQUIRE 2 k s o",
}

# The commands of the holder; the command with which the waiter blocks; the commands that end the wait and clean up.
WAITS = {
    "plain": ("ACQUIRE k o", "ACQUIRE k w BLOCK 0", "RELEASE k o"),
    "fenced": ("ACQUIRE k o", "ACQUIRE k w FENCED BLOCK 0", "RELEASE k o"),
    "fair": ("ACQUIRE k o", "FAIR k w BLOCK 0", "RELEASE k o"),
    "read": ("RWWRITE k o", "RWREAD k w BLOCK 0", "RELEASE k o"),
    "write": ("RWREAD k o", "RWWRITE k w BLOCK 0", "RELEASE k o"),
    "upgrade": ("RWREAD k o, RWREAD k w", "RWWRITE k w BLOCK 0", "RELEASE k o"),
    "multi-key": ("MACQUIRE 2 k l o", "MACQUIRE 2 k l w BLOCK 0", "MRELEASE 2 k l o"),
    "modes": ("RWWRITE l o", "MACQUIRE 2 k l w MODES READ READ BLOCK 0", "RELEASE l o"),
    "session": ("ACQUIRE k o", "ACQUIRE k w SESSION BLOCK 0", "FORCE k"),
    "cancelled": ("ACQUIRE k o", "ACQUIRE k w BLOCK 0", "CANCEL k w"),
    "cancelled, fair": ("ACQUIRE k o", "FAIR k w BLOCK 0", "CANCEL k w"),
    "cancelled, multi-key": ("ACQUIRE l o", "MACQUIRE 2 k l w BLOCK 0", "CANCEL k w"),
    "timed out": ("ACQUIRE k o", "ACQUIRE k w BLOCK 1", "INFO k"),
    "key deleted": ("ACQUIRE k o", "ACQUIRE k w BLOCK 0", "ACQUIRE l o, FORCE l, FORCE k"),
}


def words_of(commands):
    return [f"LOCK.{command}".split() for command in commands.split(", ")]


@pytest.fixture
def leaves_no_memory(server):
    """leaves_no_memory(work, rounds): asserts that work of this many rounds, repeated, takes no more memory."""

    def used():
        return server.info("memory")["used_memory"]

    def check(work, rounds):
        work()
        grown = []
        # The server itself allocates and frees memory now and then, but not each time.
        for _ in range(TRIES):
            before = used()
            work()
            grown.append(used() - before)
            if grown[-1] < LEAST_LEAK * rounds:
                return
        raise AssertionError(f"bytes that {rounds} rounds left, for each try: {grown}")

    return check


def rounds():
    return fewer(ROUNDS)


@pytest.mark.parametrize("commands", ALONE.values(), ids=ALONE)
def test_commands_leak_no_memory(server, leaves_no_memory, commands):
    server.control.set("s", "x")

    def work():
        pipeline = server.control.pipeline(transaction=False)
        for _ in range(rounds()):
            for words in words_of(commands):
                pipeline.execute_command(*words)
        pipeline.execute(raise_on_error=False)

    leaves_no_memory(work, rounds())


@pytest.mark.parametrize("holds, waits, ends", WAITS.values(), ids=WAITS)
def test_waits_leak_no_memory(server, actor, leaves_no_memory, holds, waits, ends):
    server.control.config_set("lock.fair-reserve", 0)
    holder, waiter = actor(), server.raw_connection()
    # In one packet: when the first has received its reply, the second has begun to wait.
    begins = b"PING\r\nLOCK." + waits.encode() + b"\r\n"

    def run(commands):
        for words in words_of(commands):
            holder.attempt(*words)

    def work():
        for _ in range(rounds() // 2):
            run(holds)
            waiter.sendall(begins)
            assert replies.readline() == b"+PONG\r\n"
            run(ends)
            assert replies.readline()[:1] in b":$"
            run("FORCE k, FORCE l")

    with waiter.makefile("rb") as replies:
        leaves_no_memory(work, rounds() // 2)


@pytest.mark.parametrize("command", ["ACQUIRE", "RWREAD", "RWWRITE", "FAIR"])
def test_sessions_that_end_leak_no_memory(server, leaves_no_memory, command):
    server.control.config_set("lock.session-grace", 0)

    def work():
        client = server.client()
        pipeline = client.pipeline(transaction=False)
        for i in range(rounds()):
            pipeline.execute_command(f"LOCK.{command}", f"k{i}", "o", "SESSION")
        assert set(pipeline.execute()) == {1}
        client.close()
        wait_for(lambda: server.control.dbsize() == 0, 30, "the locks to be released")

    leaves_no_memory(work, rounds())
