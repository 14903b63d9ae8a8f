"""Where the real utilisation of pods is read: `utilization`, a key of our own.

utilization:
  connectionString: http://prometheus.monitoring:9090
  idleGpus: {below: 5, after: 1h, preemptible: true}
  overcommit: {over: 1h, margin: 20, most: 30}
"""

from muster.engine.config.reader import ConfigError, Reader
from muster.engine.config.usage import at_least_1s, positive_s, prometheus_address, prometheus_url
from muster.model.usage import (
    IdlePolicy,
    OvercommitPolicy,
    UtilisationMetrics,
    UtilisationSettings,
)

_KEYS = (
    "connectionString",
    "connectionStringEnvVar",
    "fetchInterval",
    "stalenessPeriod",
    "queryTimeout",
    "bearerTokenFile",
    "caFile",
    "metrics",
    "idleGpus",
    "overcommit",
)
_FORGOTTEN_S = 300.0
"""What is older does not count for Volcano."""
_METRICS = ("gpu", "gpuMemory", "cpu", "memory")


def utilisation_settings(reader: Reader) -> UtilisationSettings | None:
    """None where it is absent or empty."""
    if not reader.value:
        return None
    reader.allow_only(_KEYS)
    address, variable = prometheus_address(reader)
    fetch_s = at_least_1s(reader.key("fetchInterval"), 60.0)
    return UtilisationSettings(
        address=address,
        address_variable=variable,
        fetch_interval_s=fetch_s,
        staleness_s=max(fetch_s, positive_s(reader.key("stalenessPeriod"), 300.0)),
        query_timeout_s=positive_s(reader.key("queryTimeout"), 10.0),
        token_file=reader.key("bearerTokenFile").text(""),
        ca_file=reader.key("caFile").text(""),
        metrics=_metrics(reader.key("metrics")),
        idle=_idle(reader.key("idleGpus")),
        overcommit=_overcommit(reader.key("overcommit")),
    )


def volcano_metrics(reader: Reader) -> UtilisationSettings | None:
    """The same from Volcano's `metrics: {type: prometheus, address: ..., interval: 30s}`; None
    where it names another source than a Prometheus, or one that nobody could trust.
    """
    reader.allow_only(("type", "address", "interval", "tls", "elasticsearch"))
    if not reader.key("elasticsearch").is_absent:
        reader.key("elasticsearch").has_no_effect("a Prometheus is read")
    reader.key("tls").allow_only(("insecureSkipVerify",))
    if problem := _why_not_read(reader):
        if reader.on_unknown is None:
            raise problem
        reader.on_unknown(problem)
        return None
    fetch_s = positive_s(reader.key("interval"), 30.0)
    return UtilisationSettings(
        address=prometheus_url(reader.key("address")),
        fetch_interval_s=fetch_s,
        staleness_s=max(fetch_s, _FORGOTTEN_S),
    )


def _why_not_read(reader: Reader) -> ConfigError | None:
    if reader.key("type").text("prometheus") != "prometheus":
        return reader.key("type").wrong(
            'only "prometheus" is read: usage and rescheduling have nothing to go by'
        )
    if reader.key("tls").key("insecureSkipVerify").flag(False):
        return reader.key("tls").wrong(
            "certificates are always verified, so usage and rescheduling have nothing to go by: "
            "write utilization.caFile instead of metrics"
        )
    return None


def _metrics(reader: Reader) -> UtilisationMetrics:
    reader.allow_only(_METRICS)
    usual = UtilisationMetrics()
    return UtilisationMetrics(
        gpu=reader.key("gpu").text(usual.gpu),
        gpu_memory=reader.key("gpuMemory").text(usual.gpu_memory),
        cpu=reader.key("cpu").text(usual.cpu),
        memory=reader.key("memory").text(usual.memory),
    )


def _idle(reader: Reader) -> IdlePolicy | None:
    if reader.is_absent:
        return None
    reader.allow_only(("below", "after", "preemptible"))
    usual = IdlePolicy()
    below = reader.key("below").number(usual.below_percent)
    if not 0 < below <= 100:
        raise reader.key("below").wrong("write a percentage above 0 and at most 100")
    after_s = positive_s(reader.key("after"), usual.after_s)
    if after_s < 10 * usual.resolution_s:
        raise reader.key("after").wrong("must be at least 10m: shorter pauses are not idleness")
    return IdlePolicy(below, after_s, reader.key("preemptible").flag(False))


def _overcommit(reader: Reader) -> OvercommitPolicy | None:
    if reader.is_absent:
        return None
    reader.allow_only(("over", "margin", "most"))
    usual = OvercommitPolicy()
    over_s = positive_s(reader.key("over"), usual.over_s)
    if over_s < 10 * usual.resolution_s:
        raise reader.key("over").wrong("must be at least 10m: shorter peaks say too little")
    margin = reader.key("margin").number(usual.margin_part * 100)
    if not 0 <= margin < 100:
        raise reader.key("margin").wrong("write a percentage of at least 0 and below 100")
    most = reader.key("most").number(usual.most_part * 100)
    if not 0 < most <= 100:
        raise reader.key("most").wrong("write a percentage above 0 and at most 100")
    return OvercommitPolicy(over_s, margin / 100, most / 100)
