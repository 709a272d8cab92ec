"""`make mutate`: breaks the module in many small ways, one at a time, and reports which of them no test notices.

The Makefile passes its settings in the environment. README.md in this folder describes how it works.
"""

import json
import os
import random
import shutil
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import build
import plan
import suite
import table
from build import WORK
from evaluate import Evaluator, groups
from report import write_report

RESULTS = WORK / "results"

# How many mutants share one run of the whole suite.
GROUP = 20


def setting(name, default=None):
    return os.environ.get(name) or default


class Results:
    """The result of each mutant, one file each, so that nothing is lost when the run is interrupted."""

    def __init__(self):
        RESULTS.mkdir(parents=True, exist_ok=True)
        self._tests = plan.state("tests/integration/**/*.py", "tests/unit/**/*.[ch]")
        self._known = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in RESULTS.glob("*.json")}

    def get(self, mutant):
        """The result of a mutant; that of a survivor only if the tests have not changed since."""
        result = self._known.get(mutant.id, {})
        return result if result.get("tests") == self._tests or result.get("verdict") == "noticed" else {}

    def of_source(self, source):
        return [result for result in list(self._known.values()) if result["source"] == source]

    def set(self, mutant, verdict, **more):
        result = {"source": mutant.source, "tests": self._tests, "verdict": verdict, **more}
        self._known[mutant.id] = result
        path = RESULTS / f"{mutant.id}.json"
        path.with_suffix(".new").write_text(json.dumps(result), encoding="utf-8")
        path.with_suffix(".new").rename(path)


def prepare():
    """Builds the original, and deletes the results for mutants of another original."""
    WORK.mkdir(parents=True, exist_ok=True)
    state, recorded = plan.state("module/**/*.[ch]", "redismodule.h") + " ".join(build.CC), WORK / "state"
    if not recorded.exists() or recorded.read_text(encoding="utf-8") != state:
        for folder in (RESULTS, plan.MUTANTS, build.BASE, build.UNIT):
            shutil.rmtree(folder, ignore_errors=True)
        plan.PLAN.unlink(missing_ok=True)
        build.build_base()
        recorded.write_text(state, encoding="utf-8")


def choose():
    """(seed, mutants): those of the run that was interrupted, or that is repeated, or newly chosen ones."""
    everything, count = setting("ALL") is not None, int(setting("COUNT", 0))
    base = None if everything else setting("BASE", "origin/main")
    seed = setting("SEED")
    known = plan.load({"base": base, "count": count, "seed": seed})
    if known and (seed or not is_done(known[1])):
        print(f"continuing with the mutants of SEED={known[0]}")
        return known
    seed = seed or str(random.randrange(10**6))
    print(f"choosing mutants: SEED={seed}", flush=True)
    mutants = plan.choose_mutants(base, count, seed)
    plan.save({"base": base, "count": count}, seed, mutants)
    return seed, mutants


def is_done(mutants):
    results = Results()
    return all(results.get(mutant).get("verdict") in ("noticed", "survived", "equivalent") for mutant in mutants)


class Run:
    def __init__(self, seed, mutants):
        self._seed, self._mutants, self._results = seed, mutants, Results()
        self._suite_lock = threading.Lock()
        self._evaluator = Evaluator(table.Table(), int(setting("TEST_JOBS", 4)), self._results)

    def _left(self, verdict=None):
        return [mutant for mutant in self._mutants if self._results.get(mutant).get("verdict") == verdict]

    def _record(self, mutant, verdict, **more):
        self._results.set(mutant, verdict, **more)
        self.report()
        done = len(self._mutants) - len(self._left()) - len(self._left("suite"))
        words = {"suite": "not noticed yet"}.get(verdict, verdict)
        by = f" by {more['by']}" if more.get("by") else ""
        print(f"[{done}/{len(self._mutants)}] {words}{by} ({more.get('seconds', 0):.0f} s): {mutant}", flush=True)

    def _evaluate_alone(self, mutant):
        start = time.monotonic()
        by, ran = None, []
        if build.has_unit_tests(mutant.source):
            by = self._evaluator.by_unit_tests(mutant)
        if by is None:
            by, ran = self._evaluator.by_likely_files(mutant)
        self._record(mutant, "noticed" if by else "suite", by=by, ran=ran, seconds=time.monotonic() - start)
        with self._suite_lock:
            if len(self._left("suite")) >= GROUP:
                self._evaluate_group(groups(self._left("suite"), GROUP)[0])

    def _evaluate_group(self, group):
        start = time.monotonic()
        found = self._evaluator.by_whole_suite(group)
        for mutant in group:
            seconds = (time.monotonic() - start) / len(group)
            if mutant.id in found:
                self._record(mutant, "noticed", by=found[mutant.id], seconds=seconds)
            else:
                self._record(mutant, "survived", seconds=seconds)

    def evaluate_all(self, jobs):
        for mutant in self._left():
            if mutant.equivalent:
                self._results.set(mutant, "equivalent")
        if any(build.has_unit_tests(mutant.source) for mutant in self._left()):
            build.build_unit_base()
        with ThreadPoolExecutor(jobs) as pool:
            try:
                for _ in pool.map(self._evaluate_alone, self._left()):
                    pass
            except BaseException:
                suite.stop()
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        for group in groups(self._left("suite"), GROUP):
            self._evaluate_group(group)

    def report(self):
        return write_report(self._seed, [(mutant, self._results.get(mutant)) for mutant in self._mutants])


def main():
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    prepare()
    if not table.TABLE.exists():
        table.measure(int(setting("TEST_JOBS", 4)))
    seed, mutants = choose()
    os.environ.setdefault("LOCK_SEED", str(seed))  # tests that are drawn at random are found again by their names
    run = Run(seed, mutants)
    try:
        run.evaluate_all(int(setting("MUTATE_JOBS", 1)))
    except KeyboardInterrupt:
        suite.stop()
        run.report()
        sys.exit("mutate: interrupted; the same command continues from here; results so far: build/mutation/report.txt")
    print(run.report(), end="")


if __name__ == "__main__":
    main()
