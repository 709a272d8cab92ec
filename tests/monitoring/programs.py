"""Prometheus, promtool and redis_exporter, which tools/monitoring has put into a folder, and requests to them."""

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from harness import scaled, wait_for
from harness.ports import free_port

TOP = Path(__file__).resolve().parents[2]
PAGE = (TOP / "docs" / "monitoring.md").read_text()
DOCS = TOP / "docs" / "monitoring"
BIN = TOP / "build" / "monitoring" / os.environ.get("SUITE", "machine") / "bin"

_libc = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1
# Without a proxy: one that the machine's settings name cannot reach the loopback.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def _die_with_parent():
    # A test run that is killed leaves no process behind.
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def get(url):
    """The response, or None if there is none."""
    try:
        with _opener.open(url, timeout=scaled(10)) as response:
            return response.read().decode()
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return None


def command_shown(word):
    """The only line of docs/monitoring.md that has this word in a code block."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", PAGE, re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines() if word in line]
    assert len(lines) == 1, f"not one line with {word}: {lines}"
    return lines[0]


def create_user(server, user, *lines):
    """Creates the user that docs/monitoring.md shows, with these lines of the page, under this name."""
    for line in lines:
        words = command_shown(line).partition("> ")[2].split()
        assert words[2] == "exporter"
        server.control.execute_command(*words[:2], user, *words[3:])


class Program:
    """A process that serves HTTP on a port of the loopback, in a folder of its own."""

    def __init__(self, name, folder, words, ready, **environment):
        """`words(port)` are its arguments; `ready` is the path that responds when it serves."""
        folder.mkdir(parents=True, exist_ok=True)
        self._log = folder / f"{name}.log"
        # Another process may take the free port first.
        for _ in range(5):
            self.port = free_port()
            self.url = f"http://127.0.0.1:{self.port}"
            with open(self._log, "wb") as output:
                self._process = subprocess.Popen(
                    [BIN / name, *words(self.port)],
                    cwd=folder,
                    env={**os.environ, **environment},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=_die_with_parent,
                )
            serves = wait_for(lambda: get(self.url + ready) or self._process.poll() is not None, 30, f"{name} to serve")
            if serves is not True:
                return
            if "address already in use" not in self.log():
                break
        raise AssertionError(f"{name} has ended:\n{self.log()[-3000:]}")

    def log(self):
        return self._log.read_text(errors="replace")

    def end(self):
        self._process.terminate()
        try:
            self._process.wait(scaled(10))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Exporter(Program):
    """redis_exporter as docs/monitoring.md starts it, for this server.

    `script` replaces the script shown there, None means none; `user` is the name of the user.
    """

    def __init__(self, folder, server, script=DOCS / "lock.lua", user="exporter"):
        options = dict(re.findall(r"(--[a-z.]+)=(\S+)", command_shown("redis_exporter")))
        assert {"--redis.addr", "--redis.user", "--script"} == set(options)
        options.update({"--redis.addr": f"redis://127.0.0.1:{server.port}", "--redis.user": user, "--script": script})
        words = [f"{option}={value}" for option, value in options.items() if value is not None]
        # Its first page does not depend on the server: when it responds, the exporter serves.
        super().__init__(
            "redis_exporter",
            folder,
            lambda port: [*words, f"--web.listen-address=127.0.0.1:{port}"],
            "/",
            REDIS_PASSWORD="password",
        )

    def scrape(self):
        """The text of all its metrics."""
        text = get(self.url + "/metrics")
        assert text, f"the exporter does not respond:\n{self.log()[-3000:]}"
        return text

    def script_values(self):
        """What the script has returned, {key: value}, as the exporter shows it."""
        found = {}
        for line in self.scrape().splitlines():
            if line.startswith("redis_script_values{"):
                labels, _, value = line.rpartition(" ")
                # The labels are written as Go strings, which for the values here are the same as JSON strings.
                found[json.loads('"' + labels.partition('key="')[2].removesuffix('"}') + '"')] = float(value)
        return found


class Prometheus(Program):
    """Prometheus with docs/monitoring/prometheus.yml, which scrapes these exporters, but more often."""

    def __init__(self, folder, exporters, often="200ms"):
        folder.mkdir(parents=True)
        shutil.copy(DOCS / "alerts.yml", folder)
        config = (DOCS / "prometheus.yml").read_text()
        targets = ", ".join(f'"127.0.0.1:{exporter.port}"' for exporter in exporters)
        for shown, here in (("15s", often), ('"localhost:9121"', targets)):
            assert shown in config, f"prometheus.yml has no {shown}"
            config = config.replace(shown, here)
        (folder / "prometheus.yml").write_text(config)
        words = ["--config.file=prometheus.yml", "--storage.tsdb.path=data", "--log.level=warn"]
        super().__init__("prometheus", folder, lambda port: [*words, f"--web.listen-address=127.0.0.1:{port}"], "/-/ready")

    def _get(self, path, **parameters):
        query = urllib.parse.urlencode(parameters)
        try:
            with _opener.open(f"{self.url}/api/v1/{path}?{query}", timeout=scaled(10)) as response:
                return json.load(response)["data"]
        except urllib.error.HTTPError as error:
            # The body contains the error in the expression.
            raise AssertionError(error.read().decode()) from None

    def query(self, expression):
        """The samples of an expression now: [(labels, value)]."""
        found = self._get("query", query=expression)["result"]
        return [(sample["metric"], float(sample["value"][1])) for sample in found]

    def rules(self):
        """All rules that it has loaded, each with its firing and pending alerts."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def alerts(self, state):
        """The names of the alerts in this state: firing, pending."""
        return {alert["labels"]["alertname"] for alert in self._get("alerts")["alerts"] if alert["state"] == state}
