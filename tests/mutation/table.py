"""Which test files run which lines of the module, and how long they take: measured once, with gcov."""

import difflib
import json
import shutil
import subprocess
from collections import Counter, defaultdict
from pathlib import Path

import build
import suite
from build import TOP, WORK
from record import file_in

FOLDER = WORK / "table"
TABLE = FOLDER / "table.json"

# The least time that a file takes when it is started alone.
START_SECONDS = 2.0


def measure(jobs):
    """Runs the whole suite, once, and writes the table."""
    print("measuring which test files run which lines, once: a run of the whole suite", flush=True)
    shutil.rmtree(FOLDER, ignore_errors=True)
    module = build.build_for_gcov(FOLDER / "objects")
    # Lines are counted in the module as it is now, even if it changes later.
    shutil.copytree(TOP / "module", FOLDER / "module")
    env = {"MUTATION_GCOV": str(FOLDER / "counts")}
    outcome = suite.run(module, suite.files(), jobs, 3600, 120, stop=False, log=FOLDER / "log", env=env)
    (FOLDER / "record.json").write_text(json.dumps(outcome.times), encoding="utf-8")
    write()


def write():
    """Makes the table from the files that the run has left."""
    times = json.loads((FOLDER / "record.json").read_text(encoding="utf-8"))
    lines = defaultdict(lambda: defaultdict(list))
    for folder in sorted((FOLDER / "counts").iterdir()):
        for source, numbers in _lines_run(folder).items():
            for number in numbers:
                lines[source][number].append(file_in(folder.name))
    seconds = Counter()
    for test, took in times.items():
        seconds[suite.file_of(test)] += took
    slowest = defaultdict(float)
    for test, took in times.items():
        slowest[suite.file_of(test)] = max(slowest[suite.file_of(test)], took)
    table = {"lines": lines, "seconds": seconds, "slowest": slowest}
    TABLE.write_text(json.dumps(table, indent=0), encoding="utf-8")


def _lines_run(folder):
    """The lines that have been run, by source, according to the counts of one test file."""
    counts = next(folder.rglob("*.gcda")).parent
    for notes in (FOLDER / "objects").glob("*.gcno"):
        shutil.copy(notes, counts)
    names = [path.name for path in sorted(counts.glob("*.gcda"))]
    text = subprocess.run(["gcov", "-j", "-t", *names], cwd=counts, capture_output=True, text=True, check=True).stdout
    found = defaultdict(set)
    for part in text.splitlines():
        for file in json.loads(part)["files"] if part.strip() else []:
            if file["file"].startswith("module/"):
                found[file["file"]] |= {line["line_number"] for line in file["lines"] if line["count"]}
    return found


class Table:
    """The measured table, applied to the module as it is now."""

    def __init__(self):
        table = json.loads(TABLE.read_text(encoding="utf-8"))
        self._lines = {
            source: {int(number): files for number, files in lines.items()} for source, lines in table["lines"].items()
        }
        self._seconds, self._slowest = table["seconds"], table["slowest"]
        self._mapped = {}

    def seconds(self, file):
        return START_SECONDS + self._seconds.get(file, 0.0)

    def limit(self, files, jobs):
        """How long a run of these files may take: several times the measured time, because machines are busy."""
        return 60 + 5 * sum(self.seconds(file) for file in files) / jobs

    def test_limit(self, files):
        """The same for one test."""
        return max(30.0, 5 * max((self._slowest.get(file, 10.0) for file in files), default=0))

    def _measured_line(self, source, line):
        """The line's number in the file when the table was measured; for a new line, the number of a line next to it."""
        if source not in self._mapped:
            old, new = FOLDER / source, TOP / source
            old_lines = old.read_text(encoding="utf-8").splitlines() if old.exists() else []
            new_lines = new.read_text(encoding="utf-8").splitlines()
            matcher = difflib.SequenceMatcher(None, new_lines, old_lines, autojunk=False)
            self._mapped[source] = matcher.get_matching_blocks()
        for block in self._mapped[source]:
            if line - 1 < block.a + block.size:
                return block.b + 1 + max(0, line - 1 - block.a)
        return line

    def files_for(self, source, line):
        """The test files that run the line, or lines near it if it has no code of its own, with a weight for each.

        The weight is high if a file runs lines around this one, and others of the source, that few other files run; and
        higher if the file is named after the source.
        """
        lines = self._lines.get(source, {})
        number = self._measured_line(source, line)
        # For the rest of a statement of several lines, or a declaration: the lines before and after it.
        near = {number} if number in lines else _neighbours(lines, number)
        found = {file for at in near for file in lines[at]} or {file for files in lines.values() for file in files}
        about = Counter()
        for at, files in lines.items():
            for file in found.intersection(files):
                about[file] += 1 / len(files) / (10 + abs(at - number))
        noun = Path(source).stem.removeprefix("cmd_")
        return {file: weight * (3 if noun in file else 1) for file, weight in about.items()}

    def unknown(self):
        """Test files that are not in the table: the newest, which may test just this line."""
        return [file for file in suite.files() if file not in self._seconds]


def _neighbours(lines, number):
    before = max((at for at in lines if at < number), default=None)
    after = min((at for at in lines if at > number), default=None)
    return {at for at in (before, after) if at is not None}
