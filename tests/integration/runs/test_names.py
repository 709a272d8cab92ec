"""A test's name describes the behaviour in at most 70 characters: a failed run prints it."""

import re
from itertools import chain
from pathlib import Path

TOP = Path(__file__).resolve().parents[3]
FOLDERS = TOP / "tests", TOP / "clients" / "conformance", TOP / "clients" / "python"


def test_names_have_at_most_70_characters():
    files = chain.from_iterable(folder.rglob("test_*.py") for folder in FOLDERS)
    names = [name for file in files for name in re.findall(r"^ *(?:async )?def (test_\w+)", file.read_text(), re.M)]
    assert len(names) > 1000
    assert [name for name in names if len(name) > 70] == []
