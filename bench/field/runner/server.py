"""A server of the run, in a folder of its own, and what it reports about itself."""

import os
import shutil
import socket
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path

import redis

from .processes import memory_bytes

HOST = "127.0.0.1"
START_S = 20


def server_program():
    wanted = os.environ.get("SERVER")
    found = shutil.which(wanted) if wanted else shutil.which("redis-server") or shutil.which("valkey-server")
    if not found:
        raise SystemExit(f"bench-field: no server program: {wanted or 'redis-server or valkey-server'}")
    # A path like ./redis-server must outlive the server's own folder.
    return os.path.abspath(found)


def server_version(program):
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()


def free_port():
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return probe.getsockname()[1]


class Server:
    """Default settings, without snapshots; loads `module` if it is given."""

    def __init__(self, program, folder, module=None, settings=()):
        self._settings = settings
        self.folder = Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self._log = open(self.folder / "log", "w")
        # Another process may take the port before the server does.
        for _ in range(10):
            self.port = free_port()
            self._start(program, module)
            if self._is_up():
                return
            self.stop()
        raise SystemExit(f"bench-field: the server does not start: {self.folder / 'log'}")

    def _start(self, program, module):
        command = [program, "--port", str(self.port), "--bind", HOST, "--save", "", "--dir", str(self.folder)]
        command += ["--loadmodule", str(module)] if module else []
        command += self._settings
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT, cwd=self.folder
        )
        self.client = redis.Redis(port=self.port, decode_responses=True)

    def _is_up(self):
        give_up = time.monotonic() + START_S
        while self._process.poll() is None and time.monotonic() < give_up:
            try:
                # Another server may be listening on the port.
                return self.client.info("server")["process_id"] == self._process.pid
            except redis.RedisError:
                time.sleep(0.02)
        return False

    def stop(self):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self._log.close()

    def usage(self, opening=False):
        """All that it has used so far: commands by name, bytes, CPU seconds. The requests sent here cost bytes too. Most of
        these are not counted if the opening call reads the bytes last, and the closing call reads them first."""
        sections = ["commandstats", "cpu", "stats"]
        shown = {name: self.client.info(name) for name in (sections if opening else sections[::-1])}
        stats, cpu = shown["stats"], shown["cpu"]
        calls = {name.removeprefix("cmdstat_"): row["calls"] for name, row in shown["commandstats"].items()}
        return {
            "calls": calls,
            "bytes": stats["total_net_input_bytes"] + stats["total_net_output_bytes"],
            "cpu_s": cpu["used_cpu_user"] + cpu["used_cpu_sys"],
        }

    def memory(self):
        """In bytes: the memory of the process, and what the server itself counts."""
        counted = self.client.info("memory")["used_memory"]
        return {"process": memory_bytes(self._process.pid), "counted": counted}


class Monitor:
    """Counts commands by (origin, name in lower case), as MONITOR shows them.

    The origin is "client", "script", or "module" for calls by a module.
    """

    def __init__(self, port):
        self.seen = Counter()
        self._socket = socket.create_connection((HOST, port))
        self._lines = self._socket.makefile("r", encoding="latin-1")
        self._socket.sendall(b"MONITOR\r\n")
        assert self._lines.readline().startswith("+OK")
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            for line in self._lines:
                # +1795374564.037486 [0 127.0.0.1:40000] "BLPOP" "queue" "0"
                where, _, words = line.partition("] ")
                self.seen[self._origin(where.split()[-1]), words.split('"')[1].lower()] += 1
        except OSError:
            pass  # end() has shut it down

    @staticmethod
    def _origin(who):
        if who == "lua":
            return "script"
        return "client" if who.rpartition(":")[2] not in ("", "0") else "module"

    def end(self):
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._socket.close()
        return self.seen
