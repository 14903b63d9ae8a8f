"""KAI's `usageDBConfig`: what it means, and what is said of mistakes in it."""

import pytest

from muster.engine.config.conf import parse_conf
from muster.engine.config.reader import ConfigError
from muster.model.usage import UsageDatabase, UsageWindow


def parsed(
    params: str, client: str = "clientType: prometheus, connectionString: http://p"
) -> UsageDatabase:
    text = f"actions: allocate\nusageDBConfig: {{{client}, usageParams: {{{params}}}}}"
    found = parse_conf(text).usage
    assert found is not None
    return found


@pytest.mark.row(31)
def test_usage_is_read_every_minute_is_stale_after_five_and_waited_for_a_minute() -> None:
    found = parsed("")
    assert (found.fetch_interval_s, found.staleness_s, found.wait_timeout_s) == (60, 300, 60)
    assert found.window == UsageWindow(None, 604_800, "sliding")
    assert (found.query_timeout_s, found.resolution_s) == (10, 60)


@pytest.mark.row(30)
def test_without_a_usage_database_there_is_no_past_usage() -> None:
    assert parse_conf("actions: allocate").usage is None
    assert parse_conf("actions: allocate\nusageDBConfig: {}").usage is None


def test_staleness_is_at_least_the_fetch_interval() -> None:
    assert parsed("fetchInterval: 10m").staleness_s == 600


@pytest.mark.parametrize(
    ("params", "window"),
    [
        ("windowSize: 2d, halfLifePeriod: 12h", UsageWindow(43_200, 172_800)),
        ("windowSize: 168h0m0s", UsageWindow(None, 604_800)),
        ("windowSize: 1y", UsageWindow(None, 31_536_000)),
        ("halfLifePeriod: 0s", UsageWindow()),
        ("halfLifePeriod: -1h", UsageWindow()),
        (
            'windowType: tumbling, windowSize: 1d, tumblingWindowStartTime: "2026-01-05T00:00:00Z"',
            UsageWindow(None, 86_400, "tumbling", 1_767_571_200),
        ),
        (
            "windowType: tumbling, tumblingWindowStartTime: 2026-01-05T01:00:00+01:00",
            UsageWindow(None, 604_800, "tumbling", 1_767_571_200),
        ),
        (
            "windowType: tumbling, tumblingWindowStartTime: 2026-01-05",
            UsageWindow(None, 604_800, "tumbling", 1_767_571_200),
        ),
        (
            "windowType: cron, cronString: 0 0 * * 1",
            UsageWindow(None, 604_800, "cron", 0, "0 0 * * 1"),
        ),
    ],
)
def test_a_usage_window_says_which_past_counts(params: str, window: UsageWindow) -> None:
    assert parsed(params).window == window


def test_extra_parameters_name_metrics_and_bounds() -> None:
    extra = (
        "usageQueryTimeout: 30s, queryResolution: 5m, gpuAllocationMetric: a, cpuCapacityMetric: b"
    )
    found = parsed(f"extraParams: {{{extra}}}")
    assert (found.query_timeout_s, found.resolution_s) == (30, 300)
    assert dict(found.metrics.allocation) == {"gpu": "a"}
    assert dict(found.metrics.capacity) == {"cpu": "b"}


def test_a_long_window_has_samples_further_apart() -> None:
    assert parsed("windowSize: 30d").resolution_s == 240
    assert parsed("windowSize: 30d, extraParams: {queryResolution: 1m}").resolution_s == 60


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ("windowType: round", '.windowType: "round" is not one of sliding, tumbling, cron'),
        ("windowType: tumbling", ".tumblingWindowStartTime: is required for a tumbling window"),
        (
            "windowType: tumbling, tumblingWindowStartTime: monday",
            '.tumblingWindowStartTime: "monday" is no moment such as "2026-01-05T00:00:00Z"',
        ),
        ("windowType: cron", ".cronString: is required for a cron window"),
        ("windowType: cron, cronString: daily", ".cronString: 'daily': expected exactly 5 fields"),
        ("windowType: cron, cronString: 0 0 30 2 *", '"0 0 30 2 *" never comes'),
        ("windowSize: 0s", ".windowSize: must be longer than 0s"),
        ("windowSize: long", '.windowSize: "long" is not a duration'),
        ("windowSize: 1ns", ".windowSize: must be at least 1m, and at most 100y"),
        ("windowSize: 99999999999y", ".windowSize: must be at least 1m, and at most 100y"),
        ("fetchInterval: 0s", ".fetchInterval: must be longer than 0s"),
        ("fetchInterval: 1ms", ".fetchInterval: must be at least 1s"),
        ("halfLifePeriod: 59s", ".halfLifePeriod: must be at least 1m, or 0s for none"),
        ("waitTimeout: -1s", ".waitTimeout: must be longer than 0s"),
        ("extraParams: {queryResolution: 1ms}", ".queryResolution: must be at least 1s"),
        ("extraParams: {gpuMetric: x}", ".gpuMetric: unknown key; known are bearerTokenFile"),
        ("window: 1d", ".window: unknown key"),
    ],
)
def test_a_mistake_in_usage_parameters_names_the_key(params: str, error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parsed(params)
    assert error in str(raised.value)


@pytest.mark.parametrize(
    ("client", "error"),
    [
        ("clientType: prometheus", "give exactly one of connectionString and"),
        ("clientType: embedded", "give exactly one of connectionString and"),
        (
            "clientType: prometheus, connectionString: localhost",
            "connectionString: is no address such as",
        ),
        (
            "clientType: prometheus, connectionString: http://p, connectionStringEnvVar: P",
            "give exactly one of connectionString and",
        ),
    ],
)
def test_a_mistake_in_the_address_names_the_key(client: str, error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parsed("", client)
    assert error in str(raised.value)


@pytest.mark.parametrize(
    "address",
    ["http://", "http:///x", "http://[::1:9", "http://p:99999", "http://p:0", "http://p?x=1"],
)
def test_an_address_without_a_host_or_a_port_that_is_one_is_a_mistake(address: str) -> None:
    with pytest.raises(ConfigError, match="connectionString: is no address such as"):
        parsed("", f'clientType: prometheus, connectionString: "{address}"')
