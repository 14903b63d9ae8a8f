"""Every kind of workload on a running cluster: by its CRD, or by Kubernetes' own controllers."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

import pytest
from tests.support.apply import any_shape, apply_one, kind_of, owner_of
from tests.support.golden import Golden, goldens
from tests.support.kube_lab import on_kube
from tests.support.lab import (
    DEPLOYMENT,
    POD,
    POD_GROUP,
    Lab,
    Setting,
    in_lab,
    pod_body,
)

from muster.api.meta import Key
from muster.client.kinds import Plain, plain_kind
from muster.client.write import Deletion, Propagation
from muster.lab.control_plane import ControlPlane
from muster.sim.kubelet.nodes import Gpus, NodeGroup

CRON_JOB = plain_kind("batch", "v1", "CronJob", "cronjobs")
STATEFUL_SET = plain_kind("apps", "v1", "StatefulSet", "statefulsets")
NAMESPACE = plain_kind("", "v1", "Namespace", "namespaces", namespaced=False)

# A kind that nobody knows needs a right to be read, which the guide's test gives.
_CUSTOM = [golden for golden in goldens() if golden.is_custom() and golden.name != "unknown"]
_BUILT_IN = [golden for golden in goldens() if not golden.is_custom()]
_TWO_NIGHTS_S = 2 * 86_400.0
_GROUPER_ALONE = Setting(nodes=(), without=("scheduler", "binder", "admission", "scaleadjuster"))
_A_NODE = Setting(nodes=(NodeGroup("gpu", count=1, gpus=Gpus(count=8)),))
_WITH_PARTS = Deletion(propagation=Propagation.BACKGROUND, grace_s=0)


@pytest.mark.row(91)
@pytest.mark.row(105)
@pytest.mark.row(106)
def test_every_custom_kind_is_grouped_on_a_cluster_that_has_it() -> None:
    async def scenario(lab: Lab) -> None:
        for definition in _definitions():
            await apply_one(lab, definition)
        uids: dict[str, str] = {}
        for golden in _CUSTOM:
            await lab.create(NAMESPACE, {"metadata": {"name": golden.name}})
            uids |= await _create(lab, golden)
        await lab.laptop.settled()
        for golden in _CUSTOM:
            found = {
                _named(group["metadata"]["name"], uids): group["spec"]
                for group in await lab.all(POD_GROUP, golden.name)
            }
            assert found == golden.groups, golden.name
            members = {
                pod["metadata"]["name"]: _member(pod, uids)
                for pod in await lab.all(POD, golden.name)
            }
            assert members == golden.members, golden.name
        assert await lab.messages("PodGrouperWarning") == []

    in_lab(scenario, _GROUPER_ALONE)


def test_a_misspelled_label_of_the_queue_is_told_at_the_pod_and_an_absent_one_is_not() -> None:
    async def scenario(lab: Lab) -> None:
        for name, labels in (("lost", {"kai.scheduler/que": "team"}), ("plain", {"app": "x"})):
            body = pod_body(name)
            body["metadata"]["labels"] = labels
            await lab.create(POD, body)
        await lab.laptop.settled()
        (said,) = await lab.messages("PodGrouperWarning")
        assert await lab.messages("PodGrouperWarning", "lost") == [said]
        assert 'the label "kai.scheduler/que"; did you mean kai.scheduler/queue?' in said

    in_lab(scenario, _GROUPER_ALONE)


@pytest.mark.row(91)
@pytest.mark.row(105)
@pytest.mark.parametrize("golden", _BUILT_IN, ids=lambda golden: golden.name)
def test_every_built_in_workload_is_grouped_as_its_controller_creates_the_pods(
    golden: Golden,
) -> None:
    async def scenario(lab: Lab) -> None:
        for thing, owner in golden.things():
            if not owner:
                await lab.cluster.writer.create(kind_of(thing), thing, lab.namespace)
        if golden.name == "cronjob":
            await lab.clock.sleep(_TWO_NIGHTS_S)
        await lab.laptop.settled()
        groups = {one["metadata"]["name"]: one["spec"] for one in await lab.all(POD_GROUP)}
        assert _counted(groups.values()) == _counted(golden.groups.values())
        pods = await lab.all(POD, lab.namespace)
        assert pods
        assert {pod["metadata"]["annotations"]["pod-group-name"] for pod in pods} == set(groups)

    in_lab(scenario, _GROUPER_ALONE)


@pytest.mark.kube
@pytest.mark.row(105)
def test_kubernetes_own_workloads_run_end_to_end(product_plane: ControlPlane) -> None:
    async def scenario(lab: Lab) -> None:
        # Deployments serve: their class is not preemptible, so they stay within a quota.
        await lab.queue("team", gpus=8)
        template = _template("calendar")
        run = {"spec": {"template": {**template, "spec": {**template["spec"], **_ONCE}}}}
        await lab.create(
            CRON_JOB,
            {
                "metadata": {"name": "calendar"},
                # One, however many minutes the others take.
                "spec": {
                    "schedule": "* * * * *",
                    "concurrencyPolicy": "Forbid",
                    "jobTemplate": run,
                },
            },
        )
        for kind, name in ((DEPLOYMENT, "web"), (STATEFUL_SET, "db")):
            spec: dict[str, Any] = {
                "replicas": 2,
                "selector": {"matchLabels": {"app": name}},
                "template": _template(name),
            }
            if kind is STATEFUL_SET:
                spec["serviceName"] = name
            await lab.create(kind, {"metadata": {"name": name}, "spec": spec})
        await lab.job("batch", pods=2, gpus=1, queue="team")
        for name in ("web", "db", "batch"):
            await lab.until_running(name, 2)
        # The schedule's next minute.
        await lab.until_running("calendar", 1)
        sizes: dict[str, list[int]] = defaultdict(list)
        for group in await lab.all(POD_GROUP, "default"):
            sizes[group["metadata"]["name"].split("-")[1]].append(group["spec"]["minMember"])
        assert sizes == {"web": [1, 1], "db": [1], "batch": [2], "calendar": [1]}
        for kind, name in ((CRON_JOB, "calendar"), (DEPLOYMENT, "web"), (STATEFUL_SET, "db")):
            await lab.cluster.writer.delete(kind, Key("default", name), _WITH_PARTS)

    on_kube(product_plane, scenario, _A_NODE)


_ONCE = {"restartPolicy": "Never"}


def _template(app: str) -> dict[str, Any]:
    body = pod_body("", gpus=1, queue="team", labels={"app": app})
    return {"metadata": {"labels": body["metadata"]["labels"]}, "spec": body["spec"]}


def _counted(specs: Iterable[Any]) -> Counter[str]:
    return Counter(json.dumps(spec, sort_keys=True) for spec in specs)


def _definitions() -> list[dict[str, Any]]:
    """One CRD for each custom kind, with all the versions that the pairs use."""
    versions: dict[tuple[str, str], set[str]] = defaultdict(set)
    for golden in _CUSTOM:
        for api_version, kind in golden.custom_kinds():
            group, _, version = api_version.rpartition("/")
            versions[(group, kind)].add(version)
    found = []
    for (group, kind), names in sorted(versions.items()):
        first, *others = sorted(names)
        found.append(any_shape(f"{group}/{first}", kind, *others))
    return found


async def _create(lab: Lab, golden: Golden) -> dict[str, str]:
    """Everything of a pair in a namespace of its own; uid -> `uid(Kind/name)`."""
    made: dict[str, Plain] = {}
    for thing, owner in golden.things():
        if owner:
            thing["metadata"]["ownerReferences"] = [owner_of(made[owner])]
        stored = await lab.cluster.writer.create(kind_of(thing), thing, golden.name)
        made[f"{thing['kind']}/{thing['metadata']['name']}"] = {**thing, **stored}
    return {thing["metadata"]["uid"]: f"uid({name})" for name, thing in made.items()}


def _named(text: str, uids: dict[str, str]) -> str:
    for uid, name in uids.items():
        text = text.replace(uid, name)
    return text


def _member(pod: Plain, uids: dict[str, str]) -> str:
    group = _named(pod["metadata"]["annotations"]["pod-group-name"], uids)
    part = pod["metadata"].get("labels", {}).get("kai.scheduler/subgroup-name")
    return f"{group}/{part}" if part else group


def test_a_priority_class_that_is_not_there_is_told_at_the_pod() -> None:
    async def scenario(lab: Lab) -> None:
        body = pod_body("high")
        body["metadata"]["labels"]["priorityClassName"] = "hgih"
        await lab.create(POD, body)
        await lab.laptop.settled()
        (said,) = await lab.messages("PodGrouperWarning", "high")
        assert 'the label "priorityClassName" names hgih, and there is no such class' in said

    in_lab(scenario, _GROUPER_ALONE)
