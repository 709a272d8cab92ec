"""The examples of README.md and docs/clients/python.md, each a program of its own."""

import asyncio
import os
import random
import re
import subprocess
import sys

import pytest
import redis.asyncio
from harness.launch import TOP

from churn import Churn
from seen import info

PACKAGE = TOP / "clients" / "python"


def examples(path, kind="python"):
    return re.findall(rf"```{kind}\n(.*?)```", path.read_text(), re.S)


README, PAGE = PACKAGE / "README.md", TOP / "docs" / "clients" / "python.md"
SAID = {
    README: ["working\ntoken True\n", "working False\n", "a try\n"],
    PAGE: ["working\n", "working\n", "None\nexclusive me 0\n"],
}
NUMBERED = [(path, number) for path, said in SAID.items() for number in range(len(said))]


@pytest.mark.parametrize("path", SAID)
def test_all_are_here(path):
    assert len(examples(path)) == len(SAID[path])


def run(program):
    return subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", program],
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("path, number", NUMBERED)
def test_example(server, path, number):
    done = run(examples(path)[number].replace("port=6379", f"port={server.port}"))
    assert (done.stdout, done.returncode) == (SAID[path][number], 0), done.stderr
    # The last token stays for a day.
    assert {key.split(":")[1] for key in server.control.keys()} <= {"token"}


def test_example_in_a_cluster(cluster):
    (program,) = examples(PAGE, "python cluster")
    done = run(program.replace("7000", str(cluster.servers[1].port)))
    assert (done.stdout, done.returncode) == ("2\n2\n", 0), done.stderr


def test_acquire_of_the_page_leaves_nothing(server):
    """Cancelled while it races the grant, again and again."""
    acquire, chance = {}, random.Random(14)
    exec(*examples(PAGE, "python asyncio"), acquire)

    async def play():
        given_up = 0
        async with redis.asyncio.Redis(port=server.port, socket_timeout=None) as client:
            for number in range(200):
                owner = f"o{number}"
                request = asyncio.ensure_future(acquire["acquire"](client, "k", owner, "PX", 600000, "BLOCK", 0))
                asyncio.get_running_loop().call_later(chance.uniform(0, 0.003), request.cancel)
                try:
                    await request
                except asyncio.CancelledError:
                    given_up += 1
                else:
                    await client.execute_command("LOCK.RELEASE", "k", owner)
        return given_up

    others = Churn(server, ["LOCK.ACQUIRE", "k", "churn", "PX", 600000], ["LOCK.RELEASE", "k", "churn"])
    assert asyncio.run(play()) > 0
    others.stop()
    assert info(server, "k") is None
