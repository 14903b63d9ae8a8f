"""Volcano's `metrics` says where the use of pods is read."""

import pytest

from muster.engine.config.conf import SchedulerConf
from muster.engine.config.reader import ConfigError
from muster.engine.profiles.known import parse_for
from muster.engine.profiles.kube_batch import KUBE_BATCH
from muster.engine.profiles.volcano import VOLCANO

_CONF = "actions: allocate\ntiers: [{plugins: [{name: usage}]}]\nmetrics: "


def _read(metrics: str) -> SchedulerConf:
    return parse_for(VOLCANO, _CONF + metrics, "conf")


def test_the_prometheus_of_the_metrics_is_asked() -> None:
    found = _read("{type: prometheus, address: 'http://p:9090', interval: 45s}")
    assert found.utilisation is not None
    assert (found.utilisation.address, found.utilisation.fetch_interval_s) == ("http://p:9090", 45)
    assert found.utilisation.staleness_s == 300
    assert found.no_effect == ()


def test_our_own_key_is_read_too() -> None:
    text = _CONF.replace("metrics", "utilization") + "{connectionString: 'http://own:9090'}"
    found = parse_for(VOLCANO, text, "conf").utilisation
    assert found is not None
    assert found.address == "http://own:9090"


@pytest.mark.parametrize("kind", ["elasticsearch", "prometheus_adaptor"])
def test_another_source_is_a_warning_that_says_what_is_read(kind: str) -> None:
    found = _read(f"{{type: {kind}, address: 'http://p'}}")
    assert found.utilisation is None
    assert any("prometheus" in problem.message for problem in found.no_effect)


def test_a_source_whose_certificate_nobody_would_check_is_a_warning_and_not_read() -> None:
    found = _read("{address: 'https://p', tls: {insecureSkipVerify: 'true'}}")
    assert found.utilisation is None
    assert "utilization.caFile" in str(found.no_effect[0])


def test_what_concerns_another_source_is_a_warning() -> None:
    found = _read("{address: 'http://p', elasticsearch: {index: pods}}")
    assert found.utilisation is not None
    assert ["a Prometheus is read" in str(one) for one in found.no_effect] == [True]


@pytest.mark.parametrize(
    ("metrics", "where"),
    [
        ("{address: p}", "metrics.address"),
        ("{address: 'http://p', interval: soon}", "metrics.interval"),
    ],
)
def test_what_cannot_be_meant_names_its_key(metrics: str, where: str) -> None:
    with pytest.raises(ConfigError, match=where):
        _read(metrics)


def test_kube_batch_has_no_such_key() -> None:
    text = "actions: allocate\ntiers: [{plugins: [{name: gang}]}]\nmetrics: {address: 'http://p'}"
    found = parse_for(KUBE_BATCH, text, "conf")
    assert found.utilisation is None
    assert any("metrics" in str(problem) for problem in found.no_effect)
