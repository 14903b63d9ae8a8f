"""The key `utilization`: what it means, and what is said of mistakes in it."""

import pytest

from muster.engine.config.conf import parse_conf
from muster.engine.config.reader import ConfigError
from muster.model.usage import IdlePolicy, UtilisationSettings


def parsed(text: str) -> UtilisationSettings | None:
    return parse_conf(f"actions: allocate\nutilization: {{{text}}}").utilisation


def test_without_the_key_nothing_is_measured() -> None:
    assert parsed("") is None


def test_the_usual_metrics_are_those_of_dcgm_exporter_and_of_the_kubelets() -> None:
    found = parsed("connectionString: http://p")
    assert found == UtilisationSettings("http://p")
    assert found is not None
    assert found.metrics.gpu == "DCGM_FI_DEV_GPU_UTIL"
    assert found.idle is None


def test_an_idle_policy_says_when_and_what_follows() -> None:
    found = parsed(
        "connectionString: http://p, idleGpus: {below: 10, after: 2h, preemptible: true}"
    )
    assert found is not None
    assert found.idle == IdlePolicy(10.0, 7200.0, True)
    found = parsed("connectionString: http://p, idleGpus: {}, metrics: {gpu: my_gpu}")
    assert found is not None
    assert found.idle == IdlePolicy(5.0, 3600.0, False), "nobody is preempted unless that is said"
    assert found.metrics.gpu == "my_gpu"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("fetchInterval: 1m", "utilization: give exactly one of connectionString and"),
        ("connectionString: p", "utilization.connectionString: is no address such as"),
        ("connectionString: http://p, idle: {}", "utilization.idle: unknown key"),
        (
            "connectionString: http://p, idleGpus: {below: 0}",
            "idleGpus.below: write a percentage above 0",
        ),
        (
            "connectionString: http://p, idleGpus: {after: 1m}",
            "idleGpus.after: must be at least 10m",
        ),
        (
            "connectionString: http://p, idleGpus: {preemptible: maybe}",
            'idleGpus.preemptible: "maybe" is neither true nor false',
        ),
        ("connectionString: http://p, metrics: {gpus: x}", "metrics.gpus: unknown key"),
    ],
)
def test_a_mistake_in_utilization_names_the_key(text: str, error: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parsed(text)
    assert error in str(raised.value)
