"""Pods in the scheduler's copy are small, and share what they have in common."""

import json
from operator import attrgetter
from typing import Any

import pytest

from muster.api.codec import Unreadable, decode, from_builtins
from muster.api.core import Pod
from muster.services.scheduler.pod_interning import PodInterner, RawPod


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


def test_fields_that_no_decision_reads_are_dropped() -> None:
    manifest = {"kubectl.kubernetes.io/last-applied-configuration": "{...}", "mine": "yes"}
    kept = PodInterner()(pod("a", annotations=manifest))
    (container,) = kept.spec.containers
    assert (container.env, container.volume_mounts) == ((), ())
    assert kept.spec.volumes == ()
    assert dict(kept.metadata.annotations) == {"mine": "yes"}
    assert container.resources.requests["cpu"].milli == 4000


def test_equal_parts_of_pods_are_shared() -> None:
    transform = PodInterner()
    one, other = transform(pod("a")), transform(pod("b"))
    assert one.spec.containers[0] is other.spec.containers[0]
    assert one.spec.tolerations is other.spec.tolerations
    assert one.metadata.name != other.metadata.name


def test_words_that_all_pods_have_and_owners_are_shared() -> None:
    def running(name: str) -> Pod:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}
        ready = {"type": "Ready", "status": "True", "reason": "AsItShouldBe"}
        plain = {
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {"restartPolicy": "Always", "serviceAccountName": "default"},
            "status": {"phase": "Running", "qosClass": "Guaranteed", "conditions": [ready]},
        }
        return decode(RawPod, json.dumps(plain))

    transform = PodInterner()
    one, other = transform(running("a")), transform(running("b"))
    assert one.metadata.owner_references[0] is other.metadata.owner_references[0]
    for path in (
        "status.phase",
        "status.qos_class",
        "spec.restart_policy",
        "spec.service_account_name",
        "spec.overhead",
        "metadata.annotations",
    ):
        read = attrgetter(path)
        assert read(one) is read(other)
    assert one.status.conditions[0].type is other.status.conditions[0].type
    assert one.status.conditions[0].reason is other.status.conditions[0].reason


def sent(name: str, token: str, **source: Any) -> Pod:
    """As a server sends it, with the volume that it adds for the pod's token."""
    plain = {
        "metadata": {"name": name},
        "spec": {
            "containers": [{"name": "main", "volumeMounts": [{"name": token}]}],
            "volumes": [
                {"name": token, "projected": {"sources": [{"configMap": {"name": "ca"}}]}},
                *([{"name": "scratch", **source}] if source else []),
            ],
        },
    }
    return decode(RawPod, json.dumps(plain))


def test_the_service_account_token_volume_does_not_prevent_sharing() -> None:
    transform = PodInterner()
    one, other = (
        transform(sent("a", "kube-api-access-ab1cd")),
        transform(sent("b", "kube-api-access-xyz12")),
    )
    assert one.spec.containers is other.spec.containers
    (volume,), (container,) = one.spec.volumes, one.spec.containers
    assert [mount.name for mount in container.volume_mounts] == [volume.name]


def test_volumes_whose_names_matter_are_not_interned_by_name() -> None:
    kept = PodInterner()(sent("a", "kube-api-access-ab1cd", ephemeral={}))
    assert [volume.name for volume in kept.spec.volumes] == ["kube-api-access-ab1cd", "scratch"]


@pytest.mark.parametrize("part", ["metadata.labels", "spec.affinity", "spec.containers"])
def test_null_fields_read_as_absent(part: str) -> None:
    section, field = part.split(".")
    kept = PodInterner()(decode(RawPod, json.dumps({section: {field: None}})))
    assert getattr(getattr(kept, section), field) == getattr(getattr(Pod(), section), field)


def test_an_unreadable_part_is_named_by_its_path_in_the_pod() -> None:
    plain = {"spec": {"containers": [{"name": "a"}, {"name": "b", "ports": "many"}]}}
    with pytest.raises(Unreadable) as whole:
        from_builtins(Pod, plain)
    with pytest.raises(Unreadable) as kept:
        PodInterner()(decode(RawPod, json.dumps(plain)))
    assert (kept.value.path, kept.value.reason) == (whole.value.path, whole.value.reason)
    assert kept.value.path == "$.spec.containers[1].ports"


def test_interned_texts_are_bounded_in_size() -> None:
    transform = PodInterner()
    for number in range(60):
        transform(
            decode(RawPod, json.dumps({"metadata": {"labels": {"x": str(number) * 1_000_000}}}))
        )
    assert transform.decoded_bytes < 40_000_000


def test_interned_values_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.services.scheduler.pod_interning._INTERNED_MAX", 100)
    transform = PodInterner()
    for number in range(300):
        kept = transform(pod(f"p{number}", labels={"own": f"value-{number}"}))
        assert kept.metadata.labels == {"own": f"value-{number}"}
        assert len(transform._interned_values) < 120, "those of one pod more at most"


def test_images_are_held_only_where_a_policy_weighs_them() -> None:
    plain = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "work:1"}]}}
    for keeps_images, image in ((False, ""), (True, "work:1")):
        kept = PodInterner(keeps_images)(decode(RawPod, json.dumps(plain)))
        assert [one.image for one in kept.spec.containers] == [image]
