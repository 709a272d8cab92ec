"""What every server of a test run has in common: which program, which module, under what; and where their folders go."""

import os
import shutil
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from .iothreads import io_threads_options, io_threads_wanted

TOP = Path(__file__).resolve().parents[3]
RUNS = TOP / "build" / "tests"
SUPPRESSIONS = TOP / "tests" / "valgrind.supp"


@dataclass(frozen=True)
class Launch:
    server: str
    """The server program's absolute path."""
    module: Path
    """The absolute path of lock.so."""
    root: Path
    """Where the servers' folders go."""
    valgrind: bool = False
    suppressions: Path | None = None
    options: dict = field(default_factory=dict)
    """What the configuration file of each server has, unless a test says otherwise."""


@contextmanager
def launching(name, server=None, module=None, valgrind=False, others=(), io_threads=None, keeps=lambda: False):
    """The Launch of one test run. Its folder, build/tests/NAME-…, goes with it unless `keeps()` says that it stays.

    `server`, `module`, `io_threads`: instead of $SERVER, $MODULE and $IO_THREADS, or else what is there. `others`: what
    has to be there besides, as pairs of a path and what puts it there. Without any of them the run ends with status 2.
    """
    wanted = server or os.environ.get("SERVER")
    candidates = [wanted] if wanted else ["redis-server", "valkey-server"]
    program = next(filter(None, map(shutil.which, candidates)), None)
    if program is None:
        pytest.exit(f"no server program: {' or '.join(candidates)}; tools/setup test installs one", 2)
    module = Path(module or os.environ.get("MODULE") or TOP / "lock.so").resolve()
    for path, how in ((module, "make"), *others):
        if not path.exists():
            pytest.exit(f"{path} does not exist: {how}", 2)
    RUNS.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(dir=RUNS, prefix=f"{name}-"))
    launch = Launch(os.path.abspath(program), module, root)
    options = io_threads_options(io_threads_wanted(io_threads), launch)
    yield replace(launch, valgrind=valgrind, suppressions=SUPPRESSIONS, options=options)
    if keeps():
        print(f"\nserver folders kept in {root}")
    else:
        shutil.rmtree(root)
