"""What every server of a test run has in common: which program, which module, under what."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Launch:
    server: str
    """The server program's absolute path."""
    module: Path
    """The absolute path of lock.so."""
    root: Path
    """Where the servers' folders go."""
    valgrind: bool = False
    suppressions: Path | None = None
