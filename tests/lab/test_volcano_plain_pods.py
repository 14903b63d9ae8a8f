"""Pods of Deployments, StatefulSets and Jobs under Volcano's profile: the groups made for them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.lab.test_volcano_jobs import GROUP, OURS, QUEUE
from tests.support.lab import POD, Lab, in_lab

from muster.api.meta import Key
from muster.api.profiles import ProfileName
from muster.client.kinds import Plain, plain_kind
from muster.services.scheduler.cycle_dump import decode_dump

DEPLOYMENT = plain_kind("apps", "v1", "Deployment", "deployments")
BATCH_JOB = plain_kind("batch", "v1", "Job", "jobs")


def pod_template(**notes: str) -> dict[str, Any]:
    container = {
        "name": "c",
        "image": "i",
        "resources": {"requests": {"cpu": "20"}, "limits": {"cpu": "20"}},
    }
    spec = {"schedulerName": "volcano", "containers": [container]}
    return {"metadata": {"labels": {"app": "x"}, "annotations": notes}, "spec": spec}


def deployment(replicas: int, **notes: str) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "x"}}
    spec = {"replicas": replicas, "selector": selector, "template": pod_template()}
    return {"metadata": {"name": "serve", "annotations": notes}, "spec": spec}


async def running(lab: Lab) -> list[str]:
    pods = await lab.all(POD)
    return [one["metadata"]["name"] for one in pods if one["spec"].get("nodeName")]


async def scale(lab: Lab, replicas: int) -> None:
    key = Key(lab.namespace, "serve")
    await lab.cluster.writer.patch(DEPLOYMENT, key, {"spec": {"replicas": replicas}})


async def until_groups(lab: Lab, count: int) -> list[Plain]:
    async def so() -> bool:
        return len(await lab.all(GROUP)) == count

    await lab.until(so, why=f"{count} groups")
    return await lab.all(GROUP)


def test_a_plain_pod_gets_a_group_of_its_owner() -> None:
    async def story(lab: Lab) -> None:
        body = {
            "metadata": {
                "name": "plain",
                "annotations": {"scheduling.volcano.sh/queue-name": "research"},
            },
            "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "i"}]},
        }
        made = await lab.create(POD, body)

        async def told() -> bool:
            said = await lab.messages("PodGrouperWarning", "plain")
            return any("there is no queue research" in one for one in said)

        async def grouped() -> bool:
            return bool(await lab.all(GROUP))

        await lab.until(told)
        await lab.create(QUEUE, {"metadata": {"name": "research"}, "spec": {}})

        await lab.until(grouped)
        (group,) = await lab.all(GROUP)
        assert group["metadata"]["name"] == f"podgroup-{made['metadata']['uid']}"
        assert group["spec"]["queue"] == "research"
        await lab.clock.sleep(1.0)
        notes = (await lab.get(POD, "plain"))["metadata"]["annotations"]
        assert notes["scheduling.k8s.io/group-name"] == group["metadata"]["name"]

    in_lab(story, OURS)


def test_what_a_deployment_says_of_its_pods_holds_for_their_group() -> None:
    """Its minimum: there is room for four pods, so that of five that must start together none do.
    Its ReplicaSet hands the annotations down."""

    async def story(lab: Lab) -> None:
        await lab.create(QUEUE, {"metadata": {"name": "research"}, "spec": {}})
        notes = {
            "scheduling.volcano.sh/group-min-member": "5",
            "scheduling.volcano.sh/queue-name": "research",
            "volcano.sh/preemptable": "true",
        }
        await lab.create(DEPLOYMENT, deployment(5, **notes))
        (group,) = await until_groups(lab, 1)
        assert (group["spec"]["minMember"], group["spec"]["queue"]) == (5, "research")
        assert group["metadata"]["annotations"]["volcano.sh/preemptable"] == "true"
        await lab.clock.sleep(20.0)
        assert await running(lab) == []

        patch = {"spec": {"minMember": 4}}
        await lab.cluster.writer.patch(GROUP, Key(lab.namespace, group["metadata"]["name"]), patch)

        async def four_run() -> bool:
            return len(await running(lab)) == 4

        await lab.until(four_run)

    in_lab(story, OURS)


def test_the_group_of_pods_that_were_scaled_away_goes_and_comes_back() -> None:
    """A group that stays would be let in again, and keep its queue from being closed."""

    async def story(lab: Lab) -> None:
        await lab.create(DEPLOYMENT, deployment(2))
        (first,) = await until_groups(lab, 1)

        async def two_run() -> bool:
            return len(await running(lab)) == 2

        await lab.until(two_run)
        await scale(lab, 0)
        await until_groups(lab, 0)
        await scale(lab, 2)
        (again,) = await until_groups(lab, 1)
        assert again["metadata"]["uid"] != first["metadata"]["uid"]
        await lab.until(two_run)

    in_lab(story, OURS)


def test_a_group_that_is_deleted_under_its_pods_is_made_anew() -> None:
    """As when it was scaled away in the moment in which pods came again."""

    async def story(lab: Lab) -> None:
        await lab.create(DEPLOYMENT, deployment(2))
        (group,) = await until_groups(lab, 1)
        await lab.cluster.writer.delete(GROUP, Key(lab.namespace, group["metadata"]["name"]))

        async def is_another() -> bool:
            uids = [one["metadata"]["uid"] for one in await lab.all(GROUP)]
            return len(uids) == 1 and uids != [group["metadata"]["uid"]]

        await lab.until(is_another)

    in_lab(story, OURS)


def test_the_group_of_a_job_that_wants_no_replicas_by_that_name_stays() -> None:
    """A Job has no replicas: that it has no pods any more does not mean that it wants none."""

    async def story(lab: Lab) -> None:
        template = pod_template()
        template["spec"]["restartPolicy"] = "Never"
        template["metadata"]["annotations"]["sim.muster.dev/run-time"] = "2s"
        await lab.create(BATCH_JOB, {"metadata": {"name": "once"}, "spec": {"template": template}})
        (group,) = await until_groups(lab, 1)

        async def completed() -> bool:
            status = (await lab.all(GROUP))[0].get("status") or {}
            return bool(status.get("phase") == "Completed")

        await lab.until(completed)
        for pod in await lab.all(POD):
            await lab.cluster.writer.delete(POD, Key(lab.namespace, pod["metadata"]["name"]))
        await lab.clock.sleep(20.0)
        assert [one["metadata"]["uid"] for one in await lab.all(GROUP)] == [
            group["metadata"]["uid"]
        ]

    in_lab(story, OURS)


def test_the_cycles_that_are_kept_are_those_of_the_profiles_scheduler(tmp_path: Path) -> None:
    """Beside it runs one for our own objects, which has nothing to tell here."""

    async def story(lab: Lab) -> None:
        await lab.create(DEPLOYMENT, deployment(2))

        async def two_run() -> bool:
            return len(await running(lab)) == 2

        await lab.until(two_run)

    in_lab(story, replace(OURS, without=(), cycle_log_folder=tmp_path))
    dumps = [decode_dump(file.read_bytes()) for file in sorted(tmp_path.iterdir())]
    assert {dump.options.profile for dump in dumps} == {ProfileName.VOLCANO}
    assert any(dump.records.jobs for dump in dumps)


def test_how_near_pods_must_be_is_said_by_them() -> None:
    async def story(lab: Lab) -> None:
        notes = {
            "volcano.sh/network-topology-mode": "soft",
            "volcano.sh/network-topology-highest-tier": "2",
        }
        body = {**pod_template(**notes)}
        body["metadata"]["name"] = "near"
        await lab.create(POD, body)
        (group,) = await until_groups(lab, 1)
        assert group["spec"]["networkTopology"] == {"mode": "soft", "highestTierAllowed": 2}

    in_lab(story, OURS)
