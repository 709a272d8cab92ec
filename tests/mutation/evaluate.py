"""Whether the tests notice a mutant: the unit tests, the likely test files, and the whole suite for the rest."""

from collections import Counter

import build
import suite
from build import BASE, TOP, WORK
from mutants import Source
from plan import folder_of, object_of

ORIGINAL = BASE / "lock.so"

# How many measured seconds the test files take together that are tried with each mutant separately. The first of them
# run without workers of xdist, which take longer to start than these files to run.
FIRST_SECONDS = 30
QUICK_SECONDS = 15

# After this many runs of the failing files, no mutant is held responsible for what still fails.
MOST_RUNS = 6

UNIT_LIMIT = 120


class Evaluator:
    def __init__(self, table, jobs, results):
        self._table, self._jobs, self._results = table, jobs, results
        self._original_passes = {}

    # The unit tests

    def _unit_fails(self, binary):
        return suite.run_command([str(binary)], UNIT_LIMIT) != 0

    def _unit_passes_with_original(self, name):
        """Tested once in a run: a unit test uses neither a server nor a clock."""
        if name not in self._original_passes:
            self._original_passes[name] = not self._unit_fails(build.link_unit(name, build.UNIT, {}))
        return self._original_passes[name]

    def by_unit_tests(self, mutant):
        """The unit test that notices it, or None."""
        folder = folder_of(mutant) / "unit"
        target = build.object_of(mutant.source, folder)
        source = object_of(mutant).with_suffix(".c")
        if not build.compile_object(source, target, build.UNIT_FLAGS):
            return None
        noticed = None
        for name in build.unit_tests(mutant.source):
            binary = build.link_unit(name, folder, {mutant.source: target})
            if self._unit_fails(binary) and self._unit_passes_with_original(name) and self._unit_fails(binary):
                noticed = f"unit/{name}"
                break
            binary.unlink()
        return noticed

    # The integration tests

    def _likely(self, mutant):
        """The test files that are tried first, in order, with a single mutant.

        New files first. Then by how closely they are related to the line, how often they noticed other mutants of the
        source, and how little time they take, until FIRST_SECONDS are reached.
        """
        hits, tries = Counter(), Counter()
        for other in self._results.of_source(mutant.source):
            tries.update(other.get("ran", ()))
            hits.update({suite.file_of(other["by"]): 1} if other.get("by") else ())
        about = self._table.files_for(mutant.source, mutant.line)

        def worth(file):
            return about[file] * (hits[file] + 1) / (tries[file] + 2) / self._table.seconds(file)

        chosen, seconds = self._table.unknown(), 0
        for file in sorted(set(about) & set(suite.files()), key=worth, reverse=True):
            if seconds == 0 or seconds + self._table.seconds(file) <= FIRST_SECONDS:
                chosen.append(file)
                seconds += self._table.seconds(file)
        return chosen

    def _run(self, module, files, jobs, **options):
        limit, test_limit = self._table.limit(files, jobs), self._table.test_limit(files)
        return suite.run(module, files, jobs, limit, test_limit, **options)

    def by_likely_files(self, mutant):
        """(the test that notices it or None, the files that were run)."""
        folder = folder_of(mutant)
        module = build.link_module(folder, {mutant.source: object_of(mutant)})
        quick, others, seconds = [], [], 0
        for file in self._likely(mutant):
            seconds += self._table.seconds(file)
            (others if quick and seconds > QUICK_SECONDS else quick).append(file)
        by, ran = self._by_files(module, quick, 1, folder / "log")
        if by is None and others:
            by, more = self._by_files(module, others, self._jobs, folder / "log")
            ran |= more
        return by, sorted(ran)

    def _by_files(self, module, files, jobs, log):
        ran, doubtful = set(), []
        while True:
            outcome = self._run(module, files, jobs, without=doubtful, log=log)
            ran |= outcome.ran
            for test in outcome.noticed:
                # The last test of a file may fail because of what earlier tests have left behind.
                if any(suite.is_noticed(what, module, ORIGINAL, log) for what in (test, suite.file_of(test))):
                    return test, ran
            doubtful += outcome.noticed
            # A test that fails sometimes must not keep the others from being run.
            if not outcome.noticed or len(doubtful) > 5:
                return None, ran

    # The whole suite

    def by_whole_suite(self, group):
        """Mutant id -> the test that notices it, for mutants that share a module.

        The final verdict costs a run of the whole suite, so several mutants share one, each on a different line. For a
        test that fails, the mutants with which it fails are searched for. The files that had failures are then run
        again without these mutants, until no failure is left that a mutant could be responsible for.
        """
        found, files, without = {}, suite.files(), []
        left = list(group)
        for _ in range(MOST_RUNS):
            if not left or not files:
                break
            module, log = _link_group(left), WORK / "group.log"
            outcome = self._run(module, files, self._jobs, without=without, stop=False, log=log)
            before = len(left)
            for test in _one_of_each_file(outcome.noticed):
                for mutant in _responsible(test, left):
                    found[mutant.id] = test
                    left.remove(mutant)
            if len(left) == before:
                without += outcome.noticed
            # Files that were not run before the time limit are run now.
            again = {suite.file_of(test) for test in outcome.noticed}
            files = [file for file in files if file in again or file not in outcome.ran]
        return found


def _responsible(test, group):
    """The mutants of a group with which the test fails."""
    if not group or not suite.is_noticed(test, _link_group(group), ORIGINAL, WORK / "group.log"):
        return []
    half = len(group) // 2
    return _responsible(test, group[:half]) + _responsible(test, group[half:]) if half else group


def _link_group(group):
    """The module with all these mutants."""
    folder = WORK / "group"
    folder.mkdir(exist_ok=True)
    objects = {}
    for source in sorted({mutant.source for mutant in group}):
        here = [mutant for mutant in group if mutant.source == source]
        objects[source] = object_of(here[0]) if len(here) == 1 else _compile_together(here, folder)
    return build.link_module(folder, objects)


def _compile_together(mutants, folder):
    source = mutants[0].source
    target = build.object_of(source, folder)
    text = Source(source, TOP).with_mutants(mutants)
    target.with_suffix(".c").write_text(text, encoding="utf-8")
    if not build.compile_object(target.with_suffix(".c"), target):
        raise RuntimeError(f"mutants of {source} do not compile together")
    return target


def _one_of_each_file(tests):
    return list({suite.file_of(test): test for test in reversed(tests)}.values())


def groups(mutants, size):
    """Mutants that can share a module: no two are so close that one might cancel the other, or depend on it."""
    made = []
    for mutant in mutants:
        for group in made:
            if len(group) < size and not any(_are_near(mutant, other) for other in group):
                group.append(mutant)
                break
        else:
            made.append([mutant])
    return made


def _are_near(one, other):
    return one.source == other.source and abs(one.line - other.line) < 40
