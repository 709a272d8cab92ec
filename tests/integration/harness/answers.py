"""Compares replies as a page shows them with real ones: the same lines, except for numbers that differ each time."""

import operator
import re
from difflib import ndiff

# Labels are fields of LOCK.INFO and LOCK.TOP, in RESP2 or RESP3.
# Long numbers are times, tickets, tokens and ids: unix ms or µs.
_LABELS = r"pttl|left|waited|client|session|usec|usec_per_wait|usec_longest|usec_per_hold"
_LABELLED = rf'"(?P<label>{_LABELS})"(?: =>|\n *\d+\)) \(integer\) (?P<number>\d+)'
_LOOSE = re.compile(rf"{_LABELLED}|(?P<long>\d{{13,}})")


class Answers:
    """Compares the replies of one page; docs/test_doc_examples.py states the rules."""

    def __init__(self):
        # What the shown numbers stand for: ids of clients, times waited, and long numbers.
        self._ids, self._times, self._long = {}, {}, {}

    def compare(self, command, shown, real):
        """Fails if the lines `real` do not match `shown`, the reply to `command` that the page shows."""
        shown_text, shown_numbers = _taken_apart(command, shown)
        real_text, real_numbers = _taken_apart(command, real)
        differ = "\n".join(["shown is -, real is +", *ndiff(shown, real)])
        assert shown_text == real_text, differ
        for (label, number), (_, real_number) in zip(shown_numbers, real_numbers, strict=True):
            assert self._may_be(label, number, real_number), f"{real_number} instead of {number}\n{differ}"

    def _may_be(self, label, shown, real):
        if label == "waited":
            return True
        if label in ("pttl", "left"):
            return shown / 1.5 < real < shown * 1.5
        if label and label.startswith("usec"):
            known, relation = self._times, _order
        else:
            known, relation = (self._ids, operator.eq) if label else (self._long, _order)
        may_be = all(relation(shown, other) == relation(real, real_other) for other, real_other in known.items())
        known.setdefault(shown, real)
        return may_be


def _order(a, b):
    return (a > b) - (a < b)


def _taken_apart(command, lines):
    """The text with placeholders instead of its loose numbers, and these numbers: [(label or None, number)]."""
    numbers = []

    def mark(found):
        number = found["number"] or found["long"]
        numbers.append((found["label"], int(number)))
        # A long number keeps its number of digits.
        return found[0].removesuffix(number) + ("#" if found["label"] else "#" * len(number))

    # The command's own name labels its whole reply: PTTL. In RESP3 redis-cli leaves blanks at the ends of lines.
    label = command.partition(" ")[0].lower()
    text = f'"{label}" => ' + "\n".join(line.rstrip() for line in lines)
    if label == "delay.list":
        # It has no fields, and no integers except the time left.
        text = text.replace("(integer)", '"left" => (integer)')
    return _LOOSE.sub(mark, text), numbers
