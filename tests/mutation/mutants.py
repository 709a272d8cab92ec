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

# A comment, a string or a character constant, whichever begins first.
_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL)
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')


@dataclass(frozen=True)
class Mutant:
    """A change of one line of one file."""

    source: str
    """The file's path from the top level."""
    line: int
    """From 1 on."""
    original: str
    mutated: str
    """May be several lines."""
    equivalent: bool
    """A comment in the code states that no difference can be observed here."""

    @property
    def id(self):
        text = f"{self.source}\n{self.line}\n{self.original}\n{self.mutated}"
        return hashlib.sha1(text.encode()).hexdigest()[:12]

    def __str__(self):
        old = f"    - {self.original.strip()}"
        new = "\n".join(f"    + {line.strip()}" for line in self.mutated.splitlines())
        return f"{self.source}:{self.line}\n{old}\n{new}"


class Source:
    """A file of module/, with its comments blanked out."""

    def __init__(self, path, top):
        self.path = path
        text = (Path(top) / path).read_text(encoding="utf-8")
        self.text_lines = text.splitlines(keepends=True)
        # Blank, not removed: universalmutator skips every line with a comment, including the code on that line.
        bare = _TOKEN.sub(lambda token: _blank(token[0]) if token[0].startswith("/") else token[0], text)
        self.lines = [line.rstrip() + "\n" for line in bare.splitlines()]
        self._equivalent = self._equivalent_lines(text)

    def _equivalent_lines(self, text):
        """A comment with the word marks the line on which it ends or, if that has no code, the next statement."""
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
                made = Mutant(self.path, number, original, mutated, number in self._equivalent)
                by_line[number].append(made)
        return by_line

    def with_mutants(self, mutants):
        """The file's text with these lines of it mutated."""
        lines = list(self.text_lines)
        for mutant in mutants:
            # If a comment begins on the line and ends on another one, its beginning has to be kept.
            opening = _opening(lines[mutant.line - 1], mutant.original)
            # Assertions contain their line number.
            number = f"#line {mutant.line + 1}\n" if mutant.mutated.count("\n") > 1 and not opening else ""
            lines[mutant.line - 1] = mutant.mutated + number + opening
        return "".join(lines)


def _blank(comment):
    return re.sub(r"[^\n]", " ", comment)


def _opening(line, bare):
    """`/*`, if a comment begins on this line and ends on another one."""
    rest = line[len(bare.rstrip()) :]
    return "/*\n" if "/*" in rest and "*/" not in rest else ""


def changes_only_wording(original, mutated):
    """Whether the two differ only in the text of strings, in a way that only changes the wording.

    Emptying a name, an option, a format or a flag ("HSET", ":write", "sll") changes what the code does, and has to be
    noticed. Such strings contain no space. Strings with a space are sentences for people: log lines, error texts after
    their code, COMMAND DOCS. A change of a string other than emptying it shows nothing that emptying does not show.
    """
    if _STRING.sub('""', original) != _STRING.sub('""', mutated):
        return False
    strings = zip(_STRING.findall(original), _STRING.findall(mutated), strict=True)
    changed = [(old, new) for old, new in strings if old != new]
    return any(" " in old or new != '""' for old, new in changed)


def choose(rng, by_line, build):
    """The mutants of one file, in the order in which they are used: one of each line, then a second one, and so on.

    The order of the lines, and of the mutants of a line, is random. So a line with many operators has no more weight
    than any other. `build(mutant)` returns whether a mutant can be used.
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
    """How many of `count` each file gets, by its size; the rest, from rounding, is distributed at random."""
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
