"""The runner of `make bench-field` as a package; its pure parts are tested here. No server."""

import importlib
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[3] / "bench" / "field" / "runner"
NAME = "field_runner"


def part(name):
    """A module of it; no compiled file is left next to it."""
    before, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        if NAME not in sys.modules:
            spec = spec_from_file_location(NAME, FOLDER / "__init__.py", submodule_search_locations=[str(FOLDER)])
            sys.modules[NAME] = module_from_spec(spec)
            spec.loader.exec_module(sys.modules[NAME])
        return importlib.import_module(f"{NAME}.{name}")
    finally:
        sys.dont_write_bytecode = before
