"""Kubernetes' own controllers in the embedded cluster, under virtual time."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from muster.api.meta import Key
from muster.base.log import Level
from muster.client.errors import NotFound, Throttled
from muster.client.kinds import Plain
from muster.client.write import Deletion
from muster.lab.cluster import Cluster, ClusterPlan
from muster.lab.virtual_loop import LoopClock, run_virtually
from muster.sim.kubelet.nodes import Gpus, NodeGroup
from muster.sim.kubelet.stages import CRASHES, EXIT_CODE, RUN_TIME
from muster.sim.workloads.objects import (
    BUDGET,
    CLAIM,
    CRON_JOB,
    DEPLOYMENT,
    JOB,
    NODE,
    POD,
    QUOTA,
    REPLICA_SET,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
    STATEFUL_SET,
    STORAGE_CLASS,
    VOLUME,
    is_ready,
    phase,
)

NODES = (NodeGroup("n", count=3, cpu="32", gpus=Gpus()),)


def in_lab(test: Callable[[Cluster], Awaitable[None]]) -> None:
    async def main(clock: LoopClock) -> None:
        async with Cluster(ClusterPlan(nodes=NODES, log_level=Level.ERROR), clock=clock) as lab:
            await test(lab)

    run_virtually(main)


def template(
    app: str = "web", notes: Mapping[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    containers = [{"name": "main", "image": spec.pop("image", "v1")}]
    body = {"nodeName": "n-0", "containers": containers} | spec
    return {"metadata": {"labels": {"app": app}, "annotations": dict(notes or {})}, "spec": body}


def web(replicas: int = 3, **changed: Any) -> Plain:
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": changed.pop("template", template()),
    }
    return {"metadata": {"name": "web"}, "spec": spec | changed}


def job(name: str = "job", notes: Mapping[str, str] | None = None, **spec: Any) -> Plain:
    policy = spec.pop("restartPolicy", "Never")
    made = template("job", notes or {RUN_TIME: "30s"}, restartPolicy=policy)
    return {"metadata": {"name": name}, "spec": {"template": made} | spec}


async def pods(lab: Cluster, app: str = "web") -> list[Plain]:
    found = (await lab.reader.list(POD)).objects
    return [pod for pod in found if (pod["metadata"].get("labels") or {}).get("app") == app]


async def condition(lab: Cluster, name: str = "job") -> tuple[str, str]:
    status = (await lab.reader.get(JOB, Key("default", name))).get("status") or {}
    for each in status.get("conditions") or ():
        if each["status"] == "True" and each["type"] in ("Complete", "Failed"):
            return each["type"], each["reason"]
    return "", ""


WEB = Key("default", "web")


def test_a_deployment_maintains_its_replica_count() -> None:
    async def test(lab: Cluster) -> None:
        await lab.writer.create(DEPLOYMENT, web(), "default")
        await lab.clock.sleep(5)
        first = await pods(lab)
        assert [phase(pod) for pod in first] == ["Running"] * 3
        name = first[0]["metadata"]["name"]
        await lab.writer.delete(POD, Key("default", name))
        await lab.writer.patch(DEPLOYMENT, WEB, {"spec": {"replicas": 5}})
        await lab.clock.sleep(10)
        names = [pod["metadata"]["name"] for pod in await pods(lab)]
        assert len(names) == 5
        assert name not in names
        await lab.writer.patch(DEPLOYMENT, WEB, {"spec": {"replicas": 1}})
        await lab.clock.sleep(10)
        assert len(await pods(lab)) == 1
        status = (await lab.reader.get(DEPLOYMENT, WEB))["status"]
        assert (status["replicas"], status["availableReplicas"]) == (1, 1)

    in_lab(test)


def test_a_rolling_update_respects_max_unavailable() -> None:
    async def test(lab: Cluster) -> None:
        await lab.writer.create(DEPLOYMENT, web(4), "default")
        await lab.clock.sleep(5)
        newer = {"spec": {"template": template(image="v2")}}
        await lab.writer.patch(DEPLOYMENT, WEB, newer)
        least = 4
        for _ in range(60):
            await lab.clock.sleep(0.5)
            least = min(least, sum(is_ready(pod) for pod in await pods(lab)))
        assert least >= 3
        images = [pod["spec"]["containers"][0]["image"] for pod in await pods(lab)]
        assert images == ["v2"] * 4
        sets = (await lab.reader.list(REPLICA_SET)).objects
        assert sorted(each["spec"]["replicas"] for each in sets) == [0, 4]

    in_lab(test)


def test_deleting_a_deployment_deletes_its_dependents() -> None:
    async def test(lab: Cluster) -> None:
        await lab.writer.create(DEPLOYMENT, web(), "default")
        await lab.clock.sleep(5)
        await lab.writer.delete(DEPLOYMENT, WEB)
        await lab.clock.sleep(60)
        assert await pods(lab) == []
        assert (await lab.reader.list(REPLICA_SET)).objects == []

    in_lab(test)


def test_a_stateful_set_starts_its_pods_in_order_with_their_claims() -> None:
    async def test(lab: Cluster) -> None:
        claim = {
            "metadata": {"name": "data"},
            "spec": {"resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"},
        }
        claim["spec"]["accessModes"] = ["ReadWriteOnce"]  # type: ignore[index]
        await lab.writer.create(
            STORAGE_CLASS, {"metadata": {"name": "fast"}, "provisioner": "sim.muster.dev"}
        )
        body = web(3, serviceName="web", volumeClaimTemplates=[claim])
        await lab.writer.create(STATEFUL_SET, body, "default")
        await lab.clock.sleep(0.5)
        assert [pod["metadata"]["name"] for pod in await pods(lab)] == ["web-0"]
        await lab.clock.sleep(20)
        found = await pods(lab)
        assert [pod["metadata"]["name"] for pod in found] == ["web-0", "web-1", "web-2"]
        assert all(is_ready(pod) for pod in found)
        claims = (await lab.reader.list(CLAIM)).objects
        assert [each["metadata"]["name"] for each in claims] == [
            "data-web-0",
            "data-web-1",
            "data-web-2",
        ]
        assert all(each["status"]["phase"] == "Bound" for each in claims)
        await lab.writer.patch(STATEFUL_SET, WEB, {"spec": {"replicas": 1}})
        await lab.clock.sleep(20)
        assert [pod["metadata"]["name"] for pod in await pods(lab)] == ["web-0"]
        assert len((await lab.reader.list(CLAIM)).objects) == 3

    in_lab(test)


def test_a_job_runs_at_its_parallelism_until_its_completions() -> None:
    async def test(lab: Cluster) -> None:
        await lab.writer.create(JOB, job(completions=5, parallelism=2), "default")
        most = 0
        for _ in range(130):
            await lab.clock.sleep(1)
            running = [pod for pod in await pods(lab, "job") if phase(pod) == "Running"]
            most = max(most, len(running))
        assert most == 2
        assert await condition(lab) == ("Complete", "CompletionsReached")
        assert len(await pods(lab, "job")) == 5

    in_lab(test)


def test_an_indexed_job_recreates_the_index_of_a_deleted_pod() -> None:
    async def test(lab: Cluster) -> None:
        body = job(completions=3, parallelism=3, completionMode="Indexed")
        await lab.writer.create(JOB, body, "default")
        await lab.clock.sleep(5)
        victim = next(
            pod for pod in await pods(lab, "job") if pod["metadata"]["name"].startswith("job-1-")
        )
        await lab.writer.delete(POD, Key("default", victim["metadata"]["name"]))
        await lab.clock.sleep(120)
        status = (await lab.reader.get(JOB, Key("default", "job")))["status"]
        assert status["completedIndexes"] == "0-2"
        assert await condition(lab) == ("Complete", "CompletionsReached")

    in_lab(test)


@pytest.mark.parametrize(
    ("spec", "notes", "wanted"),
    [
        ({"backoffLimit": 1}, {EXIT_CODE: "1", RUN_TIME: "5s"}, ("Failed", "BackoffLimitExceeded")),
        ({"activeDeadlineSeconds": 20}, {RUN_TIME: "1h"}, ("Failed", "DeadlineExceeded")),
        (
            {"restartPolicy": "OnFailure"},
            {CRASHES: "1", RUN_TIME: "5s"},
            ("Complete", "CompletionsReached"),
        ),
    ],
)
def test_a_job_completes_or_fails_by_its_spec(
    spec: dict[str, Any], notes: dict[str, str], wanted: tuple[str, str]
) -> None:
    async def test(lab: Cluster) -> None:
        await lab.writer.create(JOB, job(notes=notes, **spec), "default")
        await lab.clock.sleep(600)
        assert await condition(lab) == wanted
        assert [pod for pod in await pods(lab, "job") if phase(pod) == "Running"] == []

    in_lab(test)


def test_a_suspended_job_has_no_pods_until_it_is_resumed() -> None:
    async def test(lab: Cluster) -> None:
        await lab.writer.create(JOB, job(suspend=True), "default")
        await lab.clock.sleep(10)
        assert await pods(lab, "job") == []
        await lab.writer.patch(JOB, Key("default", "job"), {"spec": {"suspend": False}})
        await lab.clock.sleep(60)
        assert (await condition(lab))[0] == "Complete"

    in_lab(test)


def test_a_finished_job_is_deleted_after_its_ttl() -> None:
    async def test(lab: Cluster) -> None:
        await lab.writer.create(JOB, job(ttlSecondsAfterFinished=60), "default")
        await lab.clock.sleep(45)
        assert (await condition(lab))[0] == "Complete"
        await lab.clock.sleep(60)
        with pytest.raises(NotFound):
            await lab.reader.get(JOB, Key("default", "job"))
        assert await pods(lab, "job") == []

    in_lab(test)


def test_a_cron_job_creates_jobs_on_schedule_and_prunes_its_history() -> None:
    async def test(lab: Cluster) -> None:
        spec = {"schedule": "*/10 * * * *", "jobTemplate": {"spec": job()["spec"]}}
        await lab.writer.create(CRON_JOB, {"metadata": {"name": "c"}, "spec": spec}, "default")
        await lab.clock.sleep(3600 + 60)
        cron = await lab.reader.get(CRON_JOB, Key("default", "c"))
        assert cron["status"]["lastScheduleTime"] == "2026-01-01T01:00:00Z"
        jobs = (await lab.reader.list(JOB)).objects
        assert len(jobs) == 3  # what its history limit keeps

    in_lab(test)


def test_a_disruption_budget_counts_healthy_pods_and_limits_evictions() -> None:
    async def test(lab: Cluster) -> None:
        await lab.writer.create(DEPLOYMENT, web(3), "default")
        budget = {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}
        await lab.writer.create(BUDGET, {"metadata": {"name": "b"}, "spec": budget}, "default")
        await lab.clock.sleep(5)
        status = (await lab.reader.get(BUDGET, Key("default", "b")))["status"]
        assert (status["currentHealthy"], status["disruptionsAllowed"]) == (3, 1)
        names = [pod["metadata"]["name"] for pod in await pods(lab)]
        await lab.writer.evict(Key("default", names[0]))
        with pytest.raises(Throttled):
            await lab.writer.evict(Key("default", names[1]))
        await lab.clock.sleep(10)
        await lab.writer.evict(Key("default", names[1]))

    in_lab(test)


def test_a_resource_quota_reports_its_usage() -> None:
    async def test(lab: Cluster) -> None:
        spec = {"hard": {"pods": "10", "count/jobs.batch": "2"}}
        await lab.writer.create(QUOTA, {"metadata": {"name": "q"}, "spec": spec}, "default")
        await lab.writer.create(JOB, job(parallelism=2), "default")
        await lab.clock.sleep(5)
        used = (await lab.reader.get(QUOTA, Key("default", "q")))["status"]["used"]
        assert used == {"count/jobs.batch": "1", "pods": "2"}

    in_lab(test)


def test_pods_of_an_unreachable_node_are_evicted_after_their_toleration_seconds() -> None:
    async def test(lab: Cluster) -> None:
        patient = template()
        patient["spec"]["tolerations"] = [{"operator": "Exists"}]
        await lab.writer.create(DEPLOYMENT, web(1), "default")
        lone = {"metadata": {"name": "stays", "labels": {"app": "stays"}}, "spec": patient["spec"]}
        await lab.writer.create(POD, lone, "default")
        await lab.clock.sleep(5)
        lab.fleet.fail("n-0")
        await lab.clock.sleep(120)
        node = await lab.reader.get(NODE, Key("", "n-0"))
        ready = next(c for c in node["status"]["conditions"] if c["type"] == "Ready")
        assert ready["status"] == "Unknown"
        assert {"node.kubernetes.io/unreachable"} == {t["key"] for t in node["spec"]["taints"]}
        assert not (await pods(lab))[0]["metadata"].get("deletionTimestamp")
        await lab.clock.sleep(320)
        gone = [p for p in await pods(lab) if p["metadata"].get("deletionTimestamp")]
        assert len(gone) == 1
        assert not (await pods(lab, "stays"))[0]["metadata"].get("deletionTimestamp")
        lab.fleet.recover("n-0")
        await lab.clock.sleep(30)
        node = await lab.reader.get(NODE, Key("", "n-0"))
        assert "taints" not in node["spec"]
        assert [phase(pod) for pod in await pods(lab)] == ["Running"]

    in_lab(test)


def test_pods_of_a_deleted_node_are_garbage_collected() -> None:
    async def test(lab: Cluster) -> None:
        spec = template()["spec"] | {"nodeName": "n-2"}
        await lab.writer.create(POD, {"metadata": {"name": "p"}, "spec": spec}, "default")
        await lab.clock.sleep(5)
        lab.fleet.fail("n-2")
        await lab.writer.delete(NODE, Key("", "n-2"))
        await lab.clock.sleep(5)
        with pytest.raises(NotFound):
            await lab.reader.get(POD, Key("default", "p"))

    in_lab(test)


def test_a_wait_for_first_consumer_claim_binds_after_a_node_is_selected() -> None:
    async def test(lab: Cluster) -> None:
        late = {
            "metadata": {"name": "late"},
            "provisioner": "sim.muster.dev",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
        await lab.writer.create(STORAGE_CLASS, late)
        spec = {
            "storageClassName": "late",
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "5Gi"}},
        }
        await lab.writer.create(CLAIM, {"metadata": {"name": "c"}, "spec": spec}, "default")
        key = Key("default", "c")
        await lab.clock.sleep(60)
        assert (await lab.reader.get(CLAIM, key))["status"]["phase"] == "Pending"
        note = {"volume.kubernetes.io/selected-node": "n-1"}
        await lab.writer.patch(CLAIM, key, {"metadata": {"annotations": note}})
        await lab.clock.sleep(5)
        claim = await lab.reader.get(CLAIM, key)
        assert claim["status"]["phase"] == "Bound"
        volume = await lab.reader.get(VOLUME, Key("", claim["spec"]["volumeName"]))
        terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert terms[0]["matchExpressions"][0]["values"] == ["n-1"]
        await lab.writer.delete(CLAIM, key)
        await lab.clock.sleep(5)
        assert (await lab.reader.list(VOLUME)).objects == []

    in_lab(test)


def test_a_pod_gets_the_resource_claim_of_its_template_and_it_is_deleted_with_the_pod() -> None:
    async def test(lab: Cluster) -> None:
        request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
        claim_spec = {"spec": {"devices": {"requests": [request]}}}
        await lab.writer.create(
            RESOURCE_CLAIM_TEMPLATE, {"metadata": {"name": "t"}, "spec": claim_spec}, "default"
        )
        spec = template()["spec"]
        spec["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "t"}]
        await lab.writer.create(POD, {"metadata": {"name": "p"}, "spec": spec}, "default")
        await lab.clock.sleep(5)
        (claim,) = (await lab.reader.list(RESOURCE_CLAIM)).objects
        pod = await lab.reader.get(POD, Key("default", "p"))
        statuses = pod["status"]["resourceClaimStatuses"]
        assert statuses == [{"name": "gpu", "resourceClaimName": claim["metadata"]["name"]}]
        await lab.writer.delete(POD, Key("default", "p"), Deletion(grace_s=0))
        await lab.clock.sleep(5)
        assert (await lab.reader.list(RESOURCE_CLAIM)).objects == []

    in_lab(test)
