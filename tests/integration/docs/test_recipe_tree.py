"""The program of "Locks on a tree" in docs/recipes.md: many processes move the directories of one tree.

Each process is the program of the page, with other moves, and with checks that know nothing of its locks. While it
writes directories, no other process writes them, or anything above or below them; the paths lead to the same
directories; and no directory above changes. At the end every directory is in the tree exactly once.
"""

import json

import pytest

from harness import scaled, wait_for
from harness.examples import start_program
from harness.seeds import seed_of_run
from model.recipes_scene import kill, source_of

PROCESSES = 16
DIRECTORIES = 24
ROOT = "{tree}:root"
NAMES = "abcdefgh"

# The program from here on is replaced by MOVER.
EXAMPLE = f'\nserver.hset("{ROOT}"'
MOVER = '''
import json
import random

chance = random.Random(settings["seed"])
locked = writing


def note(problem):
    server.sadd("problems", problem)


def begin(directories, above):
    """Counts who writes and who relies on each directory."""
    for path in directories:
        if server.incr(f"writers:{path}") > 1 or int(server.get(f"readers:{path}") or 0) > 0:
            note("written by two")
    for path in above:
        server.incr(f"readers:{path}")
        if int(server.get(f"writers:{path}") or 0) > 0:
            note("written by two")
    server.zadd("most", {"inside": server.incr("inside")}, gt=True)


def end(directories, above):
    server.decr("inside")
    for path in above:
        server.decr(f"readers:{path}")
    for path in directories:
        server.decr(f"writers:{path}")


@contextmanager
def writing(*directories):
    with locked(*directories):
        directories = set(directories)
        above = {path for directory in directories for path in directory.parents} - directories
        begin(directories, above)
        try:
            yield from checked(directories, above)
        finally:
            end(directories, above)


def checked(directories, above):
    places = {path: find(path) for path in directories | above}
    entries = {path: server.hgetall(places[path]) for path in above}
    changes = {path: int(server.hget("changes", places[path]) or 0) for path in directories}
    yield
    if any(server.hgetall(places[path]) != entries[path] for path in above):
        note("changed from above")
    for path, count in changes.items():
        server.hset("changes", places[path], count + 1)
        server.incr("all changes")
    try:
        stable = all(find(path) == place for path, place in places.items())
    except FileNotFoundError:
        stable = False
    if not stable:
        note("moved from above")


def check_tree():
    """Everything is below the root, so nothing changes meanwhile."""
    with locked(Path("/")):
        found, left = [], ["{tree}:root"]
        while left and len(found) <= settings["directories"]:
            found.append(left.pop())
            left += server.hvals(found[-1])
        if sorted(found) != settings["keys"]:
            note("no tree")


def somewhere():
    """A path that was there a moment ago."""
    path, key = Path("/"), "{tree}:root"
    while chance.random() < 0.7 and (names := server.hkeys(key)):
        name = chance.choice(sorted(names))
        path, key = path / name, server.hget(key, name)
        if key is None:
            break
    return path


while server.execute_command("LATCH.WAIT", "start", "BLOCK", 10_000) is None:
    pass
moved, refused = 0, 0
while moved < settings["moves"]:
    try:
        move(somewhere(), somewhere() / chance.choice(settings["names"]))
        moved += 1
    except (FileNotFoundError, FileExistsError, ValueError):
        refused += 1
    if chance.random() < 0.1:
        check_tree()
print(json.dumps([moved, refused]))
'''


def keys_of_tree():
    return [f"{{tree}}:{number}" for number in range(1, DIRECTORIES)] + [ROOT]


def make_tree(server):
    """Each directory but the root has the one with half its number above it."""
    keys = keys_of_tree()
    for number in range(1, DIRECTORIES):
        parent = keys[number // 2 - 1] if number > 1 else ROOT
        server.control.hset(parent, NAMES[number % 2], keys[number - 1])


def found_in_tree(server):
    """The keys that can be reached from the root, each as often as it is an entry; all of a cycle once."""
    found, left = [], [ROOT]
    while left:
        found.append(left.pop())
        if found.count(found[-1]) == 1:
            left += server.control.hvals(found[-1])
    return found


@pytest.fixture
def start_all(server):
    """start_all(moves, changes): starts the processes, all at the same time."""
    programs = []

    def start_all(moves, changes=()):
        make_tree(server)
        server.control.execute_command("LATCH.SET", "start", 1)
        program, example, _ = source_of("Locks on a tree", "python", changes=changes).partition(EXAMPLE)
        assert example
        for number in range(PROCESSES):
            settings = {"seed": f"{seed_of_run()} {number}", "moves": moves, "names": NAMES}
            settings |= {"directories": DIRECTORIES, "keys": sorted(keys_of_tree())}
            programs.append(start_program(server, "python", f"settings = {settings}\n{program}{MOVER}"))
        wait_for(lambda: server.info("lock")["lock_latch_waiters"] == PROCESSES, scaled(60), "all processes to start")
        server.control.execute_command("LATCH.DOWN", "start")
        return programs

    yield start_all
    for program in programs:
        kill(program)


def results_of(programs):
    """[moves, refused moves] of each process."""
    outputs = [program.communicate(timeout=scaled(120)) for program in programs]
    assert [complaints for _, complaints in outputs if complaints] == []
    return [json.loads(said) for said, _ in outputs]


def most_inside(server):
    """How many processes had locks of the tree at the same time."""
    return server.control.zscore("most", "inside")


def changes_of(server):
    """How many changes of directories the processes have counted in each, and how many they have made."""
    recorded, made = server.control.pipeline().hvals("changes").get("all changes").execute()
    return sum(map(int, recorded)), int(made or 0)


def test_tree_stays_a_tree_while_many_processes_move_directories(server, start_all):
    moves = 20
    results = results_of(start_all(moves))
    assert [moved for moved, _ in results] == [moves] * PROCESSES
    assert server.control.smembers("problems") == set()
    assert sorted(found_in_tree(server)) == sorted(keys_of_tree())
    recorded, made = changes_of(server)
    assert recorded == made >= PROCESSES * moves
    assert most_inside(server) > 1, "no two processes worked in the tree at the same time"
    assert server.control.keys("{tree}/*") == [], "locks are left"


# Tests of this test: without some of the locks, the checks find all that the locks prevent. Such processes may leave
# all directories in cycles that no path leads to, and nothing would change any more: so the tree is repaired meanwhile.

READS = '{above: "READ" for directory in directories for above in directory.parents}'
WRITES = 'dict.fromkeys(directories, "WRITE")'
WITHOUT = {
    "locks above": ((READS, "{}"), {"moved from above", "changed from above", "no tree"}),
    "locks to write": ((WRITES, WRITES.replace("WRITE", "READ")), {"written by two", "no tree"}),
}


@pytest.mark.parametrize("what", WITHOUT)
def test_checks_notice_that_locks_are_missing(server, start_all, what):
    change, problems = WITHOUT[what]
    start_all(1_000_000, [change])

    def are_noticed():
        make_tree(server)
        return problems <= server.control.smembers("problems")

    wait_for(are_noticed, scaled(60), f"{problems} to be noticed")


def test_checks_notice_changes_that_are_lost_without_locks_to_write(server, start_all):
    start_all(1_000_000, [WITHOUT["locks to write"][0]])

    def are_lost():
        make_tree(server)
        recorded, made = changes_of(server)
        return made - recorded > 2 * PROCESSES  # as many may be under way

    wait_for(are_lost, scaled(60), "changes to be lost")
