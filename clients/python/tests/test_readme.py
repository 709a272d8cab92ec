"""The examples of README.md, each a program of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1]
EXAMPLES = re.findall(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(), re.S)
SAID = ["working\ntoken True\n", "working False\n", "a try\n"]


def test_all_are_here():
    assert len(EXAMPLES) == len(SAID)


@pytest.mark.parametrize("number", range(len(SAID)))
def test_example(server, number):
    program = EXAMPLES[number].replace("port=6379", f"port={server.port}")
    done = subprocess.run(
        [sys.executable, "-B", "-W", "error", "-c", program],
        env={**os.environ, "PYTHONPATH": str(PACKAGE)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.stdout, done.returncode) == (SAID[number], 0), done.stderr
    # The last token stays for a day.
    assert {key.split(":")[1] for key in server.control.keys()} <= {"token"}
