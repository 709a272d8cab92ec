"""Runs the examples of README.md and docs/clients/python.md, each as a program of its own."""

import asyncio
import os
import random
import re
import subprocess
import sys

import pytest
from harness.launch import TOP
from redis.asyncio import Redis

from churn import Churn
from seen import info

PACKAGE = TOP / "clients" / "python"


def examples(path, kind="python"):
    return re.findall(rf"```{kind}\n(.*?)```", path.read_text(), re.S)


README, PAGE = PACKAGE / "README.md", TOP / "docs" / "clients" / "python.md"
OUTPUT = {
    README: ["working\ntoken True\n", "working False\n", "paid 5 True\n", "a try\n", "True\norder 17 1\n", "2\nTrue\n"],
    PAGE: ["working\n", "working\n"],
}
NUMBERED = [(path, number) for path, outputs in OUTPUT.items() for number in range(len(outputs))]


@pytest.mark.parametrize("path", OUTPUT)
def test_the_number_of_examples(path):
    assert len(examples(path)) == len(OUTPUT[path])


@pytest.mark.parametrize("path, number", NUMBERED)
def test_example(servers, server, path, number):
    program = examples(path)[number].replace("port=6379", f"port={server.port}")
    program = re.sub(r"\b6379, 6380, 6381\b", lambda _: f"{server.port}, {servers.make().port}, {servers.make().port}", program)
    done = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", program],
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.returncode) == (OUTPUT[path][number], 0), done.stderr
    # The key of the last fencing token exists for a day.
    assert {key.split(":")[1] for key in server.control.keys()} <= {"token"}


def test_acquire_of_the_page_leaves_nothing(server):
    """It is cancelled again and again while it races with the grant."""
    acquire, chance = {}, random.Random(14)
    exec(*examples(PAGE, "python asyncio"), acquire)

    async def play():
        given_up = 0
        async with Redis(port=server.port, socket_timeout=None) as waits, Redis(port=server.port) as others:
            for number in range(200):
                words = ["k", f"o{number}", "PX", 600000, "BLOCK", 0]
                request = asyncio.ensure_future(acquire["acquire"](waits, others, *words))
                asyncio.get_running_loop().call_later(chance.uniform(0, 0.003), request.cancel)
                try:
                    await request
                except asyncio.CancelledError:
                    given_up += 1
                else:
                    await others.execute_command("LOCK.RELEASE", "k", f"o{number}")
        return given_up

    others = Churn(server, ["LOCK.ACQUIRE", "k", "churn", "PX", 600000], ["LOCK.RELEASE", "k", "churn"])
    assert asyncio.run(play()) > 0
    others.stop()
    assert info(server, "k") is None
