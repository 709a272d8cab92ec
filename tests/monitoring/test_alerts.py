"""The alerts: with promtool on invented values, and with Prometheus on those of a real server."""

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


def test_alerts_fire_exactly_when_they_should(tmp_path):
    for file in (DOCS / "alerts.yml", UNIT_TESTS):
        shutil.copy(file, tmp_path)
    assert "SUCCESS" in promtool("test", "rules", UNIT_TESTS.name, folder=tmp_path)


def test_every_alert_is_tested_and_documented(scene):
    rules = scene.prometheus.rules()
    names = names_in(rules)
    assert len(set(names)) == len(names)
    assert set(re.findall(r'alertname="(\w+)", instance="bad"', UNIT_TESTS.read_text())) == set(names)
    assert re.findall(r"^### (Lock\w+)$", PAGE, re.M) == names
    for rule in rules:
        assert rule["annotations"]["summary"] and rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"]["runbook"] == f"docs/monitoring.md#{rule['name'].lower()}"


def test_an_idle_server_has_no_alerts(scene):
    # One of the exporters has no script.
    assert scene.alerts_before == {"firing": set(), "pending": {"LockMetricsMissing"}}


def test_the_alerts_of_the_scene_fire(scene):
    def as_expected():
        state = {state: scene.prometheus.alerts(state) for state in ("firing", "pending")}
        wanted = {"firing": scene_module.FIRING, "pending": scene_module.PENDING | {"LockMetricsMissing"}}
        assert state == wanted, state
        return True

    wait_for(as_expected, 30, "the alerts")


def test_an_exporter_without_a_script_causes_an_alert(scene):
    def missing():
        [rule] = [rule for rule in scene.prometheus.rules() if rule["name"] == "LockMetricsMissing"]
        return [alert["labels"].get("instance") for alert in rule["alerts"]]

    wait_for(lambda: missing() == [f"127.0.0.1:{scene.bare.port}"], what="the alert of the exporter without a script")
