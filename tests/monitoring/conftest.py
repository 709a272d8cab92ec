"""A server, an exporter and a Prometheus, with contention that is caused before the tests begin."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

import scene as scene_module
from harness import Server, Servers, launching, wait_for
from harness.suite import pytest_runtest_makereport, set_limits
from programs import BIN, DOCS, Exporter, Prometheus, create_user

__all__ = ["pytest_runtest_makereport"]


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    set_limits(config, float(os.environ.get("SLOWNESS", 1)))


@pytest.fixture(scope="session")
def launch():
    with launching("monitoring", others=[(BIN / "redis_exporter", "tools/monitoring")]) as run:
        yield run


@pytest.fixture(scope="session")
def make_server(launch):
    servers = Servers(launch)
    yield servers.make
    problems = servers.end()
    assert not problems, "\n".join(problems)


@pytest.fixture(scope="session")
def make_exporter(launch):
    """make_exporter(server, script=…, user=…): starts another exporter."""
    made = []

    def make(*words, **options):
        made.append(Exporter(launch.root / f"exporter-{len(made)}", *words, **options))
        return made[-1]

    yield make
    for exporter in made:
        exporter.end()


@pytest.fixture(scope="session")
def naming_script(launch):
    """lock.lua, set to show names."""
    text = (DOCS / "lock.lua").read_text()
    assert "local TOP = 0\n" in text
    script = launch.root / "naming.lua"
    script.write_text(text.replace("local TOP = 0\n", "local TOP = 10\n"))
    return script


@dataclass
class Scene:
    server: Server
    exporter: Exporter
    """With the permissions and the script of the documentation."""
    naming: Exporter
    """The same, but it shows names."""
    bare: Exporter
    """Without a script."""
    prometheus: Prometheus
    alerts_before: dict

    def values(self, exporter):
        """The script's values that Prometheus has from this exporter."""
        found = self.prometheus.query(f'redis_script_values{{instance="127.0.0.1:{exporter.port}"}}')
        return {labels["key"]: value for labels, value in found}

    def record_alerts(self):
        """Records the alerts of an idle server. False if none is pending, for example after a scrape that took too long."""
        self.alerts_before = {state: self.prometheus.alerts(state) for state in ("firing", "pending")}
        return self.alerts_before["pending"]

    def up_to_date(self):
        """Asserts that Prometheus has the current values of the server."""
        info = self.server.info("lock")
        for exporter in (self.exporter, self.naming):
            known = self.values(exporter)
            late = {name: (known.get(name), value) for name, value in info.items() if known.get(name) != value}
            late.pop("lock_quarantine_ms", None)
            assert not late, late
        return True


def next_evaluation(prometheus):
    """Waits until each rule has been evaluated once more."""

    def times():
        return {rule["name"]: rule["lastEvaluation"] for rule in prometheus.rules()}

    before = times()
    wait_for(lambda: all(at != before[name] for name, at in times().items()), 30, "the rules to be evaluated")


@pytest.fixture(scope="session")
def scene(launch, make_server, make_exporter, naming_script):
    server = make_server()
    create_user(server, "exporter", "+eval")
    create_user(server, "naming", "+eval", "+lock.top")
    # Prometheus sees an increase only if there is an earlier value, so there has to be a first error before.
    scene_module.release_too_late(server)
    exporters = [make_exporter(server), make_exporter(server, naming_script, "naming"), make_exporter(server, script=None)]
    # In a new folder, because the scene may be set up again.
    prometheus = Prometheus(Path(tempfile.mkdtemp(dir=launch.root)) / "prometheus", exporters)
    try:
        made = Scene(server, *exporters, prometheus, {})
        wait_for(made.up_to_date, 30, "Prometheus to see the server before the scene")
        wait_for(lambda: len(prometheus.query("redis_up")) == len(exporters), 30, "Prometheus to see all exporters")
        # An evaluation that is under way may not have all values.
        for _ in range(2):
            next_evaluation(prometheus)
        wait_for(made.record_alerts, 30, "an alert")
        scene_module.run(server)
        wait_for(made.up_to_date, 30, "Prometheus to see the scene")
        yield made
    finally:
        prometheus.end()
