"""Writes docs/reference/metrics.md, and the alert rules and dashboards in deploy/monitoring.

`make docs` runs this; tests compare, and hold every expression against the metrics that there are.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from prometheus_client import CollectorRegistry

from muster.api.names import DEFAULT
from muster.base.clock import VirtualClock
from muster.base.log import Log
from muster.runtime.loop_lag import LoopLag
from muster.runtime.meters import (
    ClientMeters,
    ControllerMeters,
    InformerMeters,
    meter_events,
    meter_leader,
    meter_log,
)
from muster.services.queues.capacity_watch import capacity_gauges
from muster.services.queues.meters import QueueMeters
from muster.services.scheduler.meters import SchedulerMeters
from muster.services.scheduler.usage_meters import UsageMeters, idle_meter
from muster.usage.fetcher import UsageFetcher

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "reference" / "metrics.md"
RUNBOOKS: Final = ROOT / "docs" / "runbooks.md"
FOLDER: Final = ROOT / "deploy" / "monitoring"
ALERTS: Final = FOLDER / "alerts.yaml"

_HEAD: Final = """# Metrics

Every metric of muster, made from the code by `make docs`. Names that begin with `kai_` are KAI's;
the prefix is `--metrics-namespace`. Who may read them, and what a service does beside them, is in
[service.md](service.md); what to do when one of them is bad is in [the runbooks](../runbooks.md).

| metric | kind | labels | of | meaning |
|---|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class MetricRow:
    """One metric, under the name that Prometheus shows."""

    name: str
    kind: str
    labels: tuple[str, ...]
    owner: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Alert:
    """When somebody is to be woken, and in what words."""

    name: str
    severity: str
    expression: str
    lasts: str
    summary: str


Panel = tuple[str, str, str, str]
"""Its title, expression, legend and unit."""


@dataclass(frozen=True, slots=True)
class Board:
    """One dashboard."""

    uid: str
    title: str
    panels: tuple[Panel, ...]


ALERT_TABLE: Final = (
    Alert(
        "MusterNobodyLeads",
        "critical",
        "sum by (namespace, job, name) (leader_election_master_status) == 0",
        "2m",
        "No replica of {{ $labels.name }} leads: what it does is not being done.",
    ),
    Alert(
        "MusterNotSeen",
        "warning",
        "group by (namespace, job, name) (max_over_time(leader_election_master_status[1h])) "
        "unless group by (namespace, job, name) (leader_election_master_status)",
        "5m",
        "Metrics of {{ $labels.name }} were read within the hour, and are no more: no pod answers.",
    ),
    Alert(
        "MusterCyclesFail",
        "critical",
        "rate(kai_failed_scheduling_cycles_total[5m]) > 0",
        "5m",
        "Cycles of the scheduler fail in {{ $labels.plugin }}: nothing is decided.",
    ),
    Alert(
        "MusterTokenRefused",
        "critical",
        'sum by (namespace, job, pod) (rate(rest_client_requests_total{code="401"}[5m])) > 0',
        "5m",
        "The API server does not know the token of {{ $labels.pod }}.",
    ),
    Alert(
        "MusterNoNews",
        "critical",
        "muster_informer_trouble_seconds > 120",
        "1m",
        "{{ $labels.pod }} has heard nothing of {{ $labels.kind }} for minutes.",
    ),
    Alert(
        "MusterLoopHeldUp",
        "warning",
        "muster_event_loop_lag_seconds > 2",
        "5m",
        "The event loop of {{ $labels.pod }} is held up for seconds.",
    ),
    Alert(
        "MusterCyclesTakeLong",
        "warning",
        "kai_e2e_scheduling_latency_milliseconds > 60000",
        "10m",
        "A cycle of {{ $labels.job }} takes more than a minute.",
    ),
    Alert(
        "MusterDecisionsNotConfirmed",
        "warning",
        "kai_oldest_assumption_seconds > 300",
        "5m",
        "A decision of {{ $labels.job }} has not come back from the API server for minutes.",
    ),
    Alert(
        "MusterStatusIsLate",
        "warning",
        "kai_status_update_oldest_seconds > 120",
        "5m",
        "Users see conditions that are minutes old: {{ $labels.job }} cannot write them.",
    ),
    Alert(
        "MusterReconcilesFail",
        "warning",
        "sum by (namespace, job, controller) "
        '(rate(controller_runtime_reconcile_total{result="error"}[10m])) > 0.1',
        "10m",
        "{{ $labels.controller }} fails again and again.",
    ),
    Alert(
        "MusterBacklog",
        "warning",
        "workqueue_depth > 1000",
        "10m",
        "{{ $labels.name }} does not keep up with what changes.",
    ),
    Alert(
        "MusterEvictionsRefused",
        "warning",
        "sum by (namespace, job, cause) (rate(kai_evictions_refused_total[10m])) > 0",
        "30m",
        "Evictions are refused for half an hour: {{ $labels.cause }}.",
    ),
    Alert(
        "MusterObjectsSetAside",
        "warning",
        "muster_informer_set_aside > 0",
        "15m",
        "Stored {{ $labels.kind }} cannot be read and are left out.",
    ),
    Alert(
        "MusterOutOfStep",
        "warning",
        "muster_informer_out_of_step > 0",
        "15m",
        "A part of {{ $labels.pod }} cannot take {{ $labels.kind }} in.",
    ),
    Alert(
        "MusterEventsDropped",
        "info",
        "delta(muster_events_dropped[10m]) > 0",
        "10m",
        "Events about objects are not written.",
    ),
    Alert(
        "MusterSettingsWithoutEffect",
        "info",
        "muster_configuration_without_effect > 0",
        "1h",
        "{{ $labels.key }} is configured and does nothing.",
    ),
)

PANELS: Final = (
    ("Who leads", "leader_election_master_status", "{{name}} {{pod}}", "short"),
    ("Cycles a second", "rate(kai_scheduling_cycles_total[5m])", "{{job}}", "short"),
    ("Last cycle", "kai_e2e_scheduling_latency_milliseconds", "{{job}}", "ms"),
    ("Actions of the last cycle", "kai_action_scheduling_latency_milliseconds", "{{action}}", "ms"),
    (
        "From a pod's creation to its decision, p95",
        "histogram_quantile(0.95, sum by (le) "
        "(rate(kai_task_scheduling_latency_milliseconds_bucket[5m])))",
        "p95",
        "ms",
    ),
    (
        "Groups that got nodes, by action",
        "sum by (action) (rate(kai_podgroups_scheduled_by_action_total[5m]))",
        "{{action}}",
        "short",
    ),
    (
        "Pods evicted, by action",
        "sum by (action) (rate(kai_pod_group_evicted_pods_total[5m]))",
        "{{action}}",
        "short",
    ),
    (
        "Pods decided about a second, by result",
        "sum by (result) (rate(kai_decisions_total[5m]))",
        "{{result}}",
        "short",
    ),
    ("Groups that wait, by reason", "kai_waiting_podgroups", "{{reason}}", "short"),
    ("Oldest unconfirmed decision", "kai_oldest_assumption_seconds", "{{job}}", "s"),
    ("Oldest status update", "kai_status_update_oldest_seconds", "{{job}}", "s"),
    ("GPUs allocated, by queue", "kai_queue_allocated_gpus", "{{queue_metadata_name}}", "short"),
    (
        "Calls to the API server, by code",
        "sum by (code) (rate(rest_client_requests_total[5m]))",
        "{{code}}",
        "reqps",
    ),
    ("No news for", "muster_informer_trouble_seconds", "{{pod}} {{kind}}", "s"),
    ("Event loop lag", "muster_event_loop_lag_seconds", "{{pod}}", "s"),
    ("Keys that wait", "workqueue_depth", "{{name}}", "short"),
    ("Keys held by a slow namespace", "muster_long_work_held", "{{name}}", "short"),
    (
        "Waiting for a turn to call the API server, p95",
        "histogram_quantile(0.95, sum by (le, job) "
        "(rate(rest_client_rate_limiter_duration_seconds_bucket[5m])))",
        "{{job}}",
        "s",
    ),
    (
        "Age of the oldest news of a kind",
        "max by (kind) (muster_informer_news_age_seconds)",
        "{{kind}}",
        "s",
    ),
    ("Pods being read again", "kai_resync_depth", "{{job}}", "short"),
)
"""Title, expression, legend and unit."""


QUEUE_PANELS: Final = (
    (
        "GPUs in use",
        "sum by (queue_name) (kai_queue_allocated_gpus)",
        "{{queue_name}}",
        "short",
    ),
    (
        "GPUs owed",
        "sum by (queue_name) (kai_queue_deserved_gpus)",
        "{{queue_name}}",
        "short",
    ),
    (
        "GPUs above what is owed",
        "sum by (queue_name) (kai_queue_allocated_gpus) - "
        "sum by (queue_name) (kai_queue_deserved_gpus)",
        "{{queue_name}}",
        "short",
    ),
    (
        "CPU cores in use",
        "sum by (queue_name) (kai_queue_allocated_cpu_cores)",
        "{{queue_name}}",
        "short",
    ),
    (
        "Memory in use",
        "sum by (queue_name) (kai_queue_allocated_memory_bytes)",
        "{{queue_name}}",
        "bytes",
    ),
    (
        "Pods evicted a second, by namespace",
        "sum by (namespace) (rate(kai_pod_group_evicted_pods_total[5m]))",
        "{{namespace}}",
        "short",
    ),
)
BOARDS: Final = {
    "dashboard.json": Board("muster", "muster", PANELS),
    "queues.json": Board("muster-queues", "muster: queues", QUEUE_PANELS),
}


def metrics() -> list[MetricRow]:
    """All that there are, by name."""
    return sorted([*_frame(), *_scheduler(), *_queues()], key=lambda row: row.name)


def page() -> str:
    lines = [
        f"| `{row.name}` | {row.kind} | {', '.join(row.labels) or 'none'} | {row.owner} |"
        f" {row.meaning} |"
        for row in metrics()
    ]
    return _HEAD + "\n".join(lines) + "\n"


def alerts() -> str:
    rules = [
        {
            "alert": alert.name,
            "expr": alert.expression,
            "for": alert.lasts,
            "labels": {"severity": alert.severity},
            "annotations": {
                "summary": alert.summary,
                "runbook": f"docs/runbooks.md#{alert.name.lower()}",
            },
        }
        for alert in ALERT_TABLE
    ]
    head = "# Made by tools/monitoring.py; do not edit. What each asks of you: docs/runbooks.md.\n"
    text: str = yaml.safe_dump(
        {"groups": [{"name": "muster", "rules": rules}]}, sort_keys=False, width=1000
    )
    return head + text


def dashboard(board: Board) -> str:
    """For Grafana: three panels a row, on whichever Prometheus is chosen."""
    panels = [
        {
            "id": number + 1,
            "type": "timeseries",
            "title": title,
            "datasource": {"type": "prometheus", "uid": "${source}"},
            "gridPos": {"h": 8, "w": 8, "x": 8 * (number % 3), "y": 8 * (number // 3)},
            "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
            "targets": [{"refId": "A", "expr": expression, "legendFormat": legend}],
        }
        for number, (title, expression, legend, unit) in enumerate(board.panels)
    ]
    source = {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    body: dict[str, Any] = {
        "uid": board.uid,
        "title": board.title,
        "schemaVersion": 39,
        "time": {"from": "now-6h", "to": "now"},
        "refresh": "30s",
        "templating": {"list": [source]},
        "panels": panels,
    }
    return json.dumps(body, indent=2) + "\n"


def files() -> dict[Path, str]:
    boards = {FOLDER / name: dashboard(board) for name, board in BOARDS.items()}
    return {PAGE: page(), ALERTS: alerts(), **boards}


def _frame() -> Iterator[MetricRow]:
    registry = CollectorRegistry()
    ClientMeters(registry)
    ControllerMeters(registry)
    InformerMeters(registry)
    meter_leader(registry, "", lambda: True)
    meter_events(registry, lambda: 0)
    meter_log(registry, lambda: 0)
    LoopLag(VirtualClock(), registry)
    yield from _rows(registry, "all")
    what = "1 for each key that is configured and does nothing."
    yield MetricRow("muster_configuration_without_effect", "gauge", ("key",), "some", what)


def _scheduler() -> Iterator[MetricRow]:
    registry = CollectorRegistry()
    SchedulerMeters(registry, DEFAULT.metrics_prefix)
    fetcher = UsageFetcher(lambda _: None, VirtualClock(), Log("metrics"))
    UsageMeters(registry, fetcher, DEFAULT.metrics_prefix)
    idle_meter(registry, DEFAULT.metrics_prefix)
    yield from _rows(registry, "scheduler")


def _queues() -> Iterator[MetricRow]:
    registry = CollectorRegistry()
    QueueMeters(registry)
    capacity_gauges(registry, DEFAULT.metrics_prefix)
    yield from _rows(registry, "queue-controller")


def _rows(registry: CollectorRegistry, owner: str) -> Iterator[MetricRow]:
    for collector in list(registry._collector_to_names):
        found: Any = collector
        for family in collector.collect():
            kind = family.type
            labels: Any = getattr(found, "_labelnames", ()) or getattr(family, "_labelnames", ())
            name = f"{family.name}_total" if kind == "counter" else family.name
            yield MetricRow(name, kind, tuple(labels), owner, family.documentation)


def main() -> None:
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
