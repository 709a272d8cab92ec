"""--share K/N: one of N parts of a suite's tests, for a run that has no time for all. The name of a test decides which
part it is in, so that other tests do not change its part.

--covering: the part also gets all tests marked `newest`, and one test of each folder and of each command of which it
has none. Which one depends on K too.

--whole "FOLDER ...": the part also gets all tests of these folders.
"""

import inspect
import re
import zlib
from functools import cache
from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parents[3] / "docs" / "commands"
_COMMAND = re.compile(r"\b[A-Z]+\.[A-Z]+\b")


def add_share_option(group):
    group.addoption("--share", type=_part, help="only the K-th of N parts of the tests, K/N, K from 0 on")


def add_covering_option(group):
    group.addoption(
        "--covering",
        action="store_true",
        help="with --share: also all tests marked newest, and at least one test of each folder and each command",
    )


def add_whole_option(group):
    group.addoption("--whole", type=str.split, default=[], help="with --share: also all tests of these folders")


def _part(text):
    part, of = map(int, text.split("/"))
    if not 0 <= part < of:
        raise ValueError(text)
    return part, of


def keep_share(config, items):
    """Removes from `items` the tests that the options leave out."""
    share = config.getoption("--share")
    covering = config.getoption("--covering", False)
    whole = config.getoption("--whole", [])
    if (covering or whole) and not share:
        raise pytest.UsageError("--covering and --whole are for a run with --share")
    if share:
        folders = {item.nodeid: item.path.parent.name for item in items}
        kept = in_part(folders, *share) | in_folders(folders, whole)
        if covering:
            kept |= {item.nodeid for item in items if item.get_closest_marker("newest")}
            kept |= lacking({item.nodeid: _covers(item) for item in items}, kept, _all_commands(), share[0])
        leave_out(config, items, lambda item: item.nodeid not in kept)


def in_part(names, part, of):
    return {name for name in names if zlib.crc32(name.encode()) % of == part}


def in_folders(folders, wanted):
    """The names whose folder is one of `wanted`. `folders`: the folder of each name."""
    unknown = set(wanted).difference(folders.values())
    if unknown:
        raise pytest.UsageError(f"--whole: no test is in {' '.join(sorted(unknown))}")
    return {name for name, folder in folders.items() if folder in wanted}


def lacking(covers, kept, wanted, draw):
    """The names to add to `kept` so that together they cover all that any name covers, and all of `wanted`.

    `covers`: the set of things that each name covers. `draw`: a number; which of several names is taken depends on it.
    """
    covered = set().union(*(covers[name] for name in kept))
    added = set()
    for thing in sorted(set(wanted).union(*covers.values())):
        if thing not in covered:
            candidates = [name for name, things in covers.items() if thing in things]
            if not candidates:
                raise pytest.UsageError(f"--covering: no test has {thing}")
            name = min(candidates, key=lambda name: zlib.crc32(f"{draw} {name}".encode()))
            added.add(name)
            covered |= covers[name]
    return added


def _covers(item):
    """Its folder, and the commands that the source of the test names: presumably it sends them."""
    return {f"the folder {item.path.parent.name}"} | _commands_named(item.function)


@cache
def _commands_named(function):
    return _all_commands() & set(_COMMAND.findall(inspect.getsource(function)))


@cache
def _all_commands():
    """Each command has a page: docs/test_command_docs.py compares the pages with the server's list."""
    return frozenset(page.stem.upper() for page in PAGES.glob("*.md"))


def leave_out(config, items, unwanted):
    config.hook.pytest_deselected(items=[item for item in items if unwanted(item)])
    items[:] = [item for item in items if not unwanted(item)]
