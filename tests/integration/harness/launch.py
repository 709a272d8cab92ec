"""What all servers of a test run have in common: program, module, options, Valgrind, and where their folders are."""

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
    """What the configuration file of each server contains, unless a test sets something else."""


@contextmanager
def launching(name, server=None, module=None, valgrind=False, others=(), io_threads=None, keeps=lambda: False):
    """The Launch of one test run. Its folder, build/tests/NAME-…, is removed at the end unless `keeps()` is true.

    `server`, `module`, `io_threads`: instead of $SERVER, $MODULE and $IO_THREADS, or of the defaults without these.
    `others`: further files that must exist, as pairs of a path and the command that makes it. If the server program,
    the module or one of these is missing, the run ends with status 2.
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
