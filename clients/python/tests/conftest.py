"""A server with the module, for the tests that need one: that of the integration tests."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from harness import Launch, Servers

TOP = Path(__file__).resolve().parents[3]


@pytest.fixture
def server():
    program = shutil.which(os.environ.get("SERVER") or "redis-server")
    module = Path(os.environ.get("MODULE") or TOP / "lock.so").resolve()
    assert program and module.exists(), f"a server program and {module} are needed"
    (TOP / "build" / "tests").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=TOP / "build" / "tests", prefix="python-") as root:
        servers = Servers(Launch(os.path.abspath(program), module, Path(root)))
        yield servers.make()
        problems = servers.end()
        assert not problems, problems
