"""--share K/N --covering --whole: the tests that such a run has."""

import pytest

from harness.share import in_folders, in_part, lacking

COVERS = {
    "plain/a": {"plain", "LOCK.ACQUIRE"},
    "plain/b": {"plain"},
    "plain/c": {"plain", "LOCK.RELEASE"},
    "watch/a": {"watch", "LOCK.WATCH", "LOCK.ACQUIRE"},
    "watch/b": {"watch", "LOCK.WATCH"},
}
COMMANDS = {"LOCK.ACQUIRE", "LOCK.RELEASE", "LOCK.WATCH"}
NAMES = [f"test {number}" for number in range(1000)]


def test_every_test_is_in_exactly_one_part():
    parts = [in_part(NAMES, part, 7) for part in range(7)]
    assert all(parts)
    assert sorted(name for part in parts for name in part) == sorted(NAMES)


@pytest.mark.parametrize("kept", [set(), {"plain/b"}, {"watch/a"}, set(COVERS)])
@pytest.mark.parametrize("draw", range(5))
def test_covering_adds_what_the_part_lacks_and_no_more(kept, draw):
    added = lacking(COVERS, kept, COMMANDS, draw)
    assert set().union(*(COVERS[name] for name in kept | added)) == {"plain", "watch", *COMMANDS}
    assert not added & kept
    assert len(added) <= len({"plain", "watch", *COMMANDS} - set().union(*(COVERS[name] for name in kept)))


def test_covering_depends_on_the_part():
    covers = {name: {"plain"} for name in NAMES}
    assert len({frozenset(lacking(covers, set(), set(), draw)) for draw in range(20)}) > 10


def test_covering_refuses_a_command_that_no_test_names():
    with pytest.raises(pytest.UsageError, match="LOCK.NEW"):
        lacking(COVERS, set(COVERS), {*COMMANDS, "LOCK.NEW"}, 0)


FOLDERS = {"plain/a": "plain", "plain/b": "plain", "watch/a": "watch", "fair/a": "fair"}


def test_whole_takes_all_of_its_folders_and_nothing_else():
    assert in_folders(FOLDERS, ["plain", "fair"]) == {"plain/a", "plain/b", "fair/a"}
    assert in_folders(FOLDERS, []) == set()


def test_whole_refuses_a_folder_without_tests():
    with pytest.raises(pytest.UsageError, match="plane"):
        in_folders(FOLDERS, ["plane", "fair"])
