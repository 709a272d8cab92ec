"""Independent servers, each perhaps behind a proxy, `lockctl run` on a majority of them, and the judge of a history."""

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
    """make_ring(5): five servers that know nothing of each other. `proxied`: each is reached by a proxy.

    `config` is that of all of them; redlock_ring.py has what can be done to them.
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
    """lock_run(ring, "-l", "2"): `lockctl run` with these options, the servers of the ring, a key and a command that
    works until it is told to finish: redlock_run.py."""
    log = tmp_path / "valgrind.log"
    runs = Runs([*(valgrind_words(f"{log}.%p") if request.config.getoption("--valgrind") else []), PROGRAM], tmp_path)
    yield runs
    runs.end()
    text = "".join(path.read_text(errors="replace") for path in tmp_path.glob(f"{log.name}*"))
    if text:
        pytest.fail(f"Valgrind says:\n{text[:3000]}", pytrace=False)


@pytest.fixture(scope="session")
def judge(launch):
    """judge(holds): the words of the faults that the torture's checker finds in them: `holder`, `token`."""
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
