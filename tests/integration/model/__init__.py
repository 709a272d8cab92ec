"""The rules of SPEC.md sections 1 to 3 once more, as plainly as Python can say them: no keys, no time.

`rules` says what fits what, `lock` is one lock with its holds and its queue, `cycles` who waits for whom.
generated/test_plain_random.py drives it side by side with a server. Modes and disciplines are there for all commands
to come.
"""

from .lock import WAITS, Lock, Refused
from .rules import EXCLUSIVE, ORDERED, PLAIN, READ, WRITE, Request

__all__ = ["EXCLUSIVE", "ORDERED", "PLAIN", "READ", "WAITS", "WRITE", "Lock", "Refused", "Request"]
