"""The conformance suite's runner: runner.py sync|asyncio."""

import importlib
import logging
import sys
import warnings

if __name__ == "__main__":
    warnings.simplefilter("always", ResourceWarning)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    importlib.import_module(f"{sys.argv[1]}_runner").main()
