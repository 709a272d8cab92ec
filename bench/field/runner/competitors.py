"""The competitors, with which client each is measured, and how the programs are built."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import redis

TOP = Path(__file__).resolve().parents[3]
HERE = TOP / "bench" / "field"
# Downloads and compiled programs; like the Python environment, they remain after `make clean`.
BUILT = TOP / "build" / "field"

TOOLS = {"java": ["java", "javac", "mvn"], "go": ["go"], "node": ["node", "npm"], "python": []}


@dataclass(frozen=True)
class Competitor:
    name: str
    label: str
    language: str
    ours: bool
    # Where an element is once it is due, and before that: a command as for redis-cli, with the name of the queue as {q}.
    ready: str
    pending: str
    # Whether a consumer can lack the object that moves elements; then one without it is measured too.
    plain_differs: bool = False

    def command(self, what, *arguments):
        return [*PROGRAMS[self.language](), self.name, what, *arguments]


DELAYED = [
    Competitor("jedis", "DELAY.PUSH, Jedis", "java", True, "LLEN {q}", "ZCARD delay:due:{{{q}}}"),
    Competitor(
        "redisson",
        "RDelayedQueue, Redisson",
        "java",
        False,
        "LLEN {q}",
        "ZCARD redisson_delay_queue_timeout:{{{q}}}",
        plain_differs=True,
    ),
    Competitor("ioredis", "DELAY.PUSH, ioredis", "node", True, "LLEN {q}", "ZCARD delay:due:{{{q}}}"),
    Competitor("bullmq", "BullMQ, ioredis", "node", False, "LLEN bull:{q}:wait", "ZCARD bull:{q}:delayed"),
    Competitor("redis-py", "DELAY.PUSH, redis-py", "python", True, "LLEN {q}", "ZCARD delay:due:{{{q}}}"),
]

PROGRAMS = {
    "java": lambda: ["java", "-cp", f"{BUILT}/java/classes{os.pathsep}{BUILT}/java/lib/*", "field.Delay"],
    "node": lambda: ["node", f"{BUILT}/node/delay.js"],
    "python": lambda: [sys.executable, f"{HERE}/python/delay.py"],
}


def missing_tool(language):
    return next((tool for tool in TOOLS[language] if not shutil.which(tool)), None)


def _run(command, **kwargs):
    BUILT.mkdir(parents=True, exist_ok=True)
    log = BUILT / f"{Path(command[0]).name}.log"
    with open(log, "w") as out:
        if subprocess.run(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, **kwargs).returncode:
            raise SystemExit(f"bench-field: {command[0]} failed: {log}")


def _build_java():
    pom = HERE / "java" / "pom.xml"
    _run(["mvn", "-B", "-f", pom, f"-Dmaven.repo.local={BUILT}/m2", f"-Dfield.build={BUILT}/java", "process-classes"])


def _build_node():
    # Node looks for packages in the folder of the program, and packages do not belong in the source tree.
    folder = BUILT / "node"
    folder.mkdir(parents=True, exist_ok=True)
    for file in (HERE / "node").iterdir():
        shutil.copy(file, folder)
    # The stamp is a copy of the package.json for which the packages were installed. No lock file: the optional native
    # parts differ between platforms, and the packages pin them.
    packages, stamp = folder / "package.json", folder / "stamp"
    if not stamp.exists() or stamp.read_bytes() != packages.read_bytes():
        _run(["npm", "install", "--no-package-lock", "--cache", BUILT / "npm", "--no-audit", "--no-fund"], cwd=folder)
        shutil.copy(packages, stamp)


def _build_go():
    # A Go that is newer than the machine's is not downloaded.
    settings = {"GOTOOLCHAIN": "local", "GOMODCACHE": str(BUILT / "gomod"), "GOCACHE": str(BUILT / "gocache")}
    command = ["go", "build", "-buildvcs=false", "-modcacherw", "-o", BUILT / "go" / "locks", "."]
    _run(command, cwd=HERE / "go", env={**os.environ, **settings})


def build(languages):
    if "go" in languages:
        _build_go()
    if "java" in languages:
        _build_java()
    if "node" in languages:
        _build_node()


def _tool_version(command):
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return (done.stdout or done.stderr).splitlines()[0]


def versions(languages):
    """The versions of the clients, as they are pinned, and of the programs that run them."""
    pom = (HERE / "java" / "pom.xml").read_text()
    packages = (HERE / "node" / "package.json").read_text()
    found = {"redis-py": redis.__version__, "python": sys.version.split()[0]}
    for artifact in ("redisson", "jedis", "curator-recipes"):
        found[artifact] = re.search(rf"<artifactId>{artifact}</artifactId>\s*<version>([^<]+)<", pom)[1]
    for package in ("bullmq", "ioredis", "redlock"):
        found[package] = re.search(rf'"{package}": "([^"]+)"', packages)[1]
    modules = (HERE / "go" / "go.mod").read_text()
    for module in ("redis/go-redis/v9", "go-redsync/redsync/v4", "etcd/client/v3", "jackc/pgx/v5"):
        found[module] = re.search(rf"{module} (\S+)", modules)[1]
    if "go" in languages:
        found["go"] = _tool_version(["go", "version"])
    if "java" in languages:
        found["java"] = _tool_version(["java", "-version"])
    if "node" in languages:
        found["node"] = _tool_version(["node", "--version"])
    return found
