"""Pods in the scheduler's copy are small, and share what they have in common."""

from typing import Any

from muster.api.codec import from_builtins
from muster.api.core import Pod
from muster.services.scheduler.keep import PodKeeper


def pod(name: str, **metadata: Any) -> Pod:
    container = {
        "name": "main",
        "image": "registry.example/trainer",
        "env": [{"name": f"SETTING_{number}", "value": "x" * 50} for number in range(20)],
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
        "resources": {"requests": {"cpu": "4", "nvidia.com/gpu": "1"}},
    }
    spec = {
        "containers": [container],
        "volumes": [{"name": "scratch", "emptyDir": {}}],
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
    }
    return from_builtins(Pod, {"metadata": {"name": name, **metadata}, "spec": spec})


def test_what_no_decision_reads_is_not_kept() -> None:
    manifest = {"kubectl.kubernetes.io/last-applied-configuration": "{...}", "mine": "yes"}
    kept = PodKeeper()(pod("a", annotations=manifest))
    (container,) = kept.spec.containers
    assert (container.env, container.volume_mounts, container.image) == ((), (), "")
    assert kept.spec.volumes == ()
    assert dict(kept.metadata.annotations) == {"mine": "yes"}
    assert container.resources.requests["cpu"].milli == 4000


def test_pods_share_what_they_have_in_common() -> None:
    keep = PodKeeper()
    one, other = keep(pod("a")), keep(pod("b"))
    assert one.spec.containers[0] is other.spec.containers[0]
    assert one.spec.tolerations is other.spec.tolerations
    assert one.metadata.name != other.metadata.name
