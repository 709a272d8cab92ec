"""Independent servers, with or without proxies, `lockctl run` on a majority of them, and the history checker."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from harness import Servers
from redlock_history import Judge
from redlock_ring import Ring
from redlock_run import Runs
from runs import PROGRAM, valgrind_words


@pytest.fixture
def make_ring(launch):
    """make_ring(5): five independent servers. `proxied`: clients connect to each through a proxy.

    `config` is the configuration of all servers; redlock_ring.py can make them fail.
    """
    servers, rings = Servers(launch), []

    def make(count, proxied=False, **config):
        rings.append(Ring(servers.make, count, proxied, config))
        return rings[-1]

    yield make
    for ring in rings:
        ring.end()
    problems = servers.end()
    if problems:
        pytest.fail("\n".join(problems), pytrace=False)


@pytest.fixture
def lock_run(request, launch, tmp_path):
    """lock_run(ring, "-l", "2"): `lockctl run` with these options, the servers of the ring, a key, and a command that
    works until the test ends it: redlock_run.py."""
    log = tmp_path / "valgrind.log"
    runs = Runs([*(valgrind_words(f"{log}.%p") if request.config.getoption("--valgrind") else []), PROGRAM], tmp_path)
    yield runs
    runs.end()
    text = "".join(path.read_text(errors="replace") for path in tmp_path.glob(f"{log.name}*"))
    if text:
        pytest.fail(f"Valgrind reports:\n{text[:3000]}", pytrace=False)


@pytest.fixture(scope="session")
def judge(launch):
    """judge(holds): the kinds of faults that the checker of the torture test finds in them: `holder`, `token`."""
    if not shutil.which("go"):
        pytest.skip("the checker of histories is a Go program: tools/setup torture installs Go")
    program = launch.root / "torture"
    subprocess.run(
        ["go", "build", "-buildvcs=false", "-o", program, "."],
        cwd=Path(__file__).resolve().parents[2] / "torture",
        env={**os.environ, "GOTOOLCHAIN": "local"},
        check=True,
    )
    return Judge(program, launch.root)
