"""Out-of-range workloads are an event on the pod."""

from typing import Any

import pytest
from tests.support.grouping import grouped, pod

from muster.services.podgrouper.groupers.go_text import duration_nanoseconds
from muster.services.podgrouper.groupers.group import GroupingError, Object
from muster.services.podgrouper.groupers.paths import is_path
from muster.services.podgrouper.owners import owner_chain

pytestmark = pytest.mark.timeout(20)
_JOB_SET = ("jobset.x-k8s.io/v1alpha2", "JobSet", "top")


def _top(spec: dict[str, Any]) -> dict[str, Any]:
    api_version, kind, name = _JOB_SET
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        (
            [{"name": f"j{at}", "replicas": 3_000} for at in range(2000)],
            "spec.replicatedJobs: up to j1 they have 6000 replicas in all, more than the 3000",
        ),
        (
            [{"name": "a", "template": {"spec": {"parallelism": 2**40}}}],
            "minMember of sub-group a-replica-0 would be 1099511627776, more than the 2147483647",
        ),
    ],
)
def test_a_job_set_beyond_the_bounds_is_an_event_and_gets_no_pod_group(
    jobs: list[dict[str, Any]], words: str
) -> None:
    labels = {
        "jobset.sigs.k8s.io/replicatedjob-name": str(jobs[0]["name"]),
        "jobset.sigs.k8s.io/job-index": "0",
    }
    outcome = grouped([_top({"replicatedJobs": jobs}), pod("p", _JOB_SET, **labels)]).outcome()
    assert outcome["podgroups"] == []
    (event,) = outcome["events"]
    assert words in event["message"]


@pytest.mark.parametrize(("groups", "is_refused"), [(3_999, False), (4_000, True)])
def test_a_ray_cluster_of_too_many_worker_groups_is_an_event_and_gets_no_pod_group(
    groups: int, is_refused: bool
) -> None:
    """Its head is a sub-group too."""
    owner = ("ray.io/v1", "RayCluster", "top")
    workers = [{"groupName": f"g{at}", "replicas": 1, "minReplicas": 1} for at in range(groups)]
    spec = {"headGroupSpec": {}, "workerGroupSpecs": workers}
    top = {"apiVersion": owner[0], "kind": owner[1], "metadata": {"name": "top"}, "spec": spec}
    outcome = grouped([top, pod("p", owner, **{"ray.io/group": "headgroup"})]).outcome()
    if is_refused:
        assert outcome["podgroups"] == []
        (event,) = outcome["events"]
        assert "would have 4001 sub-groups, more than the 4000 allowed" in event["message"]
    else:
        (made,) = outcome["podgroups"]
        assert len(made["spec"]["subGroups"]) == 4_000


def _walk(objects: dict[str, Object], thing: Object) -> list[Object]:
    walk = owner_chain(thing)
    try:
        ref = next(walk)
        while True:
            ref = walk.send(objects[ref.name])
    except StopIteration as end:
        found: list[Object] = end.value
        return found


def _owned(name: str, owner: str) -> Object:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": owner}
    metadata = {"name": name, "uid": name, "ownerReferences": [reference] if owner else []}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}


@pytest.mark.parametrize(
    ("owners", "words"),
    [
        ({"a": "a"}, r"go in a circle: ConfigMap a -> ConfigMap a; remove one of these"),
        ({"a": "b", "b": "c", "c": "b"}, r"circle: ConfigMap b -> ConfigMap c -> ConfigMap b;"),
        (
            {"a": "n1"} | {f"n{at}": f"n{at + 1}" for at in range(1, 100_000)},
            r"metadata\.ownerReferences: more than 32 owners .* up to ConfigMap n32; remove the",
        ),
    ],
)
def test_circular_or_too_long_owner_chains_are_a_grouping_error(
    owners: dict[str, str], words: str
) -> None:
    objects = {name: _owned(name, owner) for name, owner in owners.items()}
    with pytest.raises(GroupingError, match=words):
        _walk(objects, _owned("pod", "a"))


@pytest.mark.parametrize("text", ["1" * 250_000, "." * 250_000, "1h" * 200, "9" * 255 + "h"])
def test_an_overlong_duration_is_refused_with_a_short_message(text: str) -> None:
    with pytest.raises(ValueError, match="invalid duration") as refused:
        duration_nanoseconds(text)
    assert len(str(refused.value)) < 400


def test_an_overlong_index_is_no_path() -> None:
    assert is_path(".spec.replicas[12]")
    assert not is_path(".spec.replicas[" + "9" * 5000 + "]")


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (
            {"apiVersion": "../../api/v1/secrets?watch=1#"},
            r"apiVersion: '\.\./\.\./api/v1/secrets\?",
        ),
        ({"apiVersion": "../v1"}, r"apiVersion: '\.\./v1' is not <group>/<version>; remove this"),
        ({"apiVersion": "v1\n"}, r"apiVersion: 'v1\\n' is not"),
        ({"apiVersion": "a" * 1_000_000}, r"apiVersion: 'a{80}'\.\.\. is not"),
        ({"kind": "Config/Map"}, r"kind: 'Config/Map' is not the name of a kind"),
        ({"name": "../../secrets/x"}, r"name: '\.\./\.\./secrets/x' is not the name of an object"),
        ({"name": ".."}, r"name: '\.\.' is not the name of an object"),
        ({"name": "a%2fb"}, r"name: 'a%2fb' is not"),
    ],
)
def test_an_owner_reference_that_would_be_another_request_is_never_asked_for(
    reference: dict[str, str], words: str
) -> None:
    thing = _owned("pod", "a")
    thing["metadata"]["ownerReferences"][0].update(reference)
    with pytest.raises(GroupingError, match=rf"metadata\.ownerReferences: {words}"):
        next(owner_chain(thing))


@pytest.mark.parametrize("name", ["system:node", "a.b-c", "UPPER_case", "..a"])
def test_odd_names_that_kubernetes_allows_are_asked_for(name: str) -> None:
    thing = _owned("pod", name)
    thing["metadata"]["ownerReferences"][0]["apiVersion"] = "kubeflow.org/v1"
    assert next(owner_chain(thing)).name == name
