"""The types, and the example of README.md as a program."""

import re
import subprocess
import sys

from conftest import HERE, PATHS
from harness import wait_for

PAGE = HERE.parent / "README.md"


def test_the_package_is_typed(tmp_path):
    assert (HERE.parent / "lock_so_celery" / "py.typed").exists()
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--cache-dir", str(tmp_path / "cache"),
         str(HERE.parent / "lock_so_celery")],
        env={"MYPYPATH": str(PATHS[2])}, cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_example(server, program, tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    (tmp_path / "shop.py").write_text(example.replace("127.0.0.1:6379", f"127.0.0.1:{server.port}"))
    worker = program("worker", "-l", "INFO", "-c", "3", app="shop")
    worker.wait_log(" ready.")
    beats = [program("beat", "-l", "INFO", "--pidfile=", "-S", "lock_so_celery.beat:LockedScheduler", app="shop") for _ in "12"]
    wait_for(lambda: any("beat: Active" in beat.log() for beat in beats), 30)
    wait_for(lambda: any("beat: Standing by" in beat.log() for beat in beats), 30)
    worker.wait_log("Task shop.report[")
    client = [sys.executable, "-c", "import shop; print([shop.charge.delay(7).id for _ in '12'])"]
    subprocess.run(client, cwd=tmp_path, env={"PYTHONPATH": ":".join(map(str, PATHS))}, check=True, timeout=60)
    worker.wait_log("charged account 7 with token ")
    wait_for(lambda: len(re.findall(r"Task shop.charge\[.*\] succeeded", worker.log())) == 2, 60)
    assert "Traceback" not in worker.log()
