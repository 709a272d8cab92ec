"""The alerts: by promtool on numbers that are made up, and by Prometheus on what a server really did."""

import re
import shutil
import subprocess

import scene as scene_module
from harness import wait_for
from programs import BIN, DOCS, PAGE, TOP

UNIT_TESTS = TOP / "tests" / "monitoring" / "alerts_test.yml"


def promtool(*words, folder):
    done = subprocess.run([BIN / "promtool", *words], cwd=folder, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def names_in(rules):
    return [rule["name"] for rule in rules]


def test_rules_are_valid():
    assert "rules found" in promtool("check", "rules", "alerts.yml", folder=DOCS)


def test_example_configuration_is_valid():
    promtool("check", "config", "prometheus.yml", folder=DOCS)


def test_alerts_fire_when_they_should_and_only_then(tmp_path):
    for file in (DOCS / "alerts.yml", UNIT_TESTS):
        shutil.copy(file, tmp_path)
    assert "SUCCESS" in promtool("test", "rules", UNIT_TESTS.name, folder=tmp_path)


def test_every_alert_is_tested_and_explained(scene):
    rules = scene.prometheus.rules()
    names = names_in(rules)
    assert len(set(names)) == len(names)
    assert set(re.findall(r'alertname="(\w+)", instance="bad"', UNIT_TESTS.read_text())) == set(names)
    assert re.findall(r"^### (Lock\w+)$", PAGE, re.M) == names
    for rule in rules:
        assert rule["annotations"]["summary"] and rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["runbook"] == f"docs/monitoring.md#{rule['name'].lower()}"


def test_a_quiet_server_is_quiet(scene):
    # One of the exporters has no script.
    assert scene.alerts_before == {"firing": set(), "pending": {"LockMetricsMissing"}}


def test_what_happened_is_told(scene):
    def told():
        state = {state: scene.prometheus.alerts(state) for state in ("firing", "pending")}
        wanted = {"firing": scene_module.FIRING, "pending": scene_module.PENDING | {"LockMetricsMissing"}}
        assert state == wanted, state
        return True

    wait_for(told, 30, "the alerts")


def test_the_exporter_without_a_script_is_told_of(scene):
    def missing():
        [rule] = [rule for rule in scene.prometheus.rules() if rule["name"] == "LockMetricsMissing"]
        return [alert["labels"].get("instance") for alert in rule["alerts"]]

    wait_for(lambda: missing() == [f"127.0.0.1:{scene.bare.port}"], what="the exporter to be missed")
