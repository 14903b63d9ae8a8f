"""Volcano Jobs from end to end: controllers, webhooks and the scheduler of Volcano's profile."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.support.apply import apply
from tests.support.lab import CONFIG_MAP, EVENT, NODE, POD, InWorld, Lab, Setting, in_lab

from muster.api.meta import Key
from muster.api.profiles import ProfileName
from muster.client.errors import Forbidden, NotFound
from muster.client.kinds import Plain, plain_kind
from muster.client.write import Deletion
from muster.services.scheduler.options import Options
from muster.sim.kubelet.nodes import NodeGroup

JOB = plain_kind("batch.volcano.sh", "v1alpha1", "Job", "jobs")
CRON_JOB = plain_kind("batch.volcano.sh", "v1alpha1", "CronJob", "cronjobs")
COMMAND = plain_kind("bus.volcano.sh", "v1alpha1", "Command", "commands")
JOB_FLOW = plain_kind("flow.volcano.sh", "v1alpha1", "JobFlow", "jobflows")
JOB_TEMPLATE = plain_kind("flow.volcano.sh", "v1alpha1", "JobTemplate", "jobtemplates")
HYPER_NODE = plain_kind(
    "topology.volcano.sh", "v1alpha1", "HyperNode", "hypernodes", namespaced=False
)
GROUP = plain_kind("scheduling.volcano.sh", "v1beta1", "PodGroup", "podgroups")
QUEUE = plain_kind("scheduling.volcano.sh", "v1beta1", "Queue", "queues", namespaced=False)
SERVICE = plain_kind("", "v1", "Service", "services")
SECRET = plain_kind("", "v1", "Secret", "secrets")

_EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "volcano"
OURS = Setting(
    nodes=(NodeGroup("node", count=4, cpu="32"),),
    options=Options(watches_claims=False),
    dialect=ProfileName.VOLCANO,
    without=("scheduler", "binder", "podgrouper", "scaleadjuster", "reservation"),
)


def job(name: str = "train", replicas: int = 2, **more: Any) -> dict[str, Any]:
    notes = more.pop("notes", {})
    template = {
        "metadata": {"annotations": notes},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "work"}],
        },
    }
    tasks = more.pop("tasks", None) or [
        {"name": "worker", "replicas": replicas, "template": template, **more.pop("task", {})}
    ]
    return {"metadata": {"name": name}, "spec": {"tasks": tasks, **more}}


async def until_phase(lab: Lab, phase: str, name: str = "train") -> Plain:
    async def so() -> bool:
        found = (await lab.get(JOB, name)).get("status") or {}
        return bool((found.get("state") or {}).get("phase") == phase)

    await lab.until(so, within_s=120, why=f"{name} is {phase}")
    return await lab.get(JOB, name)


async def fail(lab: Lab, name: str, exit_code: int) -> None:
    """As a kubelet reports a container that failed."""
    ended = {"name": "main", "image": "work", "imageID": "", "ready": False, "restartCount": 0}
    state = {"terminated": {"exitCode": exit_code, "reason": "Error"}}
    status = {"phase": "Failed", "containerStatuses": [{**ended, "state": state}]}
    await lab.cluster.writer.patch(
        POD, Key(lab.namespace, name), {"status": status}, subresource="status"
    )


async def uid_of(lab: Lab, pod: str) -> str:
    return str((await lab.get(POD, pod))["metadata"]["uid"])


async def command(lab: Lab, of: Plain, action: str, name: str) -> None:
    meta = of["metadata"]
    target = {key: of[key] for key in ("apiVersion", "kind")}
    target |= {"name": meta["name"], "uid": meta["uid"]}
    await lab.create(COMMAND, {"metadata": {"name": name}, "action": action, "target": target})


def test_a_job_with_lifecycle_policies_lives_through_a_bad_day(in_world: InWorld) -> None:
    """One exit code restarts a pod, another the job; a command stops it and lets it go on."""
    policies = [
        {"exitCode": 3, "action": "RestartPod"},
        {"event": "PodFailed", "action": "RestartJob"},
        {"event": "PodEvicted", "action": "RestartJob"},
    ]

    async def story(lab: Lab) -> None:
        await lab.create(
            JOB, job(policies=policies, maxRetry=5, plugins={"svc": [], "env": [], "ssh": []})
        )
        started = await until_phase(lab, "Running")
        first, second = [await uid_of(lab, f"train-worker-{index}") for index in (0, 1)]
        group = await lab.get(GROUP, f"train-{started['metadata']['uid']}")
        assert group["spec"]["minMember"] == 2

        await fail(lab, "train-worker-0", 3)

        async def replaced() -> bool:
            try:
                return await uid_of(lab, "train-worker-0") != first
            except NotFound:
                return False

        await lab.until(replaced, why="the failed pod is replaced")
        again = await until_phase(lab, "Running")
        assert again["status"]["retryCount"] == 1
        assert await uid_of(lab, "train-worker-1") == second

        await fail(lab, "train-worker-0", 4)
        await until_phase(lab, "Restarting")
        again = await until_phase(lab, "Running")
        assert (again["status"]["retryCount"], again["status"]["version"]) == (2, 1)
        assert await uid_of(lab, "train-worker-1") != second

        await command(lab, again, "AbortJob", "stop")
        stopped = await until_phase(lab, "Aborted")
        assert not await lab.running("train")
        await command(lab, stopped, "ResumeJob", "go")
        resumed = await until_phase(lab, "Running")
        assert resumed["status"]["retryCount"] == 2
        assert await lab.all(COMMAND) == []

        await lab.cluster.writer.delete(POD, Key(lab.namespace, "train-worker-1"))
        await until_phase(lab, "Restarting")
        await until_phase(lab, "Running")
        hosts = (await lab.get(CONFIG_MAP, "train-svc"))["data"]
        assert hosts["VC_WORKER_HOSTS"] == "train-worker-0.train,train-worker-1.train"
        assert (await lab.get(SERVICE, "train"))["spec"]["clusterIP"] == "None"
        assert "id_rsa" in (await lab.get(SECRET, "train-ssh"))["data"]

    in_world(story, OURS)


def test_a_job_whose_pods_succeed_is_completed_and_goes_after_its_time() -> None:
    async def story(lab: Lab) -> None:
        short = {"sim.muster.dev/run-time": "5s"}
        await lab.create(JOB, job(notes=short, ttlSecondsAfterFinished=20))
        done = await until_phase(lab, "Completed")
        assert done["status"]["succeeded"] == 2

        async def gone() -> bool:
            return not await lab.all(JOB) and not await lab.all(GROUP) and not await lab.all(POD)

        await lab.until(gone, within_s=60, why="the job, its group and its pods are gone")

    in_lab(story, OURS)


def test_a_controller_that_dies_in_the_middle_of_a_restart_finishes_it() -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]

    async def story(lab: Lab) -> None:
        await lab.create(JOB, job(replicas=20, policies=policies))
        await until_phase(lab, "Running")
        await fail(lab, "train-worker-7", 1)
        service = next(one for one in lab.product.services if one.name == "volcano")

        async def restarting() -> bool:
            state = (await lab.get(JOB, "train"))["status"]["state"]
            return bool(state["phase"] == "Restarting")

        lab.look_every_s = 0.01
        await lab.until(restarting)
        await lab.laptop.kill("volcano")
        await lab.clock.sleep(10.0)
        await lab.laptop.start(service)
        again = await until_phase(lab, "Running")
        assert again["status"]["retryCount"] == 1
        assert len(await lab.running("train")) == 20

    in_lab(story, OURS)


def test_tasks_start_in_the_order_of_their_dependencies() -> None:
    def task(name: str, **more: Any) -> Mapping[str, Any]:
        return {**job()["spec"]["tasks"][0], "name": name, "replicas": 1, **more}

    async def story(lab: Lab) -> None:
        tasks = [task("last", dependsOn={"name": ["first"], "iteration": "any"}), task("first")]
        await lab.create(JOB, job(tasks=tasks))
        await until_phase(lab, "Running")
        made = {
            one["metadata"]["name"]: one["metadata"]["creationTimestamp"]
            for one in await lab.all(POD)
        }
        assert made["train-first-0"] < made["train-last-0"]

    in_lab(story, OURS)


def test_a_cron_job_makes_a_job_each_minute_and_keeps_the_last() -> None:
    async def story(lab: Lab) -> None:
        template = {"spec": job(notes={"sim.muster.dev/run-time": "1s"})["spec"]}
        spec = {
            "schedule": "* * * * *",
            "jobTemplate": template,
            "successfulJobsHistoryLimit": 2,
        }
        await lab.create(CRON_JOB, {"metadata": {"name": "nightly"}, "spec": spec})
        for _ in range(50):
            await lab.clock.sleep(5.0)
        jobs = await lab.all(JOB)
        assert 2 <= len(jobs) <= 3, [one["metadata"]["name"] for one in jobs]
        assert (await lab.get(CRON_JOB, "nightly"))["status"]["lastSuccessfulTime"]

    in_lab(story, OURS)


def test_a_flow_makes_each_job_when_those_before_it_are_completed(in_world: InWorld) -> None:
    """The one that the first of them fails makes no more; the other is gone when it is done."""

    async def story(lab: Lab) -> None:
        for name in ("fetch", "train", "odd"):
            spec = job(replicas=1, policies=[{"event": "PodFailed", "action": "TerminateJob"}])
            await lab.create(JOB_TEMPLATE, {"metadata": {"name": name}, "spec": spec["spec"]})
        steps = [{"name": "train", "dependsOn": {"targets": ["fetch"]}}, {"name": "fetch"}]
        good = {"flows": steps, "jobRetainPolicy": "delete"}
        await lab.create(JOB_FLOW, {"metadata": {"name": "good"}, "spec": good})
        steps = [{"name": "odd"}, {"name": "train", "dependsOn": {"targets": ["odd"]}}]
        await lab.create(JOB_FLOW, {"metadata": {"name": "bad"}, "spec": {"flows": steps}})
        await lab.until_running("bad-odd", 1)

        async def so(name: str, phase: str) -> bool:
            status = (await lab.get(JOB_FLOW, name)).get("status") or {}
            return bool((status.get("state") or {}).get("phase") == phase)

        for name in ("fetch", "train"):
            await lab.until_running(f"good-{name}", 1)
            assert len(await lab.running("good")) == 1
            pod = Key(lab.namespace, f"good-{name}-worker-0")
            done = {"status": {"phase": "Succeeded"}}
            await lab.cluster.writer.patch(POD, pod, done, subresource="status")
        await lab.until(lambda: so("good", "Succeed"), within_s=120)
        lives = (await lab.get(JOB_FLOW, "good"))["status"]["jobStatusList"]
        ended = {one["name"]: one["endTimestamp"] for one in lives}
        begun = {one["name"]: one["startTimestamp"] for one in lives}
        assert begun["good-train"] >= ended["good-fetch"]
        await fail(lab, "bad-odd-worker-0", 1)
        await lab.until(lambda: so("bad", "Failed"), within_s=120)

        async def only_the_bad_is_left() -> bool:
            return [one["metadata"]["name"] for one in await lab.all(JOB)] == ["bad-odd"]

        await lab.until(only_the_bad_is_left)
        await lab.until(lambda: _is_named(lab, "odd", ["bad-odd"]))
        waits = {"name": "a", "dependsOn": {"targets": ["b"]}}
        wrong = {"metadata": {"name": "no"}, "spec": {"flows": [waits]}}
        with pytest.raises(Forbidden, match=r"dependsOn\.targets: there is no step b"):
            await lab.create(JOB_FLOW, wrong)
        await lab.cluster.writer.delete(JOB_FLOW, Key(lab.namespace, "bad"))

        async def is_gone() -> bool:
            return not await lab.all(JOB)

        await lab.until(is_gone, why="jobs go with their flow")

    in_world(story, OURS)


async def _is_named(lab: Lab, template: str, jobs: list[str]) -> bool:
    status = (await lab.get(JOB_TEMPLATE, template)).get("status") or {}
    return bool(status.get("jobDependsOnList") == jobs)


def test_a_hyper_node_says_how_many_nodes_are_below_it() -> None:
    async def story(lab: Lab) -> None:
        members = [{"type": "Node", "selector": {"regexMatch": {"pattern": "^node-"}}}]
        spec = {"tier": 1, "members": members}
        await lab.create(HYPER_NODE, {"metadata": {"name": "rack"}, "spec": spec})

        async def says(count: int) -> bool:
            status = (await lab.get(HYPER_NODE, "rack")).get("status") or {}
            return bool(status.get("nodeCount") == count)

        await lab.until(lambda: says(4))
        await lab.cluster.writer.delete(NODE, Key("", "node-3"))
        await lab.until(lambda: says(3))

    in_lab(story, OURS)


def test_a_closed_queue_closes_those_below_and_opens_them_again() -> None:
    async def story(lab: Lab) -> None:
        for name, parent in (("top", ""), ("below", "top")):
            spec = {"parent": parent} if parent else {}
            await lab.create(QUEUE, {"metadata": {"name": name}, "spec": spec})

        async def states(top: str, below: str) -> bool:
            found = [
                (await lab.get(QUEUE, name)).get("status", {}).get("state")
                for name in ("top", "below")
            ]
            return found == [top, below]

        await lab.until(lambda: states("Open", "Open"))
        group = {"metadata": {"name": "g"}, "spec": {"minMember": 1, "queue": "below"}}
        await lab.create(GROUP, group)
        top = await lab.get(QUEUE, "top")
        await command(lab, top, "CloseQueue", "close")
        await lab.until(lambda: states("Closed", "Closing"))
        await lab.cluster.writer.delete(GROUP, Key(lab.namespace, "g"))
        await lab.until(lambda: states("Closed", "Closed"))
        await command(lab, await lab.get(QUEUE, "below"), "OpenQueue", "too-early")
        await lab.until(lambda: states("Closed", "Closed"))
        await command(lab, top, "OpenQueue", "open")
        await lab.until(lambda: states("Open", "Open"))
        # A queue belongs to everybody: a tenant's namespace has no say.
        other = plain_kind("", "v1", "Namespace", "namespaces", namespaced=False)
        await lab.create(other, {"metadata": {"name": "tenant"}})
        lab.namespace = "tenant"
        await command(lab, top, "CloseQueue", "mine")
        await lab.clock.sleep(30.0)
        assert await states("Open", "Open")

    in_lab(story, OURS)


def test_a_job_that_the_server_refuses_pods_of_says_so() -> None:
    async def story(lab: Lab) -> None:
        broken = job()
        broken["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["name"] = "Not A Name"
        await lab.create(JOB, broken)
        await lab.create(JOB, job("fine"))
        await until_phase(lab, "Running", "fine")
        told = [one["message"] for one in await lab.all(EVENT) if one["reason"] == "FailedCreate"]
        assert any("containers[0].name" in message for message in told), told
        await lab.cluster.writer.delete(JOB, Key(lab.namespace, "train"), Deletion())

    in_lab(story, OURS)


def test_the_examples_run_to_their_ends() -> None:
    """The training job completes with its master; the pipeline's reader comes after its store."""

    async def story(lab: Lab) -> None:
        for name in ("queues", "training", "pipeline", "nightly"):
            await apply(lab, (_EXAMPLES / f"{name}.yaml").read_text())
        await until_phase(lab, "Running", "training")
        master = await lab.get(POD, "training-worker-2")
        names = {one["name"]: one.get("value") for one in master["spec"]["containers"][0]["env"]}
        assert (names["RANK"], names["WORLD_SIZE"]) == ("3", "4")
        assert names["MASTER_ADDR"] == "training-master-0.training"
        await until_phase(lab, "Running", "pipeline")
        await until_phase(lab, "Completed", "training")
        await until_phase(lab, "Completed", "pipeline")
        assert (await lab.get(CRON_JOB, "nightly"))["spec"]["timeZone"] == "Europe/Berlin"

    in_lab(story, OURS)


def test_pods_go_where_their_image_is_already() -> None:
    async def story(lab: Lab) -> None:
        image = {"names": ["work:latest"], "sizeBytes": 4 << 30}
        await lab.cluster.writer.patch(
            NODE, Key("", "node-2"), {"status": {"images": [image]}}, subresource="status"
        )
        await lab.create(JOB, job(replicas=1))
        await until_phase(lab, "Running")
        assert (await lab.get(POD, "train-worker-0"))["spec"]["nodeName"] == "node-2"

    in_lab(story, OURS)


def test_what_the_webhooks_refuse_never_reaches_the_controllers() -> None:
    async def story(lab: Lab) -> None:
        with pytest.raises(Forbidden, match=r"spec\.minAvailable: 3 is more than the 2 pods"):
            await lab.create(JOB, job(minAvailable=3))
        await lab.create(QUEUE, {"metadata": {"name": "shut"}, "spec": {}})
        await lab.clock.sleep(5.0)
        await command(lab, await lab.get(QUEUE, "shut"), "CloseQueue", "close")
        await lab.clock.sleep(5.0)
        with pytest.raises(Forbidden, match=r"spec\.queue: queue shut is Closed"):
            await lab.create(JOB, job(queue="shut"))

    in_lab(story, OURS)
