"""The lines of a file, the mutants that universalmutator makes of them, and the choice among these."""

import contextlib
import hashlib
import io
import re
from dataclasses import dataclass
from pathlib import Path

from universalmutator import mutator

RULES = ["universal.rules", "c.rules", "c_like.rules"]
EQUIVALENT = re.compile(r"\bEquivalent:")

# A comment, a string or a character, whichever begins first.
_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')


@dataclass(frozen=True)
class Mutant:
    """One line of one file, written otherwise."""

    source: str
    """The file's path from the top level."""
    line: int
    """From 1 on."""
    original: str
    mutated: str
    """May be several lines."""
    equivalent: bool
    """The code says that nobody can see a difference here."""

    @property
    def id(self):
        text = f"{self.source}\n{self.line}\n{self.original}\n{self.mutated}"
        return hashlib.sha1(text.encode()).hexdigest()[:12]

    def __str__(self):
        old = f"    - {self.original.strip()}"
        new = "\n".join(f"    + {line.strip()}" for line in self.mutated.splitlines())
        return f"{self.source}:{self.line}\n{old}\n{new}"


class Source:
    """A file of module/, with its comments out of the way."""

    def __init__(self, path, top):
        self.path = path
        text = (Path(top) / path).read_text(encoding="utf-8")
        self.text_lines = text.splitlines(keepends=True)
        # Blank, not removed: universalmutator leaves out every line that has a comment, with the code beside it.
        bare = _TOKEN.sub(lambda token: _blank(token[0]) if token[0].startswith("/") else token[0], text)
        self.lines = [line.rstrip() + "\n" for line in bare.splitlines()]
        self._unseen = self._lines_unseen(text)

    def _lines_unseen(self, text):
        """With the word, a comment is about the line that it ends on or, if nothing is there, the next statement."""
        found = set()
        for token in _TOKEN.finditer(text):
            if token[0].startswith("/") and EQUIVALENT.search(token[0]):
                line = text.count("\n", 0, token.end())
                while line < len(self.lines) and not self.lines[line].strip():
                    line += 1
                found.add(line + 1)
                while line + 1 < len(self.lines) and not re.search(r"[;{}:]\s*$", self.lines[line]):
                    line += 1
                    found.add(line + 1)
        return found

    def code_lines(self):
        """The numbers of the lines on which there is something to mutate."""
        return [
            number
            for number, line in enumerate(self.lines, 1)
            if re.search(r"\w", line) and not re.match(r"\s*#\s*(include|if|endif|else|undef)", line)
        ]

    def mutants(self):
        """All that universalmutator makes of it, by line."""
        with contextlib.redirect_stdout(io.StringIO()):
            found = mutator.mutants_regexp(self.lines, ruleFiles=RULES, ignorePatterns=[])
        by_line = {number: [] for number in self.code_lines()}
        for number, mutated, *_ in found:
            original = self.lines[number - 1]
            if number in by_line and not changes_only_wording(original, mutated):
                made = Mutant(self.path, number, original, mutated, number in self._unseen)
                by_line[number].append(made)
        return by_line

    def with_mutants(self, mutants):
        """The file's text with these lines of it mutated."""
        lines = list(self.text_lines)
        for mutant in mutants:
            # A line may end in the middle of a comment, which has to begin still.
            opening = _opening(lines[mutant.line - 1], mutant.original)
            # Assertions name their line too.
            number = f"#line {mutant.line + 1}\n" if mutant.mutated.count("\n") > 1 and not opening else ""
            lines[mutant.line - 1] = mutant.mutated + number + opening
        return "".join(lines)


def _blank(comment):
    return re.sub(r"[^\n]", " ", comment)


def _opening(line, bare):
    """`/*`, if a comment begins on the line that ends on another one."""
    rest = line[len(bare.rstrip()) :]
    return "/*\n" if "/*" in rest and "*/" not in rest else ""


def changes_only_wording(original, mutated):
    """Whether the two differ in nothing but the text of strings, in a way that is a matter of wording.

    Emptying a name, an option, a format or a flag ("HSET", ":write", "sll") changes what the code does, and has to be
    noticed: such strings have no space in them. Strings with a space are sentences for people: log lines, error texts
    after their code, COMMAND DOCS. Changing a string in any other way than emptying it says no more than that does.
    """
    if _STRING.sub('""', original) != _STRING.sub('""', mutated):
        return False
    strings = zip(_STRING.findall(original), _STRING.findall(mutated), strict=True)
    changed = [(old, new) for old, new in strings if old != new]
    return any(" " in old or new != '""' for old, new in changed)


def draw(rng, by_line, build):
    """The mutants of one file, in the order in which they are taken: one of each line, then a second one, and so on.

    Which line comes first is a matter of chance, and which of a line's mutants; so a line with many operators counts
    no more than any other. `build(mutant)` says whether it is any good.
    """
    pools = []
    for _, mutants in sorted(by_line.items()):
        pools.append(rng.sample(mutants, len(mutants)))
    rng.shuffle(pools)
    while pools:
        for pool in pools:
            while pool:
                mutant = pool.pop()
                if build(mutant):
                    yield mutant
                    break
        pools = [pool for pool in pools if pool]


def shares(rng, sizes, count):
    """How many of `count` each file gets, by its size; what is left over by fractions goes by chance."""
    total = sum(sizes.values())
    if not total:
        return {}
    exact = {name: size * count / total for name, size in sizes.items()}
    given = {name: int(share) for name, share in exact.items()}
    left = count - sum(given.values())
    rest = {name: rng.random() ** (1 / max(exact[name] - given[name], 1e-9)) for name in exact}
    for name in sorted(rest, key=rest.get, reverse=True)[:left]:
        given[name] += 1
    return given
