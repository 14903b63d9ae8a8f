"""Where the past use of queues comes from: KAI's `usageDBConfig`. Parsed here, read elsewhere."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from types import MappingProxyType
from typing import Final

from muster.api.validation.shards import USAGE_CLIENTS, USAGE_WINDOWS, prometheus_duration_s
from muster.base.cron import BadSchedule, parsed
from muster.engine.config.reader import Reader
from muster.model.usage import WEEK_S, UsageDatabase, UsageMetrics, UsageWindow

_KEYS = (
    "halfLifePeriod",
    "windowSize",
    "windowType",
    "fetchInterval",
    "stalenessPeriod",
    "waitTimeout",
    "tumblingWindowStartTime",
    "cronString",
    "extraParams",
)
_ALLOCATION: Final = {
    "gpu": "gpuAllocationMetric",
    "cpu": "cpuAllocationMetric",
    "memory": "memoryAllocationMetric",
}
_CAPACITY: Final = {
    "gpu": "gpuCapacityMetric",
    "cpu": "cpuCapacityMetric",
    "memory": "memoryCapacityMetric",
}
_EXTRA: Final = (
    "usageQueryTimeout",
    "queryResolution",
    "bearerTokenFile",
    "caFile",
    *_ALLOCATION.values(),
    *_CAPACITY.values(),
)
_HALF_LIFE_MIN_S: Final = 60.0
"""With less, the newest sample is forgotten already."""
_WINDOW_MIN_S: Final = 60.0
_WINDOW_MAX_S: Final = 100 * 365 * 86_400.0
"""Prometheus refuses to look back much longer."""
_STEPS_MAX: Final = 11_000
"""Samples of one queue in a window: what Prometheus allows in one answer, and what its default
limits bear for a thousand queues."""


def usage_database(reader: Reader) -> UsageDatabase | None:
    """KAI's `usageDBConfig`; None where it is absent or empty."""
    if not reader.value:
        return None
    reader.allow_only(("clientType", "connectionString", "connectionStringEnvVar", "usageParams"))
    client = reader.key("clientType").choice(USAGE_CLIENTS)
    address, variable = _address(reader, client)
    params = reader.key("usageParams")
    params.allow_only(_KEYS)
    window = _window(params)
    extra = params.key("extraParams")
    extra.allow_only(_EXTRA)
    fetch_s = at_least_1s(params.key("fetchInterval"), 60.0)
    return UsageDatabase(
        client=client,
        address=address,
        address_variable=variable,
        window=window,
        fetch_interval_s=fetch_s,
        staleness_s=max(fetch_s, positive_s(params.key("stalenessPeriod"), 300.0)),
        wait_timeout_s=positive_s(params.key("waitTimeout"), 60.0),
        query_timeout_s=positive_s(extra.key("usageQueryTimeout"), 10.0),
        resolution_s=_resolution_s(extra.key("queryResolution"), window),
        metrics=UsageMetrics(_texts(extra, _ALLOCATION), _texts(extra, _CAPACITY)),
        token_file=extra.key("bearerTokenFile").text(""),
        ca_file=extra.key("caFile").text(""),
    )


def _address(reader: Reader, client: str) -> tuple[str, str]:
    if client == "prometheus":
        return prometheus_address(reader)
    address = reader.key("connectionString").text("")
    variable = reader.key("connectionStringEnvVar").text("")
    if client == "embedded" and bool(address) == bool(variable):
        raise reader.wrong("give exactly one of connectionString and connectionStringEnvVar")
    return address, variable


def prometheus_address(reader: Reader) -> tuple[str, str]:
    """The address of a Prometheus, or the variable that holds it: one of the two."""
    address = reader.key("connectionString").text("")
    variable = reader.key("connectionStringEnvVar").text("")
    if bool(address) == bool(variable):
        raise reader.wrong("give exactly one of connectionString and connectionStringEnvVar")
    if address:
        prometheus_url(reader.key("connectionString"))
    return address, variable


def prometheus_url(reader: Reader) -> str:
    """An address that is written where it stands."""
    return reader.http_address("http://prometheus.monitoring:9090")


def _window(params: Reader) -> UsageWindow:
    kind = params.key("windowType").choice(USAGE_WINDOWS, "sliding")
    half_life_s = params.key("halfLifePeriod").duration_s(0.0)
    if 0 < half_life_s < _HALF_LIFE_MIN_S:
        raise params.key("halfLifePeriod").wrong("must be at least 1m, or 0s for none")
    return UsageWindow(
        half_life_s=half_life_s if half_life_s > 0 else None,
        size_s=_size_s(params.key("windowSize")),
        kind=kind,
        start_s=_start_s(params.key("tumblingWindowStartTime")) if kind == "tumbling" else 0.0,
        cron=_cron(params.key("cronString")) if kind == "cron" else "",
    )


def _size_s(reader: Reader) -> float:
    """As Prometheus writes durations (1w, 1y), or as KAI does elsewhere (168h0m0s)."""
    in_order = None if reader.is_absent else prometheus_duration_s(reader.text())
    size_s = positive_s(reader, WEEK_S) if in_order is None else in_order
    if size_s <= 0:
        raise reader.wrong("must be longer than 0s")
    if not _WINDOW_MIN_S <= size_s <= _WINDOW_MAX_S:
        raise reader.wrong("must be at least 1m, and at most 100y")
    return size_s


def _start_s(reader: Reader) -> float:
    if reader.is_absent:
        raise reader.wrong("is required for a tumbling window")
    given = reader.value
    if not isinstance(given, date):  # YAML itself reads a moment that is not quoted
        try:
            given = datetime.fromisoformat(reader.text())
        except ValueError:
            raise reader.wrong(
                f'"{reader.text()}" is no moment such as "2026-01-05T00:00:00Z"'
            ) from None
    if not isinstance(given, datetime):
        given = datetime(given.year, given.month, given.day, tzinfo=UTC)
    return (given if given.tzinfo else given.replace(tzinfo=UTC)).timestamp()


def _cron(reader: Reader) -> str:
    if reader.is_absent:
        raise reader.wrong("is required for a cron window")
    try:
        schedule = parsed(reader.text())
    except BadSchedule as error:
        raise reader.wrong(f"{error}; write five fields, like 0 0 * * 1") from None
    if schedule.next_s(0.0) is None:
        raise reader.wrong(f'"{reader.text()}" never comes: no month has that day')
    return reader.text()


def _resolution_s(reader: Reader, window: UsageWindow) -> float:
    """What is asked for; else a minute, and more in windows that have too many."""
    longest_s = window.size_s if window.kind != "cron" else WEEK_S
    usual_s = 60.0 * max(1, -int(-longest_s // (60 * _STEPS_MAX)))
    return at_least_1s(reader, usual_s)


def _texts(extra: Reader, keys: Mapping[str, str]) -> Mapping[str, str]:
    found = {name: extra.key(key).text("") for name, key in keys.items()}
    return MappingProxyType({name: text for name, text in found.items() if text})


def at_least_1s(reader: Reader, default: float) -> float:
    """How often something is done that costs somebody else something."""
    seconds = positive_s(reader, default)
    if seconds < 1.0:
        raise reader.wrong("must be at least 1s")
    return seconds


def positive_s(reader: Reader, default: float) -> float:
    """A duration that is longer than nothing, in seconds."""
    seconds = reader.duration_s(default)
    if seconds <= 0:
        raise reader.wrong("must be longer than 0s")
    return seconds
