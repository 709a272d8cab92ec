"""The expressions of the page, of the dashboard and of the alerts, evaluated by a Prometheus after real contention."""

import json
import math
import re

import pytest

from harness import wait_for
from programs import DOCS, PAGE

DASHBOARD = json.loads((DOCS / "dashboard.json").read_text())
PANELS = DASHBOARD["panels"]
TARGETS = [
    pytest.param(target["expr"], id=f"{panel['id']}-{panel['title']}".replace(" ", "-"))
    for panel in PANELS
    for target in panel["targets"]
]
VARIABLES = {"instance": ".*", "__rate_interval": "5m"}
SHOWN_IN_PAGE = [
    pytest.param(expression, id=str(number))
    for number, expression in enumerate(re.findall(r"^```promql\n(.*?)^```", PAGE, re.M | re.S))
]
# A metric and its labels, as an alert or a panel names it.
SELECTOR = re.compile(r"\bredis_[a-z_]+(?:\{[^}]*\})?")


def filled_in(expression):
    # $1 belongs to label_replace, and is no variable.
    return re.sub(r"\$([a-z_]+)", lambda found: VARIABLES[found[1]], expression)


def samples(scene, expression):
    """Asserts that the expression is valid PromQL, uses only existing names, and returns numbers."""
    expression = filled_in(expression)

    def evaluate():
        # After a scrape that took too long, there is no value of that exporter until the next one.
        keys = {key.partition(":")[0] for key in scene.values(scene.naming)}
        misspelt = set(re.findall(r"\b(?:lock_[a-z0-9_]+|maxclients)\b", expression)) - keys
        assert not misspelt, f"there is no {misspelt}"
        found = scene.prometheus.query(expression)
        assert found, f"no data: {expression}"
        assert not any(math.isnan(value) for _, value in found), found
        return found

    return wait_for(evaluate, 10, expression)


@pytest.mark.parametrize("expression", TARGETS)
def test_panel_has_data(scene, expression):
    samples(scene, expression)


@pytest.mark.parametrize("expression", SHOWN_IN_PAGE)
def test_expression_of_the_page_has_data(scene, expression):
    samples(scene, expression)


def test_every_value_has_a_panel(scene):
    expressions = " ".join(target["expr"] for panel in PANELS for target in panel["targets"])
    assert [name for name in scene.server.info("lock") if not re.search(rf"\b{name}\b", expressions)] == []


def test_instances_are_found(scene):
    (variable,) = [variable for variable in DASHBOARD["templating"]["list"] if variable["name"] == "instance"]
    query = variable["query"]["query"]
    assert query == variable["definition"]
    selector = re.fullmatch(r"label_values\((.*), instance\)", query)[1]
    wait_for(lambda: len(samples(scene, selector)) == 2, what="both instances")


def test_panels_are_complete():
    assert DASHBOARD["schemaVersion"] >= 39
    names = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    assert names == {"datasource", "instance"}
    assert len({panel["id"] for panel in PANELS}) == len({panel["title"] + panel["type"] for panel in PANELS}) == len(PANELS)
    taken = set()
    for panel in PANELS:
        assert panel["title"] and panel["description"] and panel["fieldConfig"]["defaults"]["unit"]
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) > 0
        for target in panel["targets"]:
            assert 'instance=~"$instance"' in target["expr"] and target["legendFormat"]
        at = panel["gridPos"]
        fields = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert max(x for x, _ in fields) < 24 and not fields & taken, panel["title"]
        taken |= fields


def test_locks_with_waiters_are_shown_by_name(scene):
    (expression,) = [target.values[0] for target in TARGETS if "lock_top" in target.values[0]]

    def named():
        # A rate needs two scrapes that contain the name.
        names = {labels["lock"] for labels, _ in samples(scene, expression)}
        assert {"busy", "report"} <= names
        return names

    assert len(wait_for(named, 30)) <= 10


def test_every_value_of_an_alert_exists(scene):
    rules = scene.prometheus.rules()
    assert rules
    for rule in rules:
        assert rule["health"] == "ok", rule
        for selector in SELECTOR.findall(rule["query"]):
            samples(scene, selector)
