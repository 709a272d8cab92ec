"""Servers other than Redis: etcd, PostgreSQL, ZooKeeper. With default settings except for addresses; comments mark every
other difference."""

import os
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections import Counter
from pathlib import Path

from .competitors import BUILT
from .debian import depends_on, unpacked
from .processes import cpu_seconds, memory_bytes, tcp_bytes
from .server import HOST, START_S, free_port

# A connection for each of a thousand waiters; the default is 100.
POSTGRES_CONNECTIONS = 1100


class OtherServer:
    """Started by the constructor, in a folder of its own; killed at the end."""

    def __init__(self, folder):
        self.folder = Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.port = free_port()
        self._log = open(self.folder / "log", "w")
        self._process = self._start()
        try:
            self._await_start()
        except BaseException:
            self.__exit__()
            raise

    def _await_start(self):
        give_up = time.monotonic() + START_S
        while not self._is_up():
            if self._process.poll() is not None or time.monotonic() > give_up:
                raise SystemExit(f"bench-field: the server does not start: {self.folder / 'log'}")
            time.sleep(0.05)

    def _popen(self, command, **kwargs):
        return subprocess.Popen(
            [str(word) for word in command],
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            **kwargs,
        )

    def _calls(self):
        """How often each command was received, or None if this is not known."""
        return None

    def usage(self, opening=False):
        """Everything that it has used so far; what is not known is None."""
        return {"calls": self._calls(), "bytes": tcp_bytes(self.port), "cpu_s": cpu_seconds(self._process.pid)}

    def memory(self):
        return {"process": memory_bytes(self._process.pid), "counted": None}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        self._log.close()


class Etcd(OtherServer):
    @staticmethod
    def program():
        folder = None if shutil.which("etcd") else unpacked("etcd", ["etcd-server"])
        return shutil.which("etcd") or (folder and str(folder / "usr/bin/etcd"))

    @classmethod
    def version(cls):
        done = subprocess.run([cls.program(), "--version"], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()[0]

    def _start(self):
        clients, peers = f"http://{HOST}:{self.port}", f"http://{HOST}:{free_port()}"
        command = [self.program(), "--data-dir", self.folder / "data", "--log-level", "error"]
        command += ["--listen-client-urls", clients, "--advertise-client-urls", clients]
        command += ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]
        return self._popen([*command, "--initial-cluster", f"default={peers}"])

    def _get(self, path):
        with urllib.request.urlopen(f"http://{HOST}:{self.port}/{path}", timeout=5) as answer:
            return answer.read().decode()

    def _is_up(self):
        try:
            return '"true"' in self._get("health")
        except (urllib.error.URLError, OSError):
            return False

    def _calls(self):
        """The number of messages that clients have sent, by method, including those in streams."""
        calls = Counter()
        row = r'^grpc_server_msg_received_total\{.*grpc_method="(\w+)".*\} (\S+)$'
        for method, count in re.findall(row, self._get("metrics"), re.MULTILINE):
            calls[method] += int(float(count))
        return {method: count for method, count in calls.items() if count}


class Postgres(OtherServer):
    @staticmethod
    def _folder():
        """The folder of its programs, which Debian does not add to PATH."""
        places = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
        if shutil.which("initdb"):
            return Path(shutil.which("initdb")).resolve().parent
        if places:
            return places[-1].parent
        package = depends_on("postgresql")
        top = unpacked("postgresql", [package, "libpq5"]) if package else None
        return next(iter(top.glob("usr/lib/postgresql/*/bin")), None) if top else None

    @classmethod
    def program(cls):
        folder = cls._folder()
        return folder and str(folder / "postgres")

    @classmethod
    def version(cls):
        return subprocess.run([cls.program(), "--version"], capture_output=True, text=True, check=True).stdout.strip()

    def _start(self):
        # It refuses to run as root, and the user that it runs as must have access to its folder.
        who = {}
        self._data = Path(tempfile.mkdtemp(prefix="bench-field-"))
        if os.geteuid() == 0:
            nobody = pwd.getpwnam("nobody")
            who = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
            os.chown(self._data, nobody.pw_uid, nobody.pw_gid)
        # For the shared library of a package that is only unpacked.
        libraries = self._folder().parents[2] / "x86_64-linux-gnu"
        more = {"env": {**os.environ, "LD_LIBRARY_PATH": str(libraries)}, "cwd": self._data, **who}
        first = [self._folder() / "initdb", "-D", self._data / "db", "-A", "trust", "-U", "field", "--no-sync"]
        if self._popen(first, **more).wait():
            raise SystemExit(f"bench-field: initdb fails: {self.folder / 'log'}")
        command = [self.program(), "-D", self._data / "db", "-p", self.port, "-k", "", "-h", HOST]
        return self._popen([*command, "-c", f"max_connections={POSTGRES_CONNECTIONS}"], **more)

    def _is_up(self):
        """Whether the server accepts a session. The program that checks this is in a package for clients, which may not be
        installed."""
        words = b"user\0field\0database\0postgres\0\0"
        try:
            with socket.create_connection((HOST, self.port), timeout=5) as connection:
                connection.sendall(struct.pack("!ii", len(words) + 8, 3 << 16) + words)
                return connection.recv(1) == b"R"
        except OSError:
            return False

    def __exit__(self, *_):
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGQUIT)  # stops at once, with all processes that it has started
        self._process.wait()
        self._log.close()
        shutil.rmtree(self._data, ignore_errors=True)


class ZooKeeper(OtherServer):
    """From Maven Central, as Curator's own dependency."""

    @staticmethod
    def program():
        return next((str(jar) for jar in (BUILT / "java" / "lib").glob("zookeeper-3*.jar")), None)

    @classmethod
    def version(cls):
        return Path(cls.program()).stem

    def _start(self):
        settings = self.folder / "zoo.cfg"
        settings.write_text(
            f"tickTime=2000\ndataDir={self.folder / 'data'}\nclientPort={self.port}\nclientPortAddress={HOST}\n"
            "admin.enableServer=false\n4lw.commands.whitelist=ruok,mntr\n"
        )
        main = "org.apache.zookeeper.server.ZooKeeperServerMain"
        return self._popen(["java", "-cp", f"{BUILT}/java/lib/*", main, settings])

    def _ask(self, word):
        with socket.create_connection((HOST, self.port), timeout=5) as connection:
            connection.sendall(word.encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()

    def _is_up(self):
        try:
            return self._ask("ruok") == "imok"
        except OSError:
            return False

    def _calls(self):
        return {"packets": int(re.search(r"zk_packets_received\t(\d+)", self._ask("mntr"))[1])}


OTHERS = {"etcd": Etcd, "postgres": Postgres, "zookeeper": ZooKeeper}
