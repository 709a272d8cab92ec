"""Parts of the texts of errors and of the log, which are compared without case and underscores."""

import re

from harness import scaled_ms

# Some runners put it before the text.
_TYPE = r"(?:[\w.$\\]+: )?"


def _plain(text):
    """Names of options may have their unit: leaseMs."""
    return re.sub(r"\b(lease|wait|maxblock|connecttimeout)ms\b", r"\1", text.lower().replace("_", ""))


def _in_seconds(part):
    """`<500>` stands for 500 ms in seconds, grown by SLOWNESS."""
    return re.sub(r"<(\d+)>", lambda found: f"{scaled_ms(int(found[1])) / 1000:g}", part)


def missing(text, parts):
    """The parts that the text does not have; a part that is a list has alternatives, and one with `^` is the beginning."""
    text = _plain(text)

    def is_there(part):
        return re.match(_TYPE + re.escape(part[1:]), text) if part.startswith("^") else part in text

    def has(part):
        return any(is_there(_plain(_in_seconds(one))) for one in (part if isinstance(part, list) else [part]))

    return [part for part in parts if not has(part)]
