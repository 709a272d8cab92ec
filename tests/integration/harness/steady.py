"""`python -m harness.steady COMMAND …`: runs tests that do not use pytest, and runs them again if they failed and the
machine stalled (stall.py) for longer than half of LIMIT_S, their shortest time limit. Exits with the status of the last
run."""

import subprocess
import sys
import time

from .stall import TRIES, Watch

LIMIT_S = 1.0


def run(command):
    watch = Watch()
    for tries_left in reversed(range(TRIES)):
        began = time.monotonic()
        status = subprocess.run(command).returncode
        if status == 0 or not tries_left or watch.longest_since(began) < LIMIT_S / 2:
            return status
        # .ci/run counts these lines as it counts those of pytest.
        print(f"RERUN {' '.join(command)}: the machine stalled", flush=True)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1:]))
