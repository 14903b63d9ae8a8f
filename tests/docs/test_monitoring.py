"""Alerts, dashboard and the page of metrics speak of metrics that there are."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools import monitoring

_UNITS = {"short", "reqps", "ms", "s", "bytes", "percentunit"}
_WORDS = {
    *("sum", "max", "by", "rate", "delta", "histogram_quantile", "le"),
    *("kind", "queue_name", "reason"),
    *("namespace", "job", "pod", "name", "controller", "result", "code", "cause", "action"),
    *("group", "unless", "max_over_time"),
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


@pytest.mark.parametrize("alert", monitoring.ALERT_TABLE, ids=lambda one: one.name)
def test_what_an_alert_says_names_labels_that_it_has(alert: monitoring.Alert) -> None:
    named = set(re.findall(r"\$labels\.(\w+)", alert.summary))
    has = {"namespace", "job", "pod"}  # Of whoever was scraped.
    if by := re.search(r"by \(([\w, ]+)\)", alert.expression):
        has = set(by[1].split(", "))
    else:
        (metric,) = [one for one in monitoring.metrics() if one.name in alert.expression]
        has |= {*metric.labels}
    assert named <= has


_SCRAPED = 'namespace="n",job="j",pod="p"'
_CASES: dict[str, tuple[str, str, str]] = {
    "MusterNobodyLeads": ('leader_election_master_status{name="l",%s}', "0x60", "1x60"),
    "MusterNotSeen": ('leader_election_master_status{name="l",%s}', "1x10 _x50", "1x60"),
    "MusterCyclesFail": ('kai_failed_scheduling_cycles_total{plugin="x",%s}', "0+9x60", "7x60"),
    "MusterTokenRefused": ('rest_client_requests_total{code="401",%s}', "0+9x60", "7x60"),
    "MusterNoNews": ('muster_informer_trouble_seconds{kind="pods",%s}', "0+60x60", "0x60"),
    "MusterLoopHeldUp": ("muster_event_loop_lag_seconds{%s}", "3x60", "0.5x60"),
    "MusterCyclesTakeLong": ("kai_e2e_scheduling_latency_milliseconds{%s}", "61000x60", "900x60"),
    "MusterDecisionsNotConfirmed": ("kai_oldest_assumption_seconds{%s}", "301x60", "50x60"),
    "MusterStatusIsLate": ("kai_status_update_oldest_seconds{%s}", "121x60", "50x60"),
    "MusterReconcilesFail": (
        'controller_runtime_reconcile_total{result="error",controller="c",%s}',
        "0+60x60",
        "0+1x60",
    ),
    "MusterBacklog": ('workqueue_depth{name="q",%s}', "1001x60", "900x60"),
    "MusterEvictionsRefused": ('kai_evictions_refused_total{cause="c",%s}', "0+9x60", "7x60"),
    "MusterObjectsSetAside": ('muster_informer_set_aside{kind="pods",%s}', "1x60", "0x60"),
    "MusterOutOfStep": ('muster_informer_out_of_step{kind="pods",%s}', "1x60", "0x60"),
    "MusterEventsDropped": ("muster_events_dropped{%s}", "0+9x60", "7x60"),
    "MusterSettingsWithoutEffect": (
        'muster_configuration_without_effect{key="k",%s}',
        "1x120",
        "0x120",
    ),
}
"""By alert: a series, its values minute by minute when somebody is to be woken, and when nobody."""


@pytest.mark.prometheus
def test_every_alert_fires_when_it_is_so_and_at_no_other_time(tmp_path: Path) -> None:
    assert _CASES.keys() == {alert.name for alert in monitoring.ALERT_TABLE}
    told = {alert.name: alert for alert in monitoring.ALERT_TABLE}
    tests = [
        _told(told[name], case, fires=fires) for name, case in _CASES.items() for fires in (1, 0)
    ]
    file = tmp_path / "tests.yaml"
    known = {"rule_files": [str(monitoring.ALERTS)], "evaluation_interval": "1m", "tests": tests}
    file.write_text(yaml.safe_dump(known))
    command = ["promtool", "test", "rules", str(file)]
    tested = subprocess.run(command, capture_output=True, text=True, check=False)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def _told(alert: monitoring.Alert, case: tuple[str, str, str], *, fires: int) -> dict[str, Any]:
    """An hour later, or two; of what it says only the labels are looked at."""
    series, bad, good = case
    expected: list[dict[str, Any]] = []
    if fires:
        labels = {
            key: text
            for key, text in re.findall(r'(\w+)="(\w+)"', series % _SCRAPED)
            if (by := re.search(r"by \(([\w, ]+)\)", alert.expression)) is None
            or key in by[1].split(", ")
        }
        summary = re.sub(r"{{ \$labels\.(\w+) }}", lambda found: labels[found[1]], alert.summary)
        said = {"summary": summary, "runbook": f"docs/runbooks.md#{alert.name.lower()}"}
        expected = [{"exp_labels": {"severity": alert.severity, **labels}, "exp_annotations": said}]
    values = bad if fires else good
    return {
        "interval": "1m",
        "input_series": [{"series": series % _SCRAPED, "values": values}],
        "alert_rule_test": [
            {"eval_time": _when(values), "alertname": alert.name, "exp_alerts": expected}
        ],
    }


def _when(values: str) -> str:
    return "110m" if values.endswith("x120") else "50m"


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
