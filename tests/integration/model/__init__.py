"""The rules of docs/design.md, written again in simple Python: without keys and without time.

`rules` decides which requests are compatible with which holds, `lock` is one lock with its holds and its queue, and
`cycles` finds out who waits for whom. generated/test_plain_random.py compares it with a server, command by command. It
has modes and disciplines for further commands too.
"""

from .lock import WAITS, Lock, Refused
from .rules import EXCLUSIVE, ORDERED, PLAIN, READ, WRITE, Request

__all__ = ["EXCLUSIVE", "ORDERED", "PLAIN", "READ", "WAITS", "WRITE", "Lock", "Refused", "Request"]
