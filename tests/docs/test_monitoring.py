"""Alerts, dashboard and the page of metrics speak of metrics that there are."""

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml
from tools import monitoring

_UNITS = {"short", "reqps", "ms", "s", "bytes", "percentunit"}
_WORDS = {
    *("sum", "max", "by", "rate", "delta", "histogram_quantile", "le"),
    *("kind", "queue_name", "reason"),
    *("namespace", "job", "pod", "name", "controller", "result", "code", "cause", "action"),
}


def _expressions() -> list[str]:
    return [alert.expression for alert in monitoring.ALERT_TABLE] + _panels()


def _panels() -> list[str]:
    return [panel[1] for board in monitoring.BOARDS.values() for panel in board.panels]


def test_the_files_are_what_make_docs_would_write() -> None:
    for path, text in monitoring.files().items():
        assert path.read_text() == text, "run `make docs`"


@pytest.mark.parametrize("expression", _expressions())
def test_every_expression_asks_for_metrics_that_there_are(expression: str) -> None:
    known = {row.name for row in monitoring.metrics()}
    bare = re.sub(r'"[^"]*"|\[[^\]]*\]', "", expression)
    asked = set(re.findall(r"[a-z][a-z0-9_]+", bare)) - _WORDS
    assert asked
    assert {name.removesuffix("_bucket") for name in asked} <= known


def test_every_metric_says_what_it_means_once() -> None:
    rows = monitoring.metrics()
    assert len({row.name for row in rows}) == len(rows)
    assert [row.name for row in rows if not row.meaning.endswith(".")] == []


def test_every_alert_has_its_section_in_the_runbooks_and_no_other() -> None:
    sections = re.findall(r"^## (\w+)$", monitoring.RUNBOOKS.read_text(), re.MULTILINE)
    assert sections == [alert.name for alert in monitoring.ALERT_TABLE]


@pytest.mark.parametrize("name", monitoring.BOARDS)
def test_a_dashboard_is_one_that_grafana_reads(name: str) -> None:
    board = json.loads(monitoring.dashboard(monitoring.BOARDS[name]))
    assert {"uid", "title", "schemaVersion", "time", "templating"} <= board.keys()
    (source,) = board["templating"]["list"]
    for panel in board["panels"]:
        assert panel["datasource"]["uid"] == f"${{{source['name']}}}"
        assert panel["type"] == "timeseries"
        assert panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"] in _UNITS
        grid = panel["gridPos"]
        assert grid["x"] + grid["w"] <= 24, "Grafana has 24 columns"
        (target,) = panel["targets"]
        labels = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
        if by := re.search(r"by \(([\w, ]+)\)", target["expr"]):
            assert labels <= set(by[1].split(", ")), "a legend shows only labels that are left"
    ids = [panel["id"] for panel in board["panels"]]
    assert len(set(ids)) == len(ids)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len(set(places)) == len(places), "no panel hides another"
    assert all(panel["targets"][0]["expr"] for panel in board["panels"])


def test_every_rule_says_what_and_for_how_long() -> None:
    (group,) = yaml.safe_load(monitoring.alerts())["groups"]
    assert {tuple(rule) for rule in group["rules"]} == {
        ("alert", "expr", "for", "labels", "annotations")
    }


@pytest.mark.prometheus
def test_prometheus_takes_the_rules_and_every_expression_of_the_dashboard(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:{number}", "expr": expression}
        for number, expression in enumerate(_panels())
    ]
    panels = tmp_path / "panels.yaml"
    panels.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    command = ["promtool", "check", "rules", str(monitoring.ALERTS), str(panels)]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
