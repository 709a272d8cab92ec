"""Independent servers, each perhaps behind a proxy, `lockctl run` on a majority of them, and the judge of a history."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[2]
# Also when this folder is run by itself.
for folder in (HERE, TOP / "tests" / "integration"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))

from harness import Launch, Servers  # noqa: E402
from harness.standstill import TRIES, Excuse  # noqa: E402
from harness.waiting import set_scale  # noqa: E402
from redlock_history import Judge  # noqa: E402
from redlock_ring import Ring  # noqa: E402
from redlock_run import Runs  # noqa: E402

RUNS = TOP / "build" / "tests"


_EXCUSE = pytest.StashKey()


def pytest_collection_modifyitems(config, items):
    """A failure on a machine that stood still counts as none: harness/standstill.py."""
    excuse = config.stash[_EXCUSE] = Excuse()
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.flaky(reruns=TRIES - 1, condition=excuse))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    item.config.stash[_EXCUSE].begin()


@pytest.fixture(scope="session")
def redlock_launch(request):
    """Which server program and which module: $SERVER and $MODULE, or what is there."""
    if request.config.getoption("slowness", None) is None:
        set_scale(float(os.environ.get("SLOWNESS", 1)))
    wanted = request.config.getoption("server", None) or os.environ.get("SERVER")
    program = next(filter(None, map(shutil.which, [wanted] if wanted else ["redis-server", "valkey-server"])), None)
    if program is None:
        pytest.exit("no server program; tools/setup test installs one", 2)
    module = Path(request.config.getoption("module", None) or os.environ.get("MODULE") or TOP / "lock.so").resolve()
    if not module.exists():
        pytest.exit(f"{module} does not exist: build it with make", 2)
    RUNS.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(dir=RUNS, prefix="redlock-"))
    yield Launch(os.path.abspath(program), module, root)
    shutil.rmtree(root)


@pytest.fixture
def make_ring(redlock_launch):
    """make_ring(5): five servers that know nothing of each other. `proxied`: each is reached by a proxy.

    `config` is that of all of them; redlock_ring.py has what can be done to them.
    """
    servers, rings = Servers(redlock_launch), []

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
def lock_run(request, redlock_launch, tmp_path):
    """lock_run(ring, "-l", "2"): `lockctl run` with these options, the servers of the ring, a key and a command that
    works until it is told to finish: redlock_run.py."""
    program = Path(os.environ.get("LOCKCTL") or TOP / "build" / "lockctl" / "lockctl").resolve()
    if not program.exists():
        pytest.exit(f"{program} does not exist: build it with make lockctl", 2)
    log = tmp_path / "valgrind.log"
    runs = Runs([*(valgrind(log) if request.config.getoption("valgrind", False) else []), program], tmp_path)
    yield runs
    runs.end()
    text = "".join(path.read_text(errors="replace") for path in tmp_path.glob(f"{log.name}*"))
    if text:
        pytest.fail(f"Valgrind says:\n{text[:3000]}", pytrace=False)


def valgrind(log):
    """What starts each lockctl, and no worker."""
    return ["valgrind", "-q", "--leak-check=full", "--child-silent-after-fork=yes", f"--log-file={log}.%p"]


@pytest.fixture(scope="session")
def judge(redlock_launch):
    """judge(holds): the words of the faults that the torture's checker finds in them: `holder`, `token`."""
    if not shutil.which("go"):
        pytest.skip("the checker of histories is a Go program: tools/setup torture installs Go")
    program = redlock_launch.root / "torture"
    subprocess.run(
        ["go", "build", "-buildvcs=false", "-o", program, "."],
        cwd=TOP / "tests" / "torture",
        env={**os.environ, "GOTOOLCHAIN": "local"},
        check=True,
    )
    return Judge(program, redlock_launch.root)
