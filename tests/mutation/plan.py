"""Which mutants a run is about: what is mutated, the choice of mutants, and which of them are skipped."""

import hashlib
import json
import random
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import islice
from pathlib import Path

import build
from build import TOP, WORK
from mutants import Mutant, Source, choose, shares

PLAN = WORK / "plan.json"
MUTANTS = WORK / "mutants"


def folder_of(mutant):
    return MUTANTS / mutant.id


def object_of(mutant):
    return build.object_of(mutant.source, folder_of(mutant))


# What is mutated


def changed_lines(base):
    """Source -> numbers of the lines that differ from where the branch left `base`; None, for all, if not in git."""
    command = ["git", "diff", "--unified=0", "--no-color", "--merge-base", base, "--", "module/*.c"]
    diff = subprocess.run(command, cwd=TOP, capture_output=True, text=True)
    if diff.returncode:
        raise SystemExit(f"mutate: no difference to {base} (give BASE=, or ALL=1): {diff.stderr.strip()}")
    found, source = {}, None
    for line in diff.stdout.splitlines():
        if line.startswith("+++ "):
            source = line.removeprefix("+++ b/")
        hunk = re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line)
        if hunk and source in build.mutated_sources():
            first, count = int(hunk[1]), int(hunk[2] or 1)
            found.setdefault(source, set()).update(range(first, first + count))
    command = ["git", "ls-files", "--others", "--exclude-standard", "--", "module/*.c"]
    new = subprocess.run(command, cwd=TOP, capture_output=True, text=True, check=True).stdout.split()
    return {**found, **dict.fromkeys(new)}


def _candidates(base):
    """Source -> line -> mutants; `base` is None for all of module/."""
    wanted = dict.fromkeys(build.mutated_sources()) if base is None else changed_lines(base)
    found = {}
    for path, lines in wanted.items():
        by_line = Source(path, TOP).mutants()
        found[path] = {line: made for line, made in by_line.items() if made and (lines is None or line in lines)}
    return found


# The choice


class _Builder:
    """Compiles the mutants of one file, and decides which are used."""

    def __init__(self, path):
        self._source = Source(path, TOP)
        self._codes = {_code(build.object_of(path))}

    def __call__(self, mutant):
        """Whether it compiles, to code that differs from that of the original and of all mutants before it."""
        target = object_of(mutant)
        source = target.with_suffix(".c")
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(self._source.with_mutants([mutant]), encoding="utf-8")
        if build.compile_object(source, target):
            code = _code(target)
            if code not in self._codes:
                self._codes.add(code)
                return True
        target.unlink(missing_ok=True)
        source.unlink()
        source.parent.rmdir()
        return False


def _code(path):
    return hashlib.sha1(path.read_bytes()).digest()


def choose_mutants(base, count, seed):
    """The mutants of a run, in the order in which they are evaluated: shuffled, so that partial results are a sample."""
    rng = random.Random(seed)
    candidates = _candidates(base)
    sizes = {path: len(by_line) for path, by_line in sorted(candidates.items())}
    wanted = shares(rng, sizes, count) if count else dict.fromkeys(sizes)

    def of_file(path):
        chosen = choose(random.Random(f"{seed} {path}"), candidates[path], _Builder(path))
        return list(islice(chosen, wanted[path]))

    with ThreadPoolExecutor(2) as pool:
        found = [mutant for chosen in pool.map(of_file, sizes) for mutant in chosen]
    rng.shuffle(found)
    return found


def load(wanted):
    """(seed, mutants) of a plan that was made for the same settings, or None."""
    if not PLAN.exists():
        return None
    plan = json.loads(PLAN.read_text(encoding="utf-8"))
    seed = wanted.pop("seed")
    if any(plan.get(name) != value for name, value in wanted.items()) or seed not in (None, plan["seed"]):
        return None
    return plan["seed"], [Mutant(**made) for made in plan["mutants"]]


def save(wanted, seed, mutants):
    text = json.dumps({**wanted, "seed": seed, "mutants": [asdict(mutant) for mutant in mutants]}, indent=1)
    PLAN.write_text(text, encoding="utf-8")


def state(*patterns):
    """A hash of the files' contents."""
    digest = hashlib.sha1()
    for path in sorted(path for pattern in patterns for path in Path(TOP).glob(pattern)):
        digest.update(f"{path.relative_to(TOP)}\n".encode() + path.read_bytes())
    return digest.hexdigest()
