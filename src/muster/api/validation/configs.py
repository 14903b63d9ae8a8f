"""The install-wide Config: ports, counts, names and durations that can be used."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from muster.api.bounds import REPLICAS_MAX
from muster.api.codec import builtins
from muster.api.config import Config, Image, PrometheusConfig
from muster.api.config_defaults import METRICS_PORT, defaulted_config
from muster.api.meta import Struct
from muster.api.names import DEFAULT
from muster.api.quantity import BadQuantity, Quantity
from muster.api.validation.config_texts import text_problems
from muster.api.validation.problems import (
    Problem,
    Problems,
    given,
    is_dns_label,
    is_label_key,
    unlike,
    warning,
)
from muster.api.validation.shards import prometheus_duration_s

_PORTS: Final = frozenset({"port", "targetPort", "probePort", "metricsPort"})
_REPLICAS: Final = frozenset({"replicas", "replicaCount"})
_ABOVE_0: Final = frozenset({"qps", "burst", "maxConcurrentReconciles", "allocationTimeout"})
_AWAY: Final = frozenset({"maxUnavailable"})
_SHARES: Final = frozenset({"gpuMemoryToFractionRatio"})
_PULL_POLICIES: Final = ("IfNotPresent", "Always", "Never")


def config_problems(config: Config) -> Problems:
    """What the operator could not install."""
    if config.metadata.name != DEFAULT.config:
        message = f"only {DEFAULT.config} is read"
        yield warning("metadata.name", message, f"name it {DEFAULT.config}")
    yield from _field_problems("spec", config.spec)
    yield from _key_problems(config)
    yield from _port_problems(config)
    yield from _pair_problems(config)
    if config.spec.prometheus is not None:
        yield from _prometheus_problems(config.spec.prometheus)


def _field_problems(path: str, struct: Struct) -> Problems:
    for name, value in _fields(struct):
        where = f"{path}.{name}"
        yield from text_problems(where, name, value)
        if isinstance(value, Image) and value.pull_policy is not None:
            yield from unlike(f"{where}.pullPolicy", value.pull_policy, _PULL_POLICIES)
        if isinstance(value, Struct):
            yield from _field_problems(where, value)
        elif name in _PORTS and value is not None and not 0 < value < 65536:
            yield Problem(where, f"{value} is no port", "write 1 to 65535")
        elif name in _REPLICAS and value is not None and not 0 <= value <= REPLICAS_MAX:
            yield Problem(where, f"{value} replicas cannot be", f"write 0 to {REPLICAS_MAX}")
        elif name in _ABOVE_0 and value is not None and value < 1:
            yield Problem(where, f"{value} is not above 0", "write 1 or more, or leave it out")
        elif name in _AWAY and value is not None and value < 0:
            yield Problem(where, f"{value} is negative", "write 0 or more")
        elif name in _SHARES and value is not None and not 0 < value <= 1:
            yield Problem(where, f"{value:g} is no part of a GPU", "write more than 0, at most 1")


def _fields(struct: Struct) -> Iterator[tuple[str, Any]]:
    described: Any = struct
    for field in msgspec.structs.fields(described):
        yield field.encode_name, getattr(struct, field.name)


def _key_problems(config: Config) -> Problems:
    everywhere = config.spec.global_
    for path, key in given("spec.global", everywhere, "queue_label_key", "node_pool_label_key"):
        if not is_label_key(key):
            yield Problem(path, f"{key!r} is no label key", "write one like kai.scheduler/queue")
    for path, name in given("spec.global", everywhere, "scheduler_name"):
        if not name:
            yield Problem(path, "it is empty", "write a name, or leave it out")
        elif not is_dns_label(name):
            message = f"{name!r} is no DNS label, and the Services of shards are called after it"
            yield Problem(path, message, "use lower-case letters, digits and -")


def _port_problems(config: Config) -> Problems:
    """Of pods and Services that have two ports, which cannot be one and the same."""
    spec = builtins(defaulted_config(config).spec)
    webhook, pages = spec["admission"]["webhook"], spec["dashboard"]
    fix, path = "give each a port of its own", "spec.admission.webhook"
    metrics = webhook["metricsPort"]
    for other in ("targetPort", "port"):
        if metrics == webhook[other]:
            yield Problem(f"{path}.metricsPort", f"{metrics} is {other}, too", fix)
            break
    if pages["port"] == METRICS_PORT:
        yield Problem("spec.dashboard.port", f"{METRICS_PORT} is that of its metrics", fix)


def _pair_problems(config: Config) -> Problems:
    lists = ("queue_label_to_metric_label", "queue_label_to_default_metric_value")
    for path, text in given("spec.queueController", config.spec.queue_controller, *lists):
        parts = [part for part in text.split(",") if part]
        if any(part.count("=") != 1 or part.startswith("=") for part in parts):
            yield Problem(path, f"{text!r} is no list of pairs", "write label=value,label=value")


def _prometheus_problems(prometheus: PrometheusConfig) -> Problems:
    path, monitor = "spec.prometheus", prometheus.service_monitor
    texts = [
        *given(path, prometheus, "retention_period", "sample_interval"),
        *given(f"{path}.serviceMonitor", monitor, "interval", "scrape_timeout"),
    ]
    for where, text in texts:
        if prometheus_duration_s(text) is None:
            yield Problem(where, f"{text!r} is no Prometheus duration", "write one like 2w or 30s")
    try:
        Quantity(prometheus.storage_size or "0")
    except BadQuantity as error:
        yield Problem("spec.prometheus.storageSize", str(error), "write an amount like 50Gi")
