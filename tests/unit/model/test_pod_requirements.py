"""Equal pods share their cached requirements."""

from typing import Any

import pytest

from muster.api.codec import builtins, from_builtins
from muster.api.core import Pod
from muster.model.pod_requirements import RequirementsCache, requirements_of
from muster.services.scheduler.pod_interning import PodInterner


def pod(number: int, **spec: Any) -> Pod:
    resources = {"requests": {"cpu": "1", "nvidia.com/gpu": "1"}}
    return from_builtins(
        Pod,
        {
            "metadata": {"name": f"pod-{number}", "namespace": "ns", "uid": f"u{number}"},
            "spec": {"containers": [{"name": "main", "resources": resources}], **spec},
        },
    )


def test_equal_pods_share_their_cached_requirements() -> None:
    transform, memo = PodInterner(), RequirementsCache()
    first, second = (memo(transform(pod(number)), {}, False) for number in range(2))
    assert first is second


@pytest.mark.parametrize(
    "spec",
    [
        {"volumes": [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]},
        {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one"}]},
    ],
    ids=["a volume named after the pod", "claims made for the pod"],
)
def test_requirements_with_volumes_or_claims_of_one_pod_are_not_shared(
    spec: dict[str, Any],
) -> None:
    transform, memo = PodInterner(), RequirementsCache()
    first, second = (memo(transform(pod(number, **spec)), {}, False) for number in range(2))
    assert first is not second


def test_a_pod_with_a_changed_request_gets_new_requirements() -> None:
    transform, memo = PodInterner(), RequirementsCache()
    before = memo(transform(pod(1)), {}, False)
    larger = {"name": "main", "resources": {"requests": {"cpu": "2"}}}
    after = memo(transform(pod(1, containers=[larger])), {}, False)
    assert (before.amounts["cpu"], after.amounts["cpu"]) == (1000, 2000)


_CLAIM = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
_MIG = "nvidia.com/mig-1g.5gb"


@pytest.mark.parametrize(
    ("metadata", "status"),
    [
        ({"namespace": "other"}, {}),
        ({"annotations": {_MIG: "1"}}, {}),
        ({"annotations": {"gpu-memory": "5000"}}, {}),
        ({}, {"qosClass": "Guaranteed"}),
    ],
    ids=["namespace", "legacy MIG", "GPU memory", "quality of service"],
)
def test_pods_of_equal_specs_that_differ_elsewhere_do_not_share_requirements(
    metadata: dict[str, Any], status: dict[str, Any]
) -> None:
    transform, memo = PodInterner(), RequirementsCache()
    plain = builtins(pod(1, **_CLAIM))
    metadata, spec = {**plain["metadata"], **metadata}, plain["spec"]
    other = from_builtins(Pod, {"metadata": metadata, "spec": spec, "status": status})
    first, second = transform(pod(1, **_CLAIM)), transform(other)
    assert memo(first, {}, True) == requirements_of(first, {}, True)
    assert memo(second, {}, True) == requirements_of(second, {}, True)
    assert memo(first, {}, True) != memo(second, {}, True)


def test_cached_requirements_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.model.pod_requirements._MEMO_SIZE_MAX", 10)
    memo = RequirementsCache()
    for number in range(50):
        found = memo(pod(number, nodeSelector={"node": f"n{number}"}), {}, False)
        assert found == requirements_of(pod(number, nodeSelector={"node": f"n{number}"}), {}, False)
        assert len(memo._known) <= 10
