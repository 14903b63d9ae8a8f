"""Where the past use of queues comes from: KAI's `usageDBConfig`. Parsed here, read elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from muster.api.validation.shards import USAGE_CLIENTS, USAGE_WINDOWS
from muster.engine.config.reader import Reader

_WEEK_S = 604800.0
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


@dataclass(frozen=True, slots=True)
class UsageWindow:
    """Which past counts, and how much."""

    half_life_s: float | None = None
    size_s: float = _WEEK_S
    kind: str = "sliding"
    start_time: str = ""
    cron: str = ""


@dataclass(frozen=True, slots=True)
class UsageDatabase:
    """How to reach the record of past use, and how often to ask it."""

    client: str
    address: str = ""
    address_variable: str = ""
    window: UsageWindow = UsageWindow()
    fetch_interval_s: float = 60.0
    staleness_s: float = 300.0
    wait_timeout_s: float = 60.0
    extra: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def usage_database(reader: Reader) -> UsageDatabase | None:
    """KAI's `usageDBConfig`; None where it is absent or empty."""
    if not reader.value:
        return None
    reader.allow_only(("clientType", "connectionString", "connectionStringEnvVar", "usageParams"))
    address = reader.key("connectionString").text("")
    variable = reader.key("connectionStringEnvVar").text("")
    client = reader.key("clientType").choice(USAGE_CLIENTS)
    if client == "prometheus" and bool(address) == bool(variable):
        raise reader.wrong("give exactly one of connectionString and connectionStringEnvVar")
    params = reader.key("usageParams")
    params.allow_only(_KEYS)
    fetch_s = _positive(params.key("fetchInterval"), 60.0)
    return UsageDatabase(
        client=client,
        address=address,
        address_variable=variable,
        window=_window(params),
        fetch_interval_s=fetch_s,
        staleness_s=max(fetch_s, _positive(params.key("stalenessPeriod"), 300.0)),
        wait_timeout_s=_positive(params.key("waitTimeout"), 60.0),
        extra=MappingProxyType({name: v.text() for name, v in params.key("extraParams").items()}),
    )


def _window(params: Reader) -> UsageWindow:
    kind = params.key("windowType").choice(USAGE_WINDOWS, "sliding")
    start = params.key("tumblingWindowStartTime").text("")
    cron = params.key("cronString").text("")
    if kind == "tumbling" and not start:
        raise params.key("tumblingWindowStartTime").wrong("is required for a tumbling window")
    if kind == "cron" and not cron:
        raise params.key("cronString").wrong("is required for a cron window")
    half_life_s = params.key("halfLifePeriod").duration_s(0.0)
    return UsageWindow(
        half_life_s=half_life_s if half_life_s > 0 else None,
        size_s=_positive(params.key("windowSize"), _WEEK_S),
        kind=kind,
        start_time=start,
        cron=cron,
    )


def _positive(reader: Reader, default: float) -> float:
    seconds = reader.duration_s(default)
    if seconds <= 0:
        raise reader.wrong("must be longer than 0s")
    return seconds
